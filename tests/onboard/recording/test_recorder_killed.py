"""A session that ends by kill -9 loses at most the last second, has only whole ticks and replays identically."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.replay import replay
from onboard.recording.repair import repair
from tests.rigs.recordings.replay_rig import puppet

DRIVE = """
import itertools, sys, threading, time
from pathlib import Path
import numpy as np
from tests.rigs.recordings.replay_rig import puppet
from tests.rigs.runtime_bench import Bench, Tape, with_noise

tape = Tape(Path(sys.argv[1]), Bench().config)
bench = Bench(puppet(), listeners=[tape])
rng, pause = np.random.default_rng(1), threading.Event()
bench.alter = lambda inputs: with_noise(inputs, rng, 2000, 9000)
bench.ask()
for _ in itertools.count():
    tick = bench.tick()
    print("tick", tick.slot.number, time.monotonic_ns(), flush=True)
    pause.wait(0.03)
"""
KILLED_AFTER_NS = 2_500_000_000
SAFE_AFTER_NS = 1_000_000_000
SAFE = 30
"""Lower bound on the ticks older than SAFE_AFTER_NS at the kill; even a slow machine has one more."""


@pytest.mark.timeout(600)
def test_kill_9_loses_at_most_the_last_second_and_what_is_left_replays_identically(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", DRIVE, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    lived: list[tuple[int, int]] = []
    for line in child.stdout:
        if not line.startswith("tick "):
            continue
        lived.append((int(line.split()[1]), int(line.split()[2])))
        now_ns = lived[-1][1]
        if now_ns - lived[0][1] > KILLED_AFTER_NS and len(lived) > SAFE and now_ns - lived[SAFE][1] > SAFE_AFTER_NS:
            break
    killed_ns = time.monotonic_ns()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    (file,) = tmp_path.glob("*.mcap")
    assert not repair(file).finished
    with open_recording(file) as recording:
        slots = [tick.slot.number for tick in ticks_of(recording)]
    safe = [slot for slot, at_ns in lived if killed_ns - at_ns >= SAFE_AFTER_NS]
    assert len(safe) > SAFE
    assert slots == list(range(len(slots)))
    assert slots[: len(safe)] == safe
    again = replay(file, policy=puppet())
    assert (again.identical, again.ticks) == (True, len(slots))
