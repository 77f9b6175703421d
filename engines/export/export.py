"""Writes the network as ONNX with its manifest, and checks the model against PyTorch."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn

from engines.export.fp16 import MIN_AGREEMENT, Agreement, compare_policies, halve
from engines.network.network import PAPER_VARIANT, PolicyNetwork, Variant, Widths, untrained
from engines.network.policy_checkpoint import (
    CONTROL_HZ,
    DECISION_HZ,
    DELAY_TICKS,
    MANIFEST_FIELDS,
    MEMORY_RESET_S,
    PolicyFile,
)
from onboard import __version__
from onboard.config.config import RatesSection
from onboard.config.toml_file import checked
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import CONTRACT_VERSION, INPUTS, OUTPUTS, TensorType
from onboard.policy.manifest import (
    MANIFEST_SUFFIX,
    Manifest,
    TensorEntry,
    Weights,
    check_engine,
    paper_manifest,
    save_manifest,
    sha256_of,
)
from onboard.policy.network_policy import NetworkPolicy
from onboard.policy.parity import PARITY_STEPS, Parity, compare
from onboard.values.errors import DisagreementError, InputError
from onboard.values.messages import Observation

# ---- Atomic replacement of a model and its manifest


@contextlib.contextmanager
def staged(model: Path) -> Iterator[Path]:
    """Give a path in a temporary folder for the model and its manifest; replace both at the end of the context.

    If the body raises or the process is killed, the old pair stays. The model is replaced first. A kill between the two
    leaves a manifest whose hash does not fit, which every loader refuses.
    Raises InputError if a file cannot be written.
    """
    folder = model.with_name(f".{model.name}.part")
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of an export that was killed
        folder.mkdir()
        yield folder / model.name
        for written in sorted(folder.iterdir(), key=lambda path: path.name != model.name):
            _synchronize(written)
            os.replace(written, model.with_name(written.name))
        _synchronize(model.parent)
    except OSError as error:
        raise InputError(f"{model}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _synchronize(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


OPSET = 17
"""Supported by TensorRT 8.6 and 10, and by ONNX Runtime since 1.12."""

OUTPUT_NAMES = ("logits", "value", "memory_out")

HALF_PRECISION_NODES = ("/network/rgb/",)
"""The ResNet has most of the work and tolerates half precision; the GRU would drift."""
AGREEMENT = "agreement"
HALF_SEQUENCES = 10
"""Random sequences for the comparison of half weights."""


class Exported(NamedTuple):
    """An export: manifest, parity over random sequences, and the agreement that decided on it."""

    manifest: Manifest
    parity: Parity
    agreement: Agreement


class _DecisionStep(nn.Module):
    """The network without its auxiliary head, outputs in the order of OUTPUT_NAMES."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        step = self.network(*inputs)
        return step.logits, step.value, step.memory


class TorchEngine:
    """The PyTorch network as `interfaces.Engine`, the reference of the parity check."""

    name = "torch"

    def __init__(self, network: PolicyNetwork) -> None:
        self._names = network.inputs
        self._network = _DecisionStep(network.eval())

    def warm_up(self) -> None:
        """Nothing to warm."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the outputs by name."""
        with torch.inference_mode():
            outputs = self._network(*(torch.from_numpy(tensors[name]) for name in self._names))
        return {name: output.numpy() for name, output in zip(OUTPUT_NAMES, outputs, strict=True)}

    def close(self) -> None:
        """Nothing to release."""


def tensor_types(network: PolicyNetwork) -> dict[str, TensorType]:
    """Return the type of each tensor of the exported model by name, inputs first, in order."""
    table = {**INPUTS, **OUTPUTS}
    types = {name: table[name].type for name in (*network.inputs, *OUTPUT_NAMES)}
    layers, width = network.memory_shape
    return types | {name: TensorType((layers, 1, width), "float32") for name in ("memory_in", "memory_out")}


def onnx_model(network: PolicyNetwork, weights: Weights = "float32") -> onnx.ModelProto:
    """Return the model of a decision step for a batch of 1, with all weights.

    Raises InputError for weights beyond half precision.
    """
    types = tensor_types(network)
    zeros = tuple(torch.from_numpy(np.zeros(types[name].shape, types[name].dtype)) for name in network.inputs)
    content = io.BytesIO()
    with warnings.catch_warnings():
        # The TorchScript exporter keeps the GRU as one node; it warns of its age and of batches other than 1.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _DecisionStep(network.eval()),
            zeros,
            content,  # type: ignore[arg-type]  # the TorchScript exporter writes to streams; the types name files only
            dynamo=False,
            opset_version=OPSET,
            input_names=list(network.inputs),
            output_names=list(OUTPUT_NAMES),
        )
    proto = onnx.load_from_string(content.getvalue())
    inline_shared_weights(proto)
    if weights == "float16":
        halve(proto)
    onnx.checker.check_model(proto)
    return proto


def inline_shared_weights(proto: onnx.ModelProto) -> None:
    """Give each node its own weights.

    The exporter shares equal weights, such as untrained biases, through Identity nodes. TensorRT's parser does not
    accept these as weights.
    """
    graph = proto.graph
    weights = {weight.name: weight for weight in graph.initializer}
    aliases = [node for node in graph.node if node.op_type == "Identity" and node.input[0] in weights]
    for node in aliases:
        copy = graph.initializer.add()
        copy.CopyFrom(weights[node.input[0]])
        copy.name = node.output[0]
        graph.node.remove(node)


def manifest_of(
    network: PolicyNetwork, sha256: str, policy: str, extra: Mapping[str, Any], weights: Weights = "float32"
) -> Manifest:
    """Return the manifest of an exported network, trained with the default normalisation.

    extra: origin and training of the weights; `MANIFEST_FIELDS` in it become fields of the manifest, missing rates are
           the defaults
    Raises InputError for values that a manifest does not allow.
    """
    rates = RatesSection()
    decision_hz = rates.control_hz / rates.ticks_per_decision
    usual = {DELAY_TICKS: rates.delay_ticks, CONTROL_HZ: rates.control_hz, DECISION_HZ: decision_hz}
    stated = {**usual, MEMORY_RESET_S: None, **extra}
    types = tensor_types(network)

    def entries(names: tuple[str, ...]) -> tuple[TensorEntry, ...]:
        return tuple(TensorEntry(name=name, shape=types[name].shape, dtype=types[name].dtype) for name in names)

    from_network = {"onboard": __version__, "widths": asdict(network.widths), "variant": asdict(network.variant)}
    with checked(Path(f"{policy}{MANIFEST_SUFFIX}"), InputError):
        return Manifest(
            contract_version=CONTRACT_VERSION,
            sha256=sha256,
            policy=policy,
            inputs=entries(network.inputs),
            outputs=entries(OUTPUT_NAMES),
            **{name: stated.pop(name) for name in MANIFEST_FIELDS},
            memory_shape=network.memory_shape,
            weights=weights,
            half_precision_nodes=HALF_PRECISION_NODES if network.variant.rgb else (),
            extra={**stated, **from_network},
        )


def manifest_extra(trained: PolicyFile) -> dict[str, Any]:
    """Return `extra` of `export` for trained weights."""
    meta = dict(trained.meta)
    own = {name: meta.pop(name) for name in MANIFEST_FIELDS if name in meta}
    return {"origin": trained.origin, "training": meta, **own}


def untrained_network(
    seed: int, widths: Widths, variant: Variant = PAPER_VARIANT
) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Return an untrained network, and `extra` of `export` for it."""
    return untrained(seed, widths, variant), {"origin": f"untrained, initial weights by seed {seed}"}


def export(
    model: Path,
    network: PolicyNetwork,
    policy: str,
    extra: Mapping[str, Any],
    *,
    weights: Weights = "float32",
    recorded: Sequence[Sequence[Observation]] = (),
    drives: int = 0,
    steps: int = PARITY_STEPS,
) -> Exported:
    """Write `model` and its manifest; return the agreement of ONNX Runtime with PyTorch.

    extra:    origin and training of the weights (`manifest_of`)
    recorded: sequences of decisions of `drives` drives; if given, half weights are compared on these alone
    The manifest of half weights states the comparison: `AGREEMENT` in its `extra`, with 0 drives for random sequences.
    All files are checked before the old files are replaced.
    Raises InputError if the files cannot be written, EngineError if ONNX Runtime does not load the model.
    Raises DisagreementError for another action: for float32 in any decision, for float16 in over 0.5 % of decisions.
    """
    content = onnx_model(network, weights).SerializeToString()
    with staged(model) as part:
        part.write_bytes(content)
        save_manifest(part, manifest_of(network, sha256_of(part), policy, extra, weights))
        manifest = paper_manifest(part)
        parity, found = _checked(part, manifest, network, recorded, steps)
        if weights == "float16":
            agreement = {**asdict(found), "drives": drives if recorded else 0}
            manifest = manifest.model_copy(update={"extra": {**manifest.extra, AGREEMENT: agreement}})
            save_manifest(part, manifest)
        return Exported(manifest, parity, found)


def _checked(
    model: Path, manifest: Manifest, network: PolicyNetwork, recorded: Sequence[Sequence[Observation]], steps: int
) -> tuple[Parity, Agreement]:
    half = manifest.weights == "float16"
    reference = TorchEngine(network)
    engine = OnnxEngine(model, threads=1)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        parity = compare(engine, reference, manifest, steps=steps, sequences=HALF_SEQUENCES if half else 1)
        found = Agreement(parity.steps, parity.same_action)
        if recorded:
            found = compare_policies(NetworkPolicy(engine, manifest), NetworkPolicy(reference, manifest), recorded)
    finally:
        engine.close()
    wanted = MIN_AGREEMENT if half else 1.0
    if found.fraction < wanted:
        raise DisagreementError(
            f"{model.name}: not written: with weights in {manifest.weights} it chooses {found} as the network in "
            f"float32, expected {wanted:.1%}"
        )
    return parity, found
