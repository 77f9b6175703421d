"""Widens weights that a model stores in half precision. The only file of the runtime that imports `onnx`.

A small model stores a weight as float16 followed by a Cast to float32 (`engines/half.py`), which ONNX Runtime computes
once, when it loads. TensorRT's parser wants the weights of a convolution or a GRU as they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onboard.errors import EngineError, MissingExtraError

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
except ImportError:
    HAS_ONNX = False
else:
    HAS_ONNX = True


def widened_model(model: Path) -> bytes:
    """Return a model's content with its float16 weights in float32, the same numbers, and without their Casts.

    Raises MissingExtraError without onnx, EngineError when the file cannot be read or is no ONNX model.
    """
    if not HAS_ONNX:
        raise MissingExtraError("onnx", "jetson")
    try:
        proto = onnx.load(model)
    except OSError as error:
        raise EngineError(f"{model}: cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise EngineError(f"{model}: not an ONNX model: {' '.join(str(error).split())}") from error
    widen(proto)
    content: bytes = proto.SerializeToString()
    return content


def widen(proto: onnx.ModelProto) -> None:
    """Replace each Cast of a float16 weight to float32 by the weight that it gives, under the name of its output."""
    graph = proto.graph
    half = {weight.name: weight for weight in graph.initializer if weight.data_type == onnx.TensorProto.FLOAT16}
    casts = [node for node in graph.node if node.op_type == "Cast" and node.input[0] in half and _to_single(node)]
    for node in casts:
        numbers = numpy_helper.to_array(half[node.input[0]]).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(numbers, node.output[0]))
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for name, weight in half.items():
        if name not in used:
            graph.initializer.remove(weight)


def _to_single(node: onnx.NodeProto) -> bool:
    return any(entry.name == "to" and entry.i == onnx.TensorProto.FLOAT for entry in node.attribute)
