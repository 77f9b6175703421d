"""On the robot: build the TensorRT engine and see whether it decides as ONNX Runtime does, and how fast."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.drivers.engines.tensorrt_engine import TensorRtEngine
from onboard.policy.manifest import ModelManifest, check_engine, load_manifest
from onboard.policy.parity import PARITY_STEPS, compare, random_inputs, zero_memory
from onboard.values.interfaces import Engine

MIN_AGREEMENT = 0.99
"""Least share of decisions with the same action; near ties flip with the precision."""
TIMED_DECISIONS = 200


def build_and_check(model: Path, cache: Path, *, fp16: bool, sequences: int) -> dict[str, Any]:
    """Return the engine's name, its agreement with ONNX Runtime over random sequences, and decision times [ms].

    Raises MissingExtraError without TensorRT, pycuda or onnxruntime, EngineError and ConfigError as the engines do.
    """
    manifest = load_manifest(model)
    engine = TensorRtEngine(model, manifest, cache, fp16=fp16)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
        reference = OnnxEngine(model)
        parity = compare(engine, reference, manifest, steps=PARITY_STEPS, sequences=sequences)
        reference.close()
        return {
            "engine": engine.name,
            "agrees": parity.agreement >= MIN_AGREEMENT,
            "agreement": parity.agreement,
            "parity": asdict(parity),
            "decision_ms": decision_ms(engine, manifest),
        }
    finally:
        engine.close()


def decision_ms(engine: Engine, manifest: ModelManifest, decisions: int = TIMED_DECISIONS) -> dict[str, float]:
    """Return p50 and p99 of a warm engine's run time, copies in and out included [ms]."""
    inputs = {**random_inputs(manifest, np.random.default_rng(0)), **zero_memory(manifest)}
    times_ns = []
    for _ in range(decisions):
        begun_ns = time.perf_counter_ns()
        engine.run(inputs)
        times_ns.append(time.perf_counter_ns() - begun_ns)
    p50, p99 = np.percentile(np.asarray(times_ns) / 1e6, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2)}
