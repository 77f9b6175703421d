"""Collectors in processes of their own say what went wrong, however much was on its way to them."""

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


def test_who_fails_at_the_opening_says_why_although_weights_are_on_their_way():
    collectors = ProcessCollectors(no_building, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    try:
        with pytest.raises(OnboardError, match=r"^a collector failed: map atlantis: no such map$"):
            open_and_request(collectors)
    finally:
        collectors.close()


def no_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 3 GiB")


def no_room(*_):
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


def no_process(*_):
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.parametrize("make", [no_memory, no_room, no_process])
def test_who_finds_no_memory_says_what_to_lower_and_nothing_else(capfd, make):
    collectors = ProcessCollectors(make, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    try:
        with pytest.raises(OnboardError, match=r"^a collector failed: out of memory: lower driving\.lanes or "):
            collectors.open([0])
    finally:
        collectors.close()
    assert capfd.readouterr().err == ""


def no_luck(*_):
    raise ZeroDivisionError("seven by\nnothing")


class Unlucky:
    def __init__(self, *_):
        pass

    def collect(self, weights):
        raise KeyError("lanes")


@pytest.mark.parametrize(("make", "told"), [(no_luck, "ZeroDivisionError: seven by"), (Unlucky, "KeyError: 'lanes'")])
def test_an_error_that_nobody_thought_of_ends_its_process_and_is_shown(capfd, make, told):
    collectors = ProcessCollectors(make, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    try:
        with pytest.raises(OnboardError, match=r"^a collector's process ended with exit code 1, told above$"):
            open_and_request(collectors)
    finally:
        collectors.close()
    assert told in capfd.readouterr().err


class Killed:
    def __init__(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)


class Left:
    def __init__(self, *_):
        os._exit(3)


#    how it ends    what is said
VANISHED = [
    (Killed, "a collector's process ended without a word: most likely the machine ran out of memory"),
    (Left, "a collector's process ended with exit code 3, told above"),
]


@pytest.mark.parametrize(("make", "said"), VANISHED)
def test_only_who_is_killed_without_a_word_is_said_to_want_memory(make, said):
    collectors = ProcessCollectors(make, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    try:
        with pytest.raises(OnboardError, match=f"^{said}$"):
            open_and_request(collectors)
    finally:
        collectors.close()


class Idle:
    def __init__(self, *_):
        pass

    def collect(self, weights):
        return None


class Busy(Idle):
    def collect(self, weights):
        time.sleep(600.0)


def test_ctrl_c_is_not_for_collectors_while_they_start(capfd):
    collectors = ProcessCollectors(Idle, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 2)
    try:
        for process in collectors._processes:
            os.kill(process.pid, signal.SIGINT)
        collectors.open([0])
        collectors.request({})
        assert collectors.result() == [None, None]
    finally:
        collectors.close()
    assert capfd.readouterr().err == ""


def test_a_crew_goes_home_in_the_middle_of_a_round():
    collectors = ProcessCollectors(Busy, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
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
