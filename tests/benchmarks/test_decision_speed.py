"""Decisions of the full network on ONNX Runtime: beside PyTorch, sleeping beside spinning threads, half weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from engines.export.engine_check import decision_ms
from engines.export.export import TorchEngine, export, untrained_network
from engines.network.network import PAPER
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.parity import random_inputs, zero_memory
from onboard.values.interfaces import Engine
from tests.benchmarks.conftest import Ratios


def test_the_engine_is_faster_than_pytorch(ratios: Ratios, tmp_path: Path) -> None:
    """The paper's network, each on one thread."""
    network, extra = untrained_network(0, PAPER)
    manifest = export(tmp_path / "paper.onnx", network, "paper1", extra, steps=2).manifest
    engine, peer = OnnxEngine(tmp_path / "paper.onnx", threads=1), TorchEngine(network)
    torch.set_num_threads(1)
    inputs = {**random_inputs(manifest, np.random.default_rng(0)), **zero_memory(manifest)}
    ratios.check("engine of onboard-v1, one thread: PyTorch", lambda: _best_ms(peer, inputs) / _best_ms(engine, inputs))
    engine.close()


def _best_ms(engine: Engine, inputs: Mapping[str, np.ndarray]) -> float:
    def run() -> float:
        begun = time.thread_time_ns()
        engine.run(inputs)
        return (time.thread_time_ns() - begun) / 1e6

    return min(run() for _ in range(HALF_DECISIONS))


HALF_ROUNDS, HALF_DECISIONS = 4, 40
MOST = 1.25
"""A decision that widened 25 million weights would take several times as long."""


@pytest.mark.long
def test_a_decision_with_half_weights_is_as_fast(tmp_path):
    """The casts are computed when the model loads, not in a decision."""
    network, extra = untrained_network(0, PAPER)
    engines, manifests, best = {}, {}, {}
    for weights in ("float32", "float16"):
        model = tmp_path / f"{weights}.onnx"
        manifests[weights] = export(model, network, "paper1", extra, weights=weights, steps=2).manifest
        engines[weights] = OnnxEngine(model, threads=1)
        engines[weights].warm_up()
        print(f"{weights}: {model.stat().st_size / 1e6:.1f} MB")
    for weights in [*engines] * HALF_ROUNDS:
        p50 = decision_ms(engines[weights], manifests[weights], HALF_DECISIONS)["p50"]
        best[weights] = min(best.get(weights, np.inf), p50)
    ratio = best["float16"] / best["float32"]
    print(f"decision p50: float32 {best['float32']:.1f} ms, float16 {best['float16']:.1f} ms, ratio {ratio:.2f}")
    assert ratio < MOST
    for engine in engines.values():
        engine.close()
