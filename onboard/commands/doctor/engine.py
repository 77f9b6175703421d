"""The policy: model against manifest and timing, its engine, the time of a decision; versions of everything."""

from __future__ import annotations

import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from onboard import __version__
from onboard.assembly.policies import THREADS, WITHOUT_MODEL, require_engine
from onboard.commands.doctor.finding import Finding, Level, Problem, combined, green, red
from onboard.commands.doctor.host import ROOT, text_of
from onboard.config.config import Config
from onboard.config.pretrained import model_path
from onboard.counters import BUDGET_MS
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.drivers.engines.tensorrt_build import refusal_of
from onboard.drivers.engines.tensorrt_engine import cached_engine
from onboard.policy.manifest import ModelManifest, check_engine, delay_complaint, load_manifest
from onboard.policy.network_policy import ModelEngine
from onboard.recording import provenance
from onboard.values.errors import EngineError, MissingExtraError, OnboardError

LIBRARIES = ("numpy", "numba", "llvmlite", "cyclonedds", "pydantic", "mcap", "onnxruntime", "tensorrt", "pyrealsense2")
DIGITS = 12
"""Of a hash; enough to compare two robots by phone."""


def versions(root: Path = ROOT) -> Finding:
    """Return the versions of all installed parts."""
    code = provenance.code_sha256()
    jetpack = (text_of(root / "etc/nv_tegra_release") or "").partition("\n")[0].lstrip("# ")
    libraries = {name: number for name in LIBRARIES if (number := _version(name))}
    found = [f"onboard {__version__} (code {code[:DIGITS]})", f"Python {platform.python_version()}"]
    found += [f"{name} {number}" for name, number in libraries.items()]
    return green(
        "versions",
        ", ".join([*found, *filter(None, [jetpack])]),
        onboard=__version__,
        code_sha256=code,
        python=sys.version.split()[0],
        system=platform.platform(),
        machine=provenance.machine(),
        jetpack=jetpack,
        libraries=libraries,
    )


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


RUNS = 20
NS_PER_MS = 1e6
COPY_AGAIN = "copy the model and its manifest again, both from one release"


def policy(config: Config, cache: Path, *, driving: bool) -> Finding:
    """Return whether the configured policy decides in time. Beside a driving runtime the policy is not run.

    cache: folder of built TensorRT engines
    """
    if config.policy.model in WITHOUT_MODEL:
        return green("policy", f"{config.policy.model}: no model, no engine", model=config.policy.model)
    try:
        model = model_path(config.policy.model)
        manifest = load_manifest(model)
    except OnboardError as error:
        return red("policy", str(error), COPY_AGAIN, model=config.policy.model)
    named = f"{manifest.policy}, sha256 {manifest.sha256[:DIGITS]} as its manifest says"
    named += "" if config.policy.fallback == "none" else f"; {config.policy.fallback} as its fallback"
    values = {"model": str(model), "sha256": manifest.sha256, "engine": config.policy.engine}
    rates = config.rates
    problem = delay_complaint(manifest, rates.delay_ticks, rates.control_hz, rates.ticks_per_decision)
    if problem:
        return red("policy", problem, "set [rates] to the values that the policy was trained with", **values)
    try:
        require_engine(config)
        if config.policy.engine == "tensorrt":
            return _tensorrt(config, manifest, cache, named, values)
        if driving:
            return green("policy", f"{named}; in use by the runtime", **values)
        return _onnxruntime(model, manifest, named, values)
    except MissingExtraError as error:
        return red("policy", f"{named}; {error}", "install what is missing", **values)
    except EngineError as error:
        return red("policy", f"{named}; {error}", COPY_AGAIN, **values)


def _tensorrt(config: Config, manifest: ModelManifest, cache: Path, named: str, values: dict[str, str]) -> Finding:
    """Return whether the robot's engine is built. It is not run, because it would take the GPU's memory twice."""
    engine, file = cached_engine(manifest, cache)
    built = file.exists()
    remedy = f"`onboard-engines build {config.policy.model}`; otherwise the next start builds it, which takes minutes"
    problems = [] if built else [Problem(Level.AMBER, f"no engine for {engine} in {file.parent}", remedy)]
    if (refused := refusal_of(file)).exists():
        why = refused.read_text(encoding="utf-8").strip()
        problems = [Problem(Level.RED, f"the engine for {engine} was refused: {why}", 'policy.engine = "onnxruntime"')]
    return combined("policy", f"{named}; {engine}", problems, **values, file=str(file), built=built)


def _onnxruntime(model: Path, manifest: ModelManifest, named: str, values: dict[str, str]) -> Finding:
    engine = OnnxEngine(model, THREADS)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
        took_ms = _decision_ms(engine)
        name = engine.name
    finally:
        engine.close()
    slowest_ms = max(took_ms)
    problems = []
    if slowest_ms > BUDGET_MS:
        text = f"the slowest of {RUNS} decisions took longer than {BUDGET_MS:g} ms"
        remedy = "stop other programs, or use a smaller policy"
        problems.append(Problem(Level.AMBER, text, remedy))
    summary = f"{named}; {name}; {np.median(took_ms):.1f} ms a decision, {slowest_ms:.1f} at most"
    return combined("policy", summary, problems, **values, decision_ms=[round(one, 2) for one in took_ms])


def _decision_ms(engine: ModelEngine) -> list[float]:
    """Return the durations of RUNS inferences on zeros [ms]."""
    zeros = {name: np.zeros(kind.shape, kind.dtype) for name, kind in engine.inputs.items()}
    took = []
    for _ in range(RUNS):
        began_ns = time.monotonic_ns()
        engine.run(zeros)
        took.append((time.monotonic_ns() - began_ns) / NS_PER_MS)
    return took
