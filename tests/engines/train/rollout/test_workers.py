"""Collectors in child processes: each failure reaches the trainer as one line, also while weights are on their way."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from engines.network.network import TINY, Variant, untrained
from engines.train.config import rules_of
from engines.train.rollout.workers import CLOSE_S, ProcessCollectors
from onboard.values.errors import InputError, OnboardError
from tests.rigs.machine.processes import environment
from tests.rigs.machine.waiting import until
from tests.rigs.train_rig import small

BIG = {"weight": np.zeros(8_000_000, np.float32)}
"""Far more than a pipe holds."""


def no_building(*_):
    raise InputError("map atlantis: no such map")


def no_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 3 GiB")


def no_room(*_):
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


def no_process(*_):
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def no_luck(*_):
    raise ZeroDivisionError("seven by\nnothing")


class Unlucky:
    def __init__(self, *_):
        pass

    def collect(self, weights):
        raise KeyError("lanes")


class Killed:
    def __init__(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)


class Left:
    def __init__(self, *_):
        os._exit(3)


LOWER = r"a collector failed: out of memory: lower driving\.lanes or .*"
LOGGED_ABOVE = "a collector's process ended with exit code {}, see above"
#    how it fails    line of the error                                           text on standard error
FAILURES = [
    (no_building, "a collector failed: map atlantis: no such map", ""),
    (no_memory, LOWER, ""),
    (no_room, LOWER, ""),
    (no_process, LOWER, ""),
    (no_luck, LOGGED_ABOVE.format(1), "ZeroDivisionError: seven by"),
    (Unlucky, LOGGED_ABOVE.format(1), "KeyError: 'lanes'"),
    (Killed, "a collector's process ended without an error message: most likely the machine ran out of memory", ""),
    (Left, LOGGED_ABOVE.format(3), ""),
]


@pytest.mark.long
@pytest.mark.parametrize(("make", "line", "shown"), FAILURES)
def test_a_failure_is_told_in_one_line(capfd, make, line, shown):
    collectors = collectors_of(make)
    try:
        with pytest.raises(OnboardError, match=f"^{line}$"):
            open_and_request(collectors)
    finally:
        collectors.close()
    printed = capfd.readouterr().err
    assert shown in printed
    assert bool(shown) is bool(printed)


class Idle:
    def __init__(self, *_):
        pass

    def collect(self, weights):
        return None


class Busy(Idle):
    def collect(self, weights):
        time.sleep(600.0)


def test_ctrl_c_is_not_for_collectors_while_they_start(capfd):
    collectors = collectors_of(Idle, 2)
    try:
        for process in collectors._processes:
            os.kill(process.pid, signal.SIGINT)
        collectors.open([0])
        collectors.request({})
        assert collectors.result() == [None, None]
    finally:
        collectors.close()
    assert capfd.readouterr().err == ""


def test_collectors_can_be_closed_during_a_round():
    collectors = collectors_of(Busy)
    (process,) = collectors._processes
    collectors.open([0])
    collectors.request({})
    begun_s = time.monotonic()
    collectors.close()
    assert not process.is_alive()
    assert time.monotonic() - begun_s < CLOSE_S / 2


ORPHANS = """
import os, signal, time
from engines.network.network import TINY, Variant, untrained
from engines.train.config import rules_of
from engines.train.rollout.workers import CLOSE_S, ProcessCollectors
from tests.rigs.train_rig import small
class Busy:
    def __init__(self, *_):
        pass
    def collect(self, weights):
        time.sleep(600.0)
if __name__ == "__main__":
    collectors = ProcessCollectors(Busy, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    collectors.open([0])
    collectors.request({})
    print(collectors._processes[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_collector_outlives_its_trainer(tmp_path):
    (tmp_path / "trainer.py").write_text(ORPHANS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "trainer.py")],
        capture_output=True,
        text=True,
        env=environment(None),
        timeout=60.0,  # the collector holds the pipe that is read here
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    until(lambda: not Path(f"/proc/{int(done.stdout)}").exists(), 10.0)


def open_and_request(collectors):
    collectors.open([0])
    collectors.request(BIG)
    collectors.result()


def collectors_of(make, count=1):
    return ProcessCollectors(make, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), count)
