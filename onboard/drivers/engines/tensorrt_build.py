"""Builds a TensorRT engine on the robot that will run it. Imports `tensorrt` and nothing else of NVIDIA's.

Engines are not portable, so the cache key holds everything that an engine depends on. Written for TensorRT 8.6 and 10
(JetPack 6); it has not run on hardware, see HARDWARE.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from onboard.drivers.engines.onnx_engine import widened_model
from onboard.policy.manifest import Weights
from onboard.values.errors import EngineError, MissingExtraError

try:
    import tensorrt as trt
except ImportError:
    HAS_TENSORRT = False
else:
    HAS_TENSORRT = hasattr(trt, "Builder")  # type stubs alone leave an empty package behind

WORKSPACE_BYTES = 1 << 30
JETPACK = "tensorrt (it is part of JetPack: create the virtual environment with --system-site-packages)"

log = structlog.get_logger("tensorrt")


@dataclass(frozen=True, slots=True)
class EngineKey:
    """Everything that an engine depends on.

    device, compute_capability: of the GPU, as CUDA names them
    half_precision_nodes:       empty for single precision everywhere
    """

    device: str
    compute_capability: tuple[int, int]
    tensorrt: str
    half_precision_nodes: tuple[str, ...]
    model_sha256: str


def engine_path(cache: Path, key: EngineKey) -> Path:
    """Return the file of an engine: a readable part, and a hash of the whole key."""
    digest = hashlib.sha256(json.dumps(asdict(key), sort_keys=True).encode()).hexdigest()
    device = re.sub(r"[^a-z0-9]+", "-", key.device.lower()).strip("-")
    precision = "half" if key.half_precision_nodes else "single"
    return cache / f"{device}-trt{key.tensorrt}-{precision}-{digest[:16]}.engine"


def refusal_of(engine: Path) -> Path:
    """Return the file that says in one line why an engine was refused, whether it exists or not."""
    return engine.with_suffix(".refused")


def timings_of(engine: Path) -> Path:
    """Return the file of kernel timings next to an engine, one for all engines of a device and a TensorRT version."""
    device, _, _ = engine.stem.rpartition("-")[0].rpartition("-")
    return engine.with_name(f"{device or engine.stem}.timings")


def tensorrt_version() -> str:
    """Return TensorRT's version. Raises MissingExtraError when it is not installed."""
    require_tensorrt()
    return str(trt.__version__)


def require_tensorrt() -> None:
    """Raise MissingExtraError when TensorRT is not installed."""
    if not HAS_TENSORRT:
        raise MissingExtraError(JETPACK, "jetson")


def build_engine(
    model: Path, target: Path, half_precision_nodes: tuple[str, ...], weights: Weights = "float32"
) -> None:
    """Build an engine of `model` and write it to `target` in one step. Takes minutes, the next one less.

    TensorRT times its kernels while it builds. The timings are next to the engine (`timings_of`), so that an engine
    of another model with the same layers builds faster.

    Nodes whose names begin with one of `half_precision_nodes` may run in half precision. All others run in true single
    precision: TensorRT obeys or fails, and TF32, with a mantissa as short as half precision's, is off.
    weights: how the model stores weights; half-precision weights are widened first, because the parser needs the
             weights of a convolution or a GRU as constants, not as a node's output
    Raises MissingExtraError without TensorRT, or without onnx for half-precision weights. Raises EngineError, one line,
    if TensorRT cannot parse or build the model.
    """
    require_tensorrt()
    logger = trt.Logger(trt.Logger.WARNING)
    try:
        builder = trt.Builder(logger)
    except (RuntimeError, TypeError) as error:  # TypeError is how its binding says "null"
        raise EngineError(f"TensorRT finds no usable GPU: {error}") from error
    network = builder.create_network(_network_flags())
    _parse(trt.OnnxParser(network, logger), model, _content(model, weights))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, WORKSPACE_BYTES)
    config.clear_flag(trt.BuilderFlag.TF32)
    if half_precision_nodes:
        _allow_half(network, config, half_precision_nodes)
    timings = timings_of(target)
    known = timings.read_bytes() if timings.exists() else b""
    kept: trt.ITimingCache | None = config.create_timing_cache(known)
    if kept is None or not config.set_timing_cache(kept, ignore_mismatch=False):
        log.warning("tensorrt_timings_unusable", path=str(timings))
        config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
    log.info("tensorrt_build_begins", model=str(model), target=str(target), timings=len(known))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise EngineError(f"{model}: TensorRT could not build an engine; the lines above give the reason")
    _write(target, bytes(plan))
    _write(timings, bytes(config.get_timing_cache().serialize()))


def _network_flags() -> int:
    """Return the explicit-batch flag, which 8.6 needs, 10 ignores and 11 no longer has."""
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    return 0 if explicit is None else 1 << int(explicit)


def _content(model: Path, weights: Weights) -> bytes:
    """Return the model's bytes for the parser. Raises EngineError."""
    if weights == "float16":
        return widened_model(model)
    try:
        return model.read_bytes()
    except OSError as error:
        raise EngineError(f"{model}: cannot be read: {error.strerror}") from error


def _parse(parser: trt.OnnxParser, model: Path, content: bytes) -> None:
    if parser.parse(content):
        return
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    for error in errors:
        log.error("tensorrt_parse_error", model=str(model), node=error.node(), what=error.desc())
    first = f"node {errors[0].node()}: {errors[0].desc()}" if errors else "no reason given"
    raise EngineError(f"{model}: TensorRT cannot parse it: {' '.join(first.split())}")


def _allow_half(network: trt.INetworkDefinition, config: trt.IBuilderConfig, prefixes: tuple[str, ...]) -> None:
    """Allow half precision, and fix every layer outside the prefixes to single precision."""
    if not hasattr(trt.BuilderFlag, "FP16"):
        raise EngineError(
            f"TensorRT {trt.__version__} takes precision from the model alone (since 11): build with --no-fp16"
        )
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    single = trt.DataType.FLOAT
    held = 0
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        if may_be_half(layer.name, getattr(layer, "metadata", ""), prefixes) or not _computes(layer):
            continue
        layer.precision = single
        for output in range(layer.num_outputs):
            layer.set_output_type(output, single)
        held += 1
    if held == 0 or held == network.num_layers:
        raise EngineError(f"half_precision_nodes {prefixes}: {held} of {network.num_layers} layers are outside them")
    log.info("tensorrt_precision", single=held, layers=network.num_layers)


def may_be_half(name: str, metadata: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a layer comes from a node below one of the prefixes.

    TensorRT names a layer after its node, but not the layers of a split GRU; unrecognised layers stay in single
    precision. Metadata reads `[ONNX Layer: /a/b]`.
    """
    return any(name.startswith(prefix) or f"[ONNX Layer: {prefix}" in metadata for prefix in prefixes)


def _computes(layer: trt.ILayer) -> bool:
    """Return whether a layer's precision can be set: float outputs, no constant, no shape tensors."""
    if layer.type == trt.LayerType.CONSTANT or layer.num_outputs == 0:
        return False
    if layer.num_inputs > 0 and (first := layer.get_input(0)) is not None and first.is_shape_tensor:
        return False
    floats = (trt.DataType.FLOAT, trt.DataType.HALF)
    return all(layer.get_output(index).dtype in floats for index in range(layer.num_outputs))


def _write(target: Path, content: bytes) -> None:
    """Write the file atomically. Raises EngineError if the cache cannot be written."""
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, target)
    except OSError as error:
        raise EngineError(f"{target}: the engine cannot be written: {error.strerror}") from error
