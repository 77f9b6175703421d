"""Runs a model with TensorRT on the GPU: `tensorrt` and `pycuda`, named tensors, fixed buffers, a stream of its own.

A CUDA context belongs to the thread that pushed it: the inference thread makes, warms and runs the engine. This file
has not run on hardware; `onboard-engines build` compares its results with ONNX Runtime there, see HARDWARE.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog

from onboard.drivers.engines.tensorrt_build import (
    EngineKey,
    build_engine,
    engine_path,
    refusal_of,
    require_tensorrt,
    tensorrt_version,
)
from onboard.policy.contract import TensorType, check_tensors
from onboard.policy.manifest import ModelManifest, Weights
from onboard.values.errors import EngineError, MissingExtraError, OnboardError

with contextlib.suppress(ImportError):  # `require_tensorrt` says so
    import tensorrt as trt

try:
    import pycuda.driver as cuda
except ImportError:
    HAS_PYCUDA = False
else:
    HAS_PYCUDA = True

_DTYPES = {"FLOAT": "float32", "INT64": "int64", "INT32": "int32", "HALF": "float16"}
_WARM_RUNS = 5
"""The first runs load kernels and let the clocks rise."""

log = structlog.get_logger("tensorrt")


@dataclass(frozen=True, slots=True)
class _Buffer:
    """One tensor's page-locked host memory and device memory."""

    host: npt.NDArray[Any]
    device: Any


class TensorRtEngine:
    """One engine and one execution context; implements `policy.ModelEngine`. Not thread-safe."""

    def __init__(self, model: Path, manifest: ModelManifest, cache: Path, *, fp16: bool = True) -> None:
        """Take the engine from the cache, or build it there first, which takes minutes.

        Raises MissingExtraError without tensorrt or pycuda, EngineError in one line when the engine was refused, or
        cannot be built, loaded or fitted with buffers.
        """
        require_libraries()
        self._thread = threading.get_ident()
        self._context: trt.IExecutionContext | None = None
        self._engine: trt.ICudaEngine | None = None
        self._runtime: trt.Runtime | None = None
        self._buffers: dict[str, _Buffer] = {}
        try:
            cuda.init()
            device = cuda.Device(0)
            # The primary context is the one that TensorRT's own runtime calls use.
            self._cuda_context: Any = device.retain_primary_context()
            self._cuda_context.push()
        except cuda.Error as error:
            raise EngineError(f"no CUDA device: {error}") from error
        try:
            key = _key(device, manifest, fp16=fp16)
            self.name = _name(key)
            self._load(model, engine_path(cache, key), key, manifest.weights)
        except cuda.Error as error:
            self.close()
            raise EngineError(f"{model}: CUDA failed: {error}") from error
        except OnboardError:
            self.close()
            raise

    def _load(self, model: Path, path: Path, key: EngineKey, weights: Weights) -> None:
        """Make execution context, stream and buffers."""
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        if refusal_of(path).exists():
            raise EngineError(f"{refusal_of(path)}: {refusal_of(path).read_text(encoding='utf-8').strip()}")
        engine = _deserialized(runtime, path) if path.exists() else None
        if engine is None:
            build_engine(model, path, key.half_precision_nodes, weights)
            engine = _deserialized(runtime, path)
        if engine is None:
            raise EngineError(f"{path}: TensorRT does not load the engine that it has just built")
        context = engine.create_execution_context()
        if context is None:
            raise EngineError(f"{path}: TensorRT created no execution context; is the GPU's memory full?")
        # The context needs the engine, and that the runtime, for as long as it lives.
        self._runtime, self._engine, self._context = runtime, engine, context
        self._stream = cuda.Stream()
        self.inputs: dict[str, TensorType] = {}
        self.outputs: dict[str, TensorType] = {}
        for index in range(engine.num_io_tensors):
            self._add_tensor(engine, context, engine.get_tensor_name(index))

    def _add_tensor(self, engine: trt.ICudaEngine, context: trt.IExecutionContext, name: str) -> None:
        """Allocate a tensor's fixed buffers. Integers are int64 outside; TensorRT 8.6 uses int32, `run` converts."""
        sizes = engine.get_tensor_shape(name)
        shape = tuple(int(sizes[axis]) for axis in range(len(sizes)))
        kind = engine.get_tensor_dtype(name).name
        if kind not in _DTYPES or any(size < 0 for size in shape):
            raise EngineError(f"tensor {name}: expected fixed sizes of a known type, found {kind}{list(shape)}")
        dtype = _DTYPES[kind]
        host = cuda.pagelocked_empty(shape, np.dtype(dtype))
        device = cuda.mem_alloc(host.nbytes)
        self._buffers[name] = _Buffer(host, device)
        if not context.set_tensor_address(name, int(device)):
            raise EngineError(f"tensor {name}: TensorRT refused its address")
        types = self.inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else self.outputs
        types[name] = TensorType(shape, "int64" if dtype == "int32" else dtype)

    def warm_up(self) -> None:
        """Run on zeros. Raises EngineError."""
        zeros = {name: np.zeros(kind.shape, kind.dtype) for name, kind in self.inputs.items()}
        for _ in range(_WARM_RUNS):
            self.run(zeros)

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return all outputs by name. Raises EngineError from another thread, for a wrong tensor, when CUDA fails."""
        if self._context is None:
            raise EngineError("the engine is closed")
        if threading.get_ident() != self._thread:
            raise EngineError("the engine was called from a thread that did not create it")
        check_tensors(tensors, self.inputs)
        try:
            for name in self.inputs:
                buffer = self._buffers[name]
                np.copyto(buffer.host, tensors[name], casting="same_kind")
                cuda.memcpy_htod_async(buffer.device, buffer.host, self._stream)
            if not self._context.execute_async_v3(self._stream.handle):
                raise EngineError("TensorRT did not start the inference")
            for name in self.outputs:
                buffer = self._buffers[name]
                cuda.memcpy_dtoh_async(buffer.host, buffer.device, self._stream)
            self._stream.synchronize()
        except cuda.Error as error:
            raise EngineError(f"CUDA failed: {error}") from error
        return {name: self._buffers[name].host.astype(np.float32) for name in self.outputs}

    def close(self) -> None:
        """Release buffers, engine and context, in the thread that made them. Safe to call twice."""
        for buffer in self._buffers.values():
            buffer.device.free()
        self._buffers = {}
        self._context = self._engine = self._runtime = self._stream = None
        if self._cuda_context is not None:
            self._cuda_context.pop()
            self._cuda_context.detach()
            self._cuda_context = None


def require_libraries() -> None:
    """Raise MissingExtraError when TensorRT or pycuda is not installed."""
    require_tensorrt()
    if not HAS_PYCUDA:
        raise MissingExtraError("pycuda", "jetson")


def cached_engine(manifest: ModelManifest, cache: Path, *, fp16: bool = True) -> tuple[str, Path]:
    """Return the engine's name and its file in the cache for this device, whether the file exists or not.

    Makes no context. Raises MissingExtraError, EngineError without a CUDA device.
    """
    require_libraries()
    try:
        cuda.init()
        key = _key(cuda.Device(0), manifest, fp16=fp16)
    except cuda.Error as error:
        raise EngineError(f"no CUDA device: {error}") from error
    return _name(key), engine_path(cache, key)


def _key(device: Any, manifest: ModelManifest, *, fp16: bool) -> EngineKey:
    return EngineKey(
        device.name(),
        tuple(device.compute_capability()),
        tensorrt_version(),
        manifest.half_precision_nodes if fp16 else (),
        manifest.sha256,
    )


def _name(key: EngineKey) -> str:
    return f"tensorrt {key.tensorrt} on {key.device}"


def _deserialized(runtime: trt.Runtime, path: Path) -> trt.ICudaEngine | None:
    """Return the engine in a file; None, logged, if TensorRT refuses it."""
    engine: trt.ICudaEngine | None = runtime.deserialize_cuda_engine(path.read_bytes())
    if engine is None:
        log.warning("tensorrt_engine_unreadable", path=str(path))
    return engine
