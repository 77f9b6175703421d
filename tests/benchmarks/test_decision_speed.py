"""Decisions of the full network on ONNX Runtime: threads that sleep while they wait against threads that spin."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from engines.export.export import export, untrained_network
from engines.network.network import PAPER
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.inference import blank_observation
from onboard.policy.network_policy import load_policy
from onboard.values.messages import ColorFrame

DECISIONS = 60
ROUNDS = 2
PAUSE_S = 0.1
"""Between decisions, in which spinning threads burn time; a third of the robot's."""
THREADS = 2


def decisions(model, spinning: bool) -> tuple[list[float], float]:
    """Return the time of each decision [ms], and the processor time that one takes with its pause [ms]."""
    policy = load_policy(model, lambda path, manifest: OnnxEngine(path, THREADS, spinning=spinning))
    image = np.random.default_rng(0).integers(0, 256, (144, 256, 3), np.uint8)
    observation = replace(blank_observation(), color=ColorFrame(1, 0, image))
    memory, pause, times = policy.initial_memory(), threading.Event(), []
    cpu = time.process_time()
    for _ in range(DECISIONS):
        begun = time.perf_counter()
        _, memory = policy.decide(observation, memory)
        times.append((time.perf_counter() - begun) * 1e3)
        pause.wait(PAUSE_S)
    cpu_ms = (time.process_time() - cpu) * 1e3 / DECISIONS
    policy.close()
    return times, cpu_ms


@pytest.mark.long
def test_sleeping_threads_cost_the_robot_less(tmp_path):
    model = tmp_path / "full.onnx"
    network, extra = untrained_network(0, PAPER)
    export(model, network, "paper1", extra, steps=2)
    costs = {}
    for spinning in (False, True) * ROUNDS:
        times, cpu_ms = decisions(model, spinning)
        p50, p99 = np.percentile(times, [50, 99])
        best = costs.get(spinning, np.inf)
        costs[spinning] = min(best, cpu_ms)
        name = "spinning" if spinning else "sleeping"
        print(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, processor {cpu_ms:.1f} ms a decision")
    print(f"processor time, spinning over sleeping: {costs[True] / costs[False]:.2f}")
    assert costs[False] < costs[True]
