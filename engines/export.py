"""Writes the network as one ONNX file with its manifest, and checks that both say the same."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn

from engines.network import ENCODED_INPUTS, PolicyNetwork, Widths, untrained
from onboard.config import RatesSection
from onboard.contract import CONTRACT_VERSION, INPUTS, OUTPUTS, TensorType
from onboard.drivers.onnx_engine import OnnxEngine
from onboard.errors import InputError
from onboard.manifest import Manifest, TensorEntry, save_manifest, sha256_of
from onboard.parity import PARITY_STEPS, Parity, compare

OPSET = 17
"""Known to TensorRT 8.6 and 10 and to every ONNX Runtime since 1.12."""

INPUT_NAMES = (*ENCODED_INPUTS, "memory_in")
OUTPUT_NAMES = ("logits", "value", "memory_out")

HALF_PRECISION_NODES = ("/network/rgb/",)
"""Most of the work is in the ResNet, which half precision does not harm; the GRU would drift."""


class _Exported(nn.Module):
    """The network without its auxiliary head, outputs in the order of OUTPUT_NAMES."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        step = self.network(*inputs)
        return step.logits, step.value, step.memory


class TorchEngine:
    """The network itself behind `interfaces.Engine`, as the reference of the parity check."""

    name = "torch"

    def __init__(self, network: PolicyNetwork) -> None:
        self._network = _Exported(network.eval())

    def warm_up(self) -> None:
        """Nothing to warm."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the outputs by name."""
        with torch.inference_mode():
            outputs = self._network(*(torch.from_numpy(tensors[name]) for name in INPUT_NAMES))
        return {name: output.numpy() for name, output in zip(OUTPUT_NAMES, outputs, strict=True)}

    def close(self) -> None:
        """Nothing to release."""


def tensor_types(memory_shape: tuple[int, int]) -> dict[str, TensorType]:
    """Return the type of every tensor of the exported model, by name."""
    table = {**INPUTS, **OUTPUTS}
    types = {name: table[name].type for name in (*INPUT_NAMES, *OUTPUT_NAMES)}
    layers, width = memory_shape
    for name in ("memory_in", "memory_out"):
        types[name] = TensorType((layers, 1, width), "float32")
    return types


def write_onnx(model: Path, network: PolicyNetwork) -> None:
    """Write the ONNX model of one decision step for a batch of 1, all weights inside; the memory in and out."""
    types = tensor_types(network.memory_shape)
    zeros = tuple(torch.from_numpy(np.zeros(types[name].shape, types[name].dtype)) for name in INPUT_NAMES)
    with warnings.catch_warnings():
        # The TorchScript exporter keeps the GRU as one node; it warns of its age and of batches other than 1.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Exported(network.eval()),
            zeros,
            str(model),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUT_NAMES),
            output_names=list(OUTPUT_NAMES),
        )


def _inline_shared_weights(model: Path) -> None:
    """Give every node its own weights. The exporter lets equal ones share an initializer through Identity nodes, which
    TensorRT's parser does not take for weights; untrained biases are all equal. Checks the model on the way.
    """
    proto = onnx.load(model)
    graph = proto.graph
    weights = {weight.name: weight for weight in graph.initializer}
    aliases = [node for node in graph.node if node.op_type == "Identity" and node.input[0] in weights]
    for node in aliases:
        copy = graph.initializer.add()
        copy.CopyFrom(weights[node.input[0]])
        copy.name = node.output[0]
        graph.node.remove(node)
    onnx.checker.check_model(proto)
    onnx.save(proto, model)


def manifest_of(network: PolicyNetwork, sha256: str, policy: str, extra: Mapping[str, Any]) -> Manifest:
    """Return the manifest of an exported network, trained at the default rates and normalisation."""
    rates = RatesSection()
    types = tensor_types(network.memory_shape)

    def entries(names: tuple[str, ...]) -> tuple[TensorEntry, ...]:
        return tuple(TensorEntry(name=name, shape=types[name].shape, dtype=types[name].dtype) for name in names)

    return Manifest(
        contract_version=CONTRACT_VERSION,
        sha256=sha256,
        policy=policy,
        inputs=entries(INPUT_NAMES),
        outputs=entries(OUTPUT_NAMES),
        training_delay_ticks=rates.delay_ticks,
        control_hz=rates.control_hz,
        decision_hz=rates.control_hz / rates.ticks_per_decision,
        memory_shape=network.memory_shape,
        half_precision_nodes=HALF_PRECISION_NODES,
        extra=dict(extra),
    )


def trained_network(checkpoint: Path, widths: Widths) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Return the network with the weights of a state dict saved by `torch.save`, and what its manifest says of them.

    Raises ConfigError when the file cannot be read, InputError when it does not hold the weights of this network.
    """
    network = PolicyNetwork(widths)
    digest = sha256_of(checkpoint)
    if not zipfile.is_zipfile(checkpoint):
        raise InputError(f"{checkpoint}: not a file by torch.save, or a truncated one")
    try:
        network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, EOFError, KeyError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"{checkpoint}: not the weights of this network: {reason}") from error
    return network.eval(), {"weights": f"checkpoint {checkpoint.name}, sha256 {digest}"}


def export(
    model: Path, network: PolicyNetwork, policy: str, extra: Mapping[str, Any], *, steps: int = PARITY_STEPS
) -> tuple[Manifest, Parity]:
    """Write `model` and its manifest; return the manifest and how far ONNX Runtime agrees with PyTorch.

    Raises InputError when the file cannot be written, EngineError when ONNX Runtime does not take the model.
    """
    try:
        write_onnx(model, network)
        _inline_shared_weights(model)
        manifest = manifest_of(network, sha256_of(model), policy, extra)
        save_manifest(model, manifest)
    except OSError as error:
        raise InputError(f"{model}: cannot be written: {error.strerror}") from error
    engine = OnnxEngine(model)
    try:
        return manifest, compare(engine, TorchEngine(network), manifest, steps=steps)
    finally:
        engine.close()


def untrained_network(seed: int, widths: Widths) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Return a network without training, and what its manifest says of that."""
    return untrained(seed, widths), {"weights": f"untrained, initial weights by seed {seed}"}
