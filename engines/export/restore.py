"""Restores the PyTorch network from an exported model, for `--init onboard-v1`.

The export folds each normalisation of the colour encoder into its convolution. The restored convolution keeps the
folded weights, with an identity normalisation. Decisions agree up to rounding. The auxiliary head is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError
from onnx import numpy_helper
from torch import Tensor, nn

from engines.export.export import TorchEngine
from engines.network.network import BasicBlock, PolicyNetwork, ResNet18, Variant, Widths, untrained
from engines.network.policy_checkpoint import PolicyFile, load_policy_file
from engines.runs.torch_file import require_finite
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.drivers.engines.onnx_engine import OnnxEngine, widen
from onboard.policy.manifest import Manifest, check_engine, paper_manifest
from onboard.policy.parity import compare
from onboard.values.errors import InputError

PREFIX = "network."
MADE_ANEW = ("rgb.0.", "gru.", "auxiliary.")
WEIGHTS = "weights"
"""Key of the stored precision, next to the training's description."""
AUXILIARY_SEED = 0
"""Seed of the auxiliary head, which an exported model lacks."""
COMPARED_STEPS = 5
MOST_OFF = 0.01
"""Tolerance on logits, as a share of their spread. Another order of sums gives about 1e-6."""


def initial_weights(name: str) -> PolicyFile:
    """Return a policy and its training. name: of a policy that ships, an .onnx, or the trainer's file.

    Raises InputError, ConfigError or EngineError.
    """
    path = model_path(name)
    if path.suffix != MODEL_SUFFIX:
        return load_policy_file(path)
    manifest = paper_manifest(path)
    training = manifest.extra.get("training", {})
    if not isinstance(training, Mapping):
        raise InputError(f"{path}: its manifest: extra.training: expected a table, found {training!r}")
    extra = {**training, WEIGHTS: manifest.weights} if training else {}
    return PolicyFile(restored(path, manifest), f"{manifest.policy}, sha256 {manifest.sha256}", extra)


def restored(model: Path, manifest: Manifest) -> PolicyNetwork:
    """Return the network of a model that `onboard-engines export` wrote.

    Raises InputError for another model, for weights that are not finite, and if the model decides otherwise than the
    network of its manifest. Raises EngineError if the model has other inputs than its manifest.
    """
    widths, variant = _stated(model, manifest)
    try:
        proto = onnx.load(model)
    except (OSError, DecodeError) as error:
        raise InputError(f"{model}: cannot be read: {' '.join(str(error).split())}") from error
    widen(proto)
    try:
        network = untrained(AUXILIARY_SEED, widths, variant)
        with torch.no_grad():
            _fill(network, proto.graph)
    except (KeyError, RuntimeError) as error:
        reason = str(error).strip("' \n").splitlines()[-1].strip()
        raise InputError(f"{model}: not the model of the network that its manifest states: {reason}") from error
    require_finite(model, network.state_dict())
    _require_same(model, manifest, network)
    return network


def _stated(model: Path, manifest: Manifest) -> tuple[Widths, Variant]:
    """Return sizes and variant from the manifest. Raises InputError."""
    try:
        widths = Widths(**_with_tuples(manifest.extra["widths"]))
        variant = Variant(**_with_tuples(manifest.extra["variant"]))
        _check(widths, variant)
    except (AttributeError, KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(f"{model}: its manifest does not describe its network: {error}") from error
    return widths, variant


def _check(widths: Widths, variant: Variant) -> None:
    """Raise ValueError for values of a wrong type or size; the two classes do not check."""
    for name, usual in asdict(Widths()).items():
        found = getattr(widths, name)
        sizes = found if isinstance(found, tuple) else (found,)
        if np.shape(found) != np.shape(usual) or not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"widths.{name}: expected whole numbers above 0 as {usual}, found {found!r}")
    for name, usual in asdict(Variant()).items():
        if type(getattr(variant, name)) is not type(usual):
            raise ValueError(f"variant.{name}: expected a value as {usual}, found {getattr(variant, name)!r}")


def _require_same(model: Path, manifest: Manifest, network: PolicyNetwork) -> None:
    """Raise InputError if model and network differ over random sequences, EngineError for other inputs.

    Shapes alone do not show `Variant.goal_from`.
    """
    listed = [entry.name for entry in manifest.inputs]
    if sorted(listed) != sorted(network.inputs):
        raise InputError(
            f"{model}: inputs: the network that its manifest states has {', '.join(network.inputs)}, it lists "
            f"{', '.join(listed)}"
        )
    engine = OnnxEngine(model, threads=1)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        parity = compare(engine, TorchEngine(network), manifest, steps=COMPARED_STEPS)
    finally:
        engine.close()
    if parity.max_logit_difference > MOST_OFF * parity.logit_spread:
        raise InputError(
            f"{model}: its decisions differ from the network that its manifest states (variant or widths): logits "
            "differ "
            f"by up to {parity.max_logit_difference:.2g}"
        )


def _with_tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


def _fill(network: PolicyNetwork, graph: onnx.GraphProto) -> None:
    """Copy all weights. The exporter renames only the weights of the ResNet and the GRU."""
    weights = {weight.name: _tensor(weight) for weight in graph.initializer}
    state = network.state_dict()
    kept = {name: weights[PREFIX + name] for name in state if not name.startswith(MADE_ANEW)}
    network.load_state_dict(state | kept)
    if network.variant.rgb:
        _fill_resnet(network.get_submodule("rgb.0"), graph, weights)
    _fill_gru(network.gru, graph, weights)


def _tensor(weight: onnx.TensorProto) -> Tensor:
    return torch.from_numpy(np.array(numpy_helper.to_array(weight)))


def _fill_resnet(resnet: nn.Module, graph: onnx.GraphProto, weights: dict[str, Tensor]) -> None:
    """Copy the folded weights into each convolution, and the offset into its normalisation."""
    convolutions = {_path(node.name): node for node in graph.node if node.op_type == "Conv" and "/rgb/" in node.name}
    for path, convolution, normalisation in _folded(resnet):
        node = convolutions[f"rgb.0.{path}"]
        _copy(convolution.weight, weights[node.input[1]])
        normalisation.reset_parameters()
        normalisation.weight.fill_(float(np.sqrt(1.0 + normalisation.eps)))
        _copy(normalisation.bias, weights[node.input[2]])


def _path(node_name: str) -> str:
    """Return the module path of a node: `/network/rgb/rgb.0/blocks/blocks.3/conv1/Conv` -> `rgb.0.blocks.3.conv1`."""
    parts = node_name.strip("/").split("/")[1:-1]
    return ".".join(part.rpartition(".")[2] for part in parts)


def _folded(resnet: nn.Module) -> list[tuple[str, Any, Any]]:
    """Return path, convolution and normalisation of each pair that the export folds."""
    pairs: list[tuple[str, Any, Any]] = []
    for path, module in resnet.named_modules():
        dot = f"{path}." if path else ""
        if isinstance(module, (ResNet18, BasicBlock)):
            pairs.append((f"{dot}conv1", module.conv1, module.bn1))
        if isinstance(module, BasicBlock):
            pairs.append((f"{dot}conv2", module.conv2, module.bn2))
            if isinstance(module.past, nn.Sequential):
                pairs.append((f"{dot}past.0", module.past[0], module.past[1]))
    return pairs


def _fill_gru(gru: nn.GRU, graph: onnx.GraphProto, weights: dict[str, Tensor]) -> None:
    """Copy the GRU's weights. ONNX orders the gates update, reset, new; PyTorch reset, update, new."""
    nodes = [node for node in graph.node if node.op_type == "GRU"]
    if len(nodes) != gru.num_layers:
        raise KeyError(f"{len(nodes)} recurrent layers, expected {gru.num_layers}")
    for layer, node in enumerate(nodes):
        inputs, hidden, biases = (weights[name][0] for name in node.input[1:4])
        bias_inputs, bias_hidden = biases.chunk(2)
        found = {"weight_ih": inputs, "weight_hh": hidden, "bias_ih": bias_inputs, "bias_hh": bias_hidden}
        for name, values in found.items():
            update, reset, new = values.chunk(3)
            _copy(getattr(gru, f"{name}_l{layer}"), torch.cat([reset, update, new]))


def _copy(target: Tensor, values: Tensor) -> None:
    """Copy values. Raises RuntimeError for another shape, which `copy_` would broadcast."""
    if target.shape != values.shape:
        raise RuntimeError(f"expected a weight of shape {tuple(target.shape)}, found {tuple(values.shape)}")
    target.copy_(values)
