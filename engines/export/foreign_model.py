"""An ONNX model of another training: its copy with fixed sizes, and traits that drive a robot wrongly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner, numpy_helper
from onnx.checker import ValidationError

from onboard.policy.contract import TensorType
from onboard.values.errors import InputError

# ---- The model with a batch of 1 and all weights in one file

BATCH = 1


def copied(model: Path, target: Path) -> bool:
    """Write a model with a batch of 1 and all weights inside. Return whether its batch was variable.

    Raises InputError if it cannot be read or written, or if another axis has no fixed size.
    """
    try:
        proto = onnx.load(model)
    except OSError as error:
        raise InputError(f"{model}: cannot be read: {error.strerror}") from error
    except (DecodeError, ValidationError, ValueError) as error:
        raise InputError(f"{model}: not an ONNX model: {' '.join(str(error).split())[:120]}") from error
    weights = {weight.name for weight in proto.graph.initializer}
    tensors = [one for one in proto.graph.input if one.name not in weights]
    names = _batch_names(tensors, proto.graph.output)
    fixed = False
    for one in [*tensors, *proto.graph.output]:
        for axis, size in enumerate(one.type.tensor_type.shape.dim):
            if size.HasField("dim_value"):
                continue
            if size.dim_param not in names or (axis and not size.dim_param):
                shown = size.dim_param or "?"
                raise InputError(
                    f"{model}: tensor {one.name}: axis {axis} ({shown}) has no fixed size; export it fixed"
                )
            size.dim_value, fixed = BATCH, True
    del proto.graph.value_info[:]
    try:
        target.write_bytes(proto.SerializeToString())
    except (OSError, ValueError) as error:
        raise InputError(f"{target}: cannot be written: {error}") from error
    return fixed


# ---- Random nodes

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
TRAINING = 2
"""Input of Dropout that says whether it drops values at random."""


def random_nodes(model: onnx.ModelProto, outputs: Iterable[str]) -> list[str]:
    """Return the operations that draw random numbers for some outputs, in subgraphs and functions too."""
    functions = {(function.domain, function.name): function for function in model.functions}
    fixed = {one.name: one for one in model.graph.initializer}
    fixed |= {
        node.output[0]: node.attribute[0].t
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
    }
    makers = {name: node for node in model.graph.node for name in node.output}
    waiting, seen, found = list(outputs), set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        for part in _parts(node, functions):
            waiting += part.input
            if part.op_type in RANDOM or (part.op_type == "Dropout" and _drops(part, fixed)):
                found.add(part.op_type)
    return sorted(found)


def _parts(node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto]) -> Iterator[onnx.NodeProto]:
    """Yield a node and all nodes within it."""
    yield node
    graphs = [graph for one in node.attribute for graph in ([one.g] if one.HasField("g") else one.graphs)]
    function = functions.get((node.domain, node.op_type))
    for inner in [*(one for graph in graphs for one in graph.node), *(function.node if function else ())]:
        yield from _parts(inner, functions)
    for graph in graphs:
        yield onnx.NodeProto(input=[one.name for one in graph.output])


def _drops(node: onnx.NodeProto, fixed: dict[str, onnx.TensorProto]) -> bool:
    if len(node.input) <= TRAINING or not node.input[TRAINING]:
        return False
    given = fixed.get(node.input[TRAINING])
    return given is None or bool(numpy_helper.to_array(given).any())


# ---- An index instead of the values

INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
INDICES = {"ArgMax": 0, "ArgMin": 0, "TopK": 1}
"""Operations that choose from values, and which of their outputs is the index."""
PASSING = {
    "Cast": 1, "CastLike": 1, "Clip": 1, "Dropout": 1, "Expand": 1, "Flatten": 1, "Gather": 1, "GatherElements": 1,
    "GatherND": 1, "Identity": 1, "Pad": 1, "Reshape": 1, "Slice": 1, "Split": 1, "Squeeze": 1, "Tile": 1,
    "Transpose": 1, "Unsqueeze": 1, "Concat": None, "Max": None, "Min": None,
}  # fmt: skip
"""Operations that leave numbers as they are, and how many of their first inputs hold them (None: all)."""
ARITHMETIC = {"Abs", "Add", "Ceil", "Div", "Floor", "Mod", "Mul", "Neg", "Relu", "Round", "Sub", "Sum"}
"""A single number that these make of an index, such as one counted from 1, is an index still."""


def is_index(model: onnx.ModelProto, output: str, kind: TensorType) -> bool:
    """Return whether an output is one whole number, or is made of the indices of ArgMax or TopK alone."""
    return (math.prod(kind.shape) == 1 and kind.dtype in INTEGERS) or _chosen(model, output, kind) is not None


def index_of(model: onnx.ModelProto, output: str, kind: TensorType) -> str:
    """Return in words which values an exported index was chosen from, "" if that is not seen."""
    node = _chosen(model, output, kind)
    return f", tensor {node.input[0]}, of which {node.op_type} takes the index" if node is not None else ""


def _chosen(model: onnx.ModelProto, output: str, kind: TensorType) -> onnx.NodeProto | None:
    """Return the operation whose index an output is, through all that leaves an index one; None if it is none."""
    model = inliner.inline_local_functions(model) if model.functions else model
    nodes = [part for node in model.graph.node for part in _parts(node, {})]
    makers = {name: node for node in nodes for name in node.output}
    fixed = {one.name for one in model.graph.initializer}
    waiting, seen, found = [output], set[str](), None
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name in fixed or name in seen or (node is not None and node.op_type == "Constant"):
            continue
        seen.add(name)
        if node is None:
            return None
        if name in node.output[INDICES.get(node.op_type, len(node.output)) :][:1]:
            found = node
        elif node.op_type in PASSING:
            waiting += node.input[: PASSING[node.op_type]]
        elif node.op_type == "Where":
            waiting += node.input[1:]
        elif node.op_type == "If":
            waiting += [one.g.output[list(node.output).index(name)].name for one in node.attribute]
        elif node.op_type in ARITHMETIC and math.prod(kind.shape) == 1:
            waiting += node.input
        else:
            return None
    return found


# ---- The first axis

BATCH_NAME = re.compile(r".*batch.*|n|b|bs|.*dim_?0|.*dynamic_axes.*|unk.*|s\d+|\?|", re.I)
"""Names that people and exporters give to a batch."""


def _batch_names(inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]) -> set[str]:
    """Return the names of axes that are the batch: of the first axis of inputs, and also of an output.

    An axis that no output has is another size of the model, such as a number of beams; but exporters name the batch of
    each tensor separately, so a usual name passes where an output has a free first axis.
    """
    shapes = [[tensor.type.tensor_type.shape.dim for tensor in tensors] for tensors in (inputs, outputs)]
    of_outputs = {size.dim_param for shape in shapes[1] for size in shape} - {""}
    free = any(shape and not shape[0].HasField("dim_value") for shape in shapes[1])
    first = {shape[0].dim_param for shape in shapes[0] if shape and not shape[0].HasField("dim_value")}
    return {
        name
        for name in first
        if name in of_outputs or "batch" in name.lower() or (free and BATCH_NAME.fullmatch(name) is not None)
    } | {size.dim_param for shape in shapes[1] for size in shape[:1] if not size.HasField("dim_value")}
