"""Runs a model with ONNX Runtime on the processor. The only file that imports `onnxruntime`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.policy.contract import TensorType, check_tensors
from onboard.values.errors import EngineError, MissingExtraError

try:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as _state
except ImportError:
    onnxruntime = None

_DTYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(int64)": "int64",
    "tensor(int32)": "int32",
}  # fmt: skip
_WARM_RUNS = 2
"""The first run allocates, the second is as fast as the others."""


def _errors() -> tuple[type[Exception], ...]:
    """Return what ONNX Runtime raises; its exceptions share no base class of their own."""
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented", "EPFail")
    return (*(getattr(_state, name) for name in (*names, "RuntimeException", "NoModel")), RuntimeError, ValueError)


class OnnxEngine:
    """One session on `threads` threads; implements `policy.ModelEngine`.

    Idle threads sleep, because at three decisions a second spinning threads would take the cores from the control loop
    (`onboard bench` prints both).
    """

    def __init__(self, model: Path, threads: int = 2, *, spinning: bool = False) -> None:
        """Raises MissingExtraError without onnxruntime, EngineError in one line when the model cannot be loaded."""
        require_onnxruntime()
        self.name = f"onnxruntime {onnxruntime.__version__}, {threads} threads"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only; what fails is raised
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
        try:
            self._session: Any = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except _errors() as error:
            raise EngineError(f"{model}: onnxruntime cannot load it: {_one_line(error)}") from error
        self.inputs = {item.name: _type_of(model, item) for item in self._session.get_inputs()}
        self.outputs = {item.name: _type_of(model, item) for item in self._session.get_outputs()}

    def warm_up(self) -> None:
        """Run on zeros. Raises EngineError."""
        zeros = {name: np.zeros(kind.shape, kind.dtype) for name, kind in self.inputs.items()}
        for _ in range(_WARM_RUNS):
            self.run(zeros)

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return all outputs by name. Raises EngineError for a missing or unknown tensor, or a wrong type."""
        if self._session is None:
            raise EngineError("the engine is closed")
        check_tensors(tensors, self.inputs)
        names = list(self.outputs)
        try:
            values = self._session.run(names, dict(tensors))
        except _errors() as error:
            raise EngineError(f"onnxruntime failed: {_one_line(error)}") from error
        return dict(zip(names, values, strict=True))

    def close(self) -> None:
        """Drop the session. Safe to call twice."""
        self._session = None


def require_onnxruntime() -> None:
    """Raise MissingExtraError when ONNX Runtime is not installed."""
    if onnxruntime is None:
        raise MissingExtraError("onnxruntime", "cpu")


def _type_of(model: Path, item: Any) -> TensorType:
    """Return the type of a model's tensor. Raises EngineError for a dynamic axis."""
    if not all(isinstance(size, int) for size in item.shape):
        raise EngineError(f"{model}: tensor {item.name}: expected fixed sizes, found {item.shape}")
    return TensorType(tuple(item.shape), _DTYPES.get(item.type, item.type))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


# ---- Half-precision weights to single precision. The only file of the runtime that imports `onnx`

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
except ImportError:
    HAS_ONNX = False
else:
    HAS_ONNX = True


def widened_model(model: Path) -> bytes:
    """Return a model with its float16 weights as float32 of the same values, and without their Casts.

    Raises MissingExtraError without onnx, EngineError if the file cannot be read or is no ONNX model.
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
    """Replace each Cast of a float16 weight to float32 by the float32 weight, named as the Cast's output."""
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
