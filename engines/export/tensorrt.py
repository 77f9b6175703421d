"""On the robot: build the TensorRT engine, check it, and install it only if it decides as ONNX Runtime does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from engines.export.engine_check import Checked, check, observed
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.drivers.engines.tensorrt_build import refusal_of
from onboard.drivers.engines.tensorrt_engine import TensorRtEngine, cached_engine
from onboard.policy.manifest import check_engine, load_manifest
from onboard.values.errors import EngineError

UNCHECKED = "unchecked"
"""Folder in the cache of an engine that is being checked; the runtime does not look there."""


def build_and_check(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    """Build an engine, compare it with ONNX Runtime, and install it in the cache if it agrees.

    An engine that disagrees is deleted, and `refusal_of` says why; so is one that was installed before.
    Raises MissingExtraError without TensorRT, pycuda or onnxruntime, InputError as `observed`, EngineError and
    ConfigError as the engines do.
    """
    _, target = cached_engine(load_manifest(model), cache, fp16=fp16)
    installed = target.exists() and not refusal_of(target).exists()
    found = _checked(model, cache if installed else cache / UNCHECKED, fp16=fp16, recordings=recordings, random=random)
    built = target if installed else cache / UNCHECKED / target.name
    try:
        if found.agrees:
            os.replace(built, target)
            refusal_of(target).unlink(missing_ok=True)
        else:
            refusal_of(target).write_text(found.line() + "\n", encoding="utf-8")
            built.unlink()
    except OSError as error:
        raise EngineError(f"{target}: cannot be changed: {error.strerror}") from error
    return found


def check_installed(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    """Compare the installed engine with ONNX Runtime; delete it if it disagrees. Raises as `build_and_check`.

    Raises EngineError too if none is installed.
    """
    name, target = cached_engine(load_manifest(model), cache, fp16=fp16)
    if not target.exists():
        raise EngineError(f"no engine for {name} in {cache}: `onboard-engines build` makes one")
    return build_and_check(model, cache, fp16=fp16, recordings=recordings, random=random)


def _checked(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    manifest = load_manifest(model)
    shown = observed(model, manifest, recordings, random)
    engine = TensorRtEngine(model, manifest, cache, fp16=fp16)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
        reference = OnnxEngine(model)
        found = check(engine, reference, manifest, shown)
        reference.close()
        return found
    finally:
        engine.close()
