"""Weights back out of an exported model, so that training can begin with what ships (`--init onboard-v1`).

What the export folded stays folded: a convolution of the colour encoder comes back with its normalisation inside,
beside a normalisation that changes nothing. Decisions are the same up to rounding. The auxiliary head was not exported.
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
from onboard.config.config import MODEL_SUFFIX, model_path
from onboard.drivers.engines.onnx_engine import OnnxEngine, widen
from onboard.policy.manifest import Manifest, check_engine, load_manifest
from onboard.policy.parity import compare
from onboard.values.errors import InputError

PREFIX = "network."
MADE_ANEW = ("rgb.0.", "gru.", "auxiliary.")
WEIGHTS = "weights"
"""How an exported policy's weights are stored, beside what is said of its training."""
AUXILIARY_SEED = 0
"""Initial weights of the auxiliary head, which no model holds."""
COMPARED_STEPS = 5
MOST_OFF = 0.01
"""A logit may be off by so much of their spread; 1e-6 of it was seen, of another order of sums."""


def initial_weights(name: str) -> PolicyFile:
    """Return the network to begin with: a policy that ships, by name, an exported .onnx, or a file of the trainer.

    Raises InputError, ConfigError or EngineError in one line.
    """
    path = model_path(name)
    if path.suffix != MODEL_SUFFIX:
        return load_policy_file(path)
    manifest = load_manifest(path)
    training = manifest.extra.get("training", {})
    if not isinstance(training, Mapping):
        raise InputError(f"{path}: its manifest: extra.training: expected a table, found {training!r}")
    told = {**training, WEIGHTS: manifest.weights} if training else {}
    return PolicyFile(restored(path, manifest), f"{manifest.policy}, sha256 {manifest.sha256}", told)


def restored(model: Path, manifest: Manifest) -> PolicyNetwork:
    """Return the network of a model that `onboard-engines export` wrote.

    Raises InputError for another one, for weights that are not finite, and where it decides otherwise than the network
    that its manifest states; EngineError where ONNX Runtime finds other inputs in it than its manifest lists.
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
    """Return what the network is, as its manifest says. Raises InputError."""
    try:
        widths = Widths(**_with_tuples(manifest.extra["widths"]))
        variant = Variant(**_with_tuples(manifest.extra["variant"]))
        _check(widths, variant)
    except (AttributeError, KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(f"{model}: its manifest does not say what network it is: {error}") from error
    return widths, variant


def _check(widths: Widths, variant: Variant) -> None:
    """Raise ValueError for what no network has; the two classes take any values."""
    for name, usual in asdict(Widths()).items():
        found = getattr(widths, name)
        sizes = found if isinstance(found, tuple) else (found,)
        if np.shape(found) != np.shape(usual) or not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"widths.{name}: expected whole numbers above 0 as {usual}, found {found!r}")
    for name, usual in asdict(Variant()).items():
        if type(getattr(variant, name)) is not type(usual):
            raise ValueError(f"variant.{name}: expected a value as {usual}, found {getattr(variant, name)!r}")


def _require_same(model: Path, manifest: Manifest, network: PolicyNetwork) -> None:
    """Raise InputError where the model, over random sequences, decides otherwise than the network, EngineError where
    it does not fit its manifest. Shapes do not tell by whose pose a network sees its goal.
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
            f"{model}: decides otherwise than the network that its manifest states (variant or widths): logits differ "
            f"by up to {parity.max_logit_difference:.2g}"
        )


def _with_tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


def _fill(network: PolicyNetwork, graph: onnx.GraphProto) -> None:
    """Copy all weights. Most have kept their names; those of the ResNet and the GRU the exporter makes anew."""
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
    """Give every convolution its folded weights, and its normalisation nothing but their offset."""
    convolutions = {_path(node.name): node for node in graph.node if node.op_type == "Conv" and "/rgb/" in node.name}
    for path, convolution, normalisation in _folded(resnet):
        node = convolutions[f"rgb.0.{path}"]
        _copy(convolution.weight, weights[node.input[1]])
        normalisation.reset_parameters()
        normalisation.weight.fill_(float(np.sqrt(1.0 + normalisation.eps)))
        _copy(normalisation.bias, weights[node.input[2]])


def _path(node_name: str) -> str:
    """Return the module of a node: `/network/rgb/rgb.0/blocks/blocks.3/conv1/Conv` -> `rgb.0.blocks.3.conv1`."""
    parts = node_name.strip("/").split("/")[1:-1]
    return ".".join(part.rpartition(".")[2] for part in parts)


def _folded(resnet: nn.Module) -> list[tuple[str, Any, Any]]:
    """Return path, convolution and normalisation of every pair that the export makes one."""
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
    """ONNX stacks the gates as update, reset, new; PyTorch as reset, update, new."""
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
    """Raise RuntimeError when the shapes differ, where `copy_` would spread one over the other."""
    if target.shape != values.shape:
        raise RuntimeError(f"expected a weight of shape {tuple(target.shape)}, found {tuple(values.shape)}")
    target.copy_(values)
