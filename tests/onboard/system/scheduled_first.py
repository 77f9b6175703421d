"""A runtime's threads under FIFO, in a separate process: `python scheduled_first.py threads|tick FOLDER`.

Prints JSON. `threads`: scheduler and priority of each thread, by its task. `tick`: duration of a decision on a single
core, and the maximum lateness of a tick during the decision [ms].
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from onboard.config.config import RecordSection
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.drivers.realsense.device import Source
from onboard.drivers.realsense.supervisor import CameraProcess, Patience
from onboard.policy.inference import InferenceThread
from onboard.policy.network_policy import load_policy
from onboard.recording.recorder import Recorder
from onboard.values.messages import Decision, Memory, Observation
from tests.rigs.devices.small_model import observation, small_policy_files
from tests.rigs.machine.waiting import until

PRIORITY = 40
TICK_S = 0.01
WORK = bytes(100_000_000)
FAKE = Path(__file__).parents[3] / "tests/rigs/devices/fake_camera.py"
SOURCE = Source("front", serial="1", width=8, height=6)
PATIENCE = Patience(stale_s=0.3, stall_s=5.0, backoff_s=(0.5, 10.0))


class Busy:
    """A policy that computes for a long time without the GIL, like a network."""

    name = "busy"
    work = b""

    def initial_memory(self) -> Memory:
        return np.zeros((2, 3), np.float32)

    def decide(self, _observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        hashlib.sha256(self.work)
        return Decision(0, np.zeros(28, np.float32)), memory

    def close(self) -> None:
        pass


def threads() -> set[int]:
    return set(map(int, os.listdir("/proc/self/task")))


def scheduled(task: int) -> tuple[int, int]:
    return os.sched_getscheduler(task), os.sched_getparam(task).sched_priority


def begun(start: Callable[[], object]) -> list[tuple[int, int]]:
    """Return the scheduling of the threads that a function starts."""
    before = threads()
    start()
    return [scheduled(task) for task in threads() - before]


def show_threads(folder: Path) -> dict[str, list[tuple[int, int]]]:
    model = small_policy_files(folder)
    inference = InferenceThread(lambda: load_policy(model, lambda path, _: OnnxEngine(path, threads=2)))
    section = RecordSection(directory=folder)
    camera = CameraProcess(SOURCE, PATIENCE, [sys.executable, str(FAKE), "steady"])
    with closing(inference), closing(camera):
        found = {"tick": [scheduled(0)], "inference": begun(inference.start)}
        before = threads()
        with closing(Recorder(section, "robot", {}, wall_ns=10**18, now_ns=1)):
            until(lambda: any(scheduled(task)[1] < PRIORITY for task in threads() - before))
            found["recorder"] = [scheduled(task) for task in threads() - before]
        found["watch"] = begun(camera.watch)
        until(lambda: camera.info != {})
        found["camera"] = [scheduled(camera.pid or 0)]
    return found


def time_ticks() -> dict[str, float]:
    """Tick on the same core that computes a decision."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    policy = Busy()
    inference = InferenceThread(lambda: policy)
    with closing(inference):
        memory = inference.start().initial_memory()
        policy.work = WORK
        inference.submit(1, observation(), memory)
        late_s, due_s, result = 0.0, time.monotonic() + TICK_S, None
        while result is None:
            time.sleep(max(0.0, due_s - time.monotonic()))
            late_s = max(late_s, time.monotonic() - due_s)
            due_s = time.monotonic() + TICK_S
            result = inference.poll()
    return {"decision_ms": result.elapsed_ns / 1e6, "late_ms": 1e3 * late_s}


if __name__ == "__main__":
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    sys.stdout.write(json.dumps(show_threads(Path(sys.argv[2])) if sys.argv[1] == "threads" else time_ticks()))
