"""The policy: is the model the one of its manifest, does it fit the timing, does its engine run, in which time."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from onboard.config import Config
from onboard.doctor.finding import Complaint, Finding, Level, green, judged, red
from onboard.doctor.versions import DIGITS
from onboard.drivers.onnx_engine import OnnxEngine
from onboard.drivers.tensorrt_engine import cached_engine
from onboard.errors import EngineError, MissingExtraError, OnboardError
from onboard.manifest import Manifest, check_engine, delay_complaint, load_manifest
from onboard.policies import REACTIVE, require_engine
from onboard.policy import ModelEngine
from onboard.pretrained import model_path

RUNS = 20
NS_PER_MS = 1e6
COPY_AGAIN = "copy the model and its manifest again, both from one release"


def policy(config: Config, *, driving: bool) -> Finding:
    """Return whether the configured policy can decide in time. While a runtime drives it is not run beside it."""
    if config.policy.model == REACTIVE:
        return green("policy", "reactive: no model, no engine", model=REACTIVE)
    try:
        model = model_path(config.policy.model)
        manifest = load_manifest(model)
    except OnboardError as error:
        return red("policy", str(error), COPY_AGAIN, model=config.policy.model)
    named = f"{manifest.policy}, sha256 {manifest.sha256[:DIGITS]} as its manifest says"
    values = {"model": str(model), "sha256": manifest.sha256, "engine": config.policy.engine}
    rates = config.rates
    complaint = delay_complaint(manifest, rates.delay_ticks, rates.control_hz, rates.ticks_per_decision)
    if complaint:
        return red("policy", complaint, "set [rates] as the policy was trained", **values)
    try:
        require_engine(config)
        if config.policy.engine == "tensorrt":
            return _tensorrt(config, manifest, named, values)
        if driving:
            return green("policy", f"{named}; in use by the runtime", **values)
        return _onnxruntime(config, model, manifest, named, values)
    except MissingExtraError as error:
        return red("policy", f"{named}; {error}", "install what is missing", **values)
    except EngineError as error:
        return red("policy", f"{named}; {error}", COPY_AGAIN, **values)


def _tensorrt(config: Config, manifest: Manifest, named: str, values: dict[str, str]) -> Finding:
    """Return whether the robot's engine is built. It is not run: that takes the GPU's memory a second time."""
    engine, file = cached_engine(manifest, config.policy.engine_cache)
    built = file.exists()
    remedy = f"`onboard-engines build {config.policy.model}`; otherwise the next start builds it, which takes minutes"
    complaints = [] if built else [Complaint(Level.AMBER, f"no engine for {engine} in {file.parent}", remedy)]
    return judged("policy", f"{named}; {engine}", complaints, **values, file=str(file), built=built)


def _onnxruntime(config: Config, model: Path, manifest: Manifest, named: str, values: dict[str, str]) -> Finding:
    engine = OnnxEngine(model, config.policy.threads)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
        took_ms = _decision_ms(engine)
        name = engine.name
    finally:
        engine.close()
    slowest_ms = max(took_ms)
    complaints = []
    if slowest_ms > config.rates.budget_ms:
        said = f"the slowest of {RUNS} decisions took longer than rates.budget_ms = {config.rates.budget_ms:g}"
        remedy = "end what else runs here, or take a smaller policy"
        complaints.append(Complaint(Level.AMBER, said, remedy))
    summary = f"{named}; {name}; {np.median(took_ms):.1f} ms a decision, {slowest_ms:.1f} at the most"
    return judged("policy", summary, complaints, **values, decision_ms=[round(one, 2) for one in took_ms])


def _decision_ms(engine: ModelEngine) -> list[float]:
    """Return how long each of RUNS inferences on zeros took [ms]."""
    zeros = {name: np.zeros(kind.shape, kind.dtype) for name, kind in engine.inputs.items()}
    took = []
    for _ in range(RUNS):
        began_ns = time.monotonic_ns()
        engine.run(zeros)
        took.append((time.monotonic_ns() - began_ns) / NS_PER_MS)
    return took
