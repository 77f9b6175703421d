"""Thread priorities on a shared core, as the kernel reports them for a FIFO process like the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onboard.commands.doctor.service import may_run_first
from onboard.system.threads import CAMERAS_BELOW, INFERENCE_BELOW, RECORDER_BELOW, lower, step_down

PROGRAM = Path(__file__).with_name("scheduled_first.py")
NEEDS_FIFO = pytest.mark.skipif(not may_run_first(), reason="this user may not have FIFO scheduling")
PRIORITY = 40
LIMIT_S = 120.0


def reported(what: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), what, str(folder)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@NEEDS_FIFO
def test_the_tick_comes_before_all_that_works_for_it(tmp_path: Path) -> None:
    """The engine's own threads inherit the priority of the inference thread, which starts them."""
    tasks = reported("threads", tmp_path)
    assert len(tasks["inference"]) > 1
    found = {who: set(map(tuple, rows)) for who, rows in tasks.items()}
    assert found == {
        "tick": {(os.SCHED_FIFO, PRIORITY)},
        "recorder": {(os.SCHED_FIFO, PRIORITY - RECORDER_BELOW)},
        "inference": {(os.SCHED_FIFO, PRIORITY - INFERENCE_BELOW)},
        "watch": {(os.SCHED_FIFO, PRIORITY)},
        "camera": {(os.SCHED_FIFO, PRIORITY - CAMERAS_BELOW)},
    }


@NEEDS_FIFO
def test_on_one_core_no_tick_waits_for_a_decision(tmp_path: Path) -> None:
    found = reported("tick", tmp_path)
    assert found["late_ms"] < found["decision_ms"] / 4


def test_where_priorities_do_not_count_nothing_is_done() -> None:
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        pytest.skip("these tests are scheduled first themselves")
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    step_down(INFERENCE_BELOW)
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before
    assert lower(CAMERAS_BELOW) == ()


@NEEDS_FIFO
@pytest.mark.parametrize(("policy", "name"), [(os.SCHED_FIFO, "--fifo"), (os.SCHED_RR, "--rr")])
def test_nobody_steps_below_the_lowest_priority(policy: int, name: str) -> None:
    program = (
        "import os\nfrom onboard.system.threads import lower, step_down\n"
        f"os.sched_setscheduler(0, {policy}, os.sched_param(2))\n"
        "print(*lower(5)[1:])\nstep_down(5)\nprint(os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{name} 1\n{policy} 1\n"


@NEEDS_FIFO
def test_without_chrt_a_camera_begins_as_the_runtime_is_scheduled() -> None:
    program = (
        "import os\nfrom onboard.system.threads import lower\n"
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))\nos.environ['PATH'] = '/nowhere'\nprint(lower(3))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "()\n"
