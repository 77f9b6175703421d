"""The dashboard of a demo: one line for each state without a terminal, and no wait for a reader that stopped."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hil.live.dashboard import LEAVE_S, Dashboard, View
from tests.rigs.machine.waiting import until

FLOOD = """
import sys
from hil.live.dashboard import Dashboard, View
view = View("map")
with Dashboard(view) as dashboard:
    for number in range(2000):
        view.state = f"state {number} {'x' * 400}"
        dashboard.show()
sys.stdout.write("done")
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_reader_that_stopped_does_not_hold_the_run(terminal: bool) -> None:
    """The pipe, or the terminal's buffer, is full long before the end."""
    reading, writing = os.openpty() if terminal else os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", FLOOD], stdout=subprocess.PIPE, stderr=writing, env=os.environ | {"TERM": "xterm"}
        )
        assert process.communicate(timeout=30 + LEAVE_S)[0] == b"done"
    finally:
        os.close(reading)
        os.close(writing)


def test_a_new_state_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    view, written = View("map"), ""

    def shown() -> bool:
        nonlocal written
        written += capsys.readouterr().err
        return (view.state or "starting") in written

    with Dashboard(view) as dashboard:
        for state in ("", "idle", "idle", "navigating", "navigating", "reached"):
            view.state = state
            dashboard.show()
            until(shown)
    written += capsys.readouterr().err
    states = [line.split("s  ")[1].strip() for line in written.splitlines()]
    assert states == ["starting", "idle", "navigating", "reached"]
