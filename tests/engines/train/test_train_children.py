"""Processes of a training: none hears Ctrl-C, none is left when the training ends, whatever ended it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.rigs.machine.processes import running
from tests.rigs.machine.waiting import alive, children, until

CONFIG = """
[encoder]
[encoder.views]
maps = ["depot"]
count = 100000
per_building = 1000
"""
ENOUGH_S = 60.0


def renders(pid: int) -> bool:
    """Return whether a process has loaded the compiler of what renders, and with that all else that it needs."""
    return alive(pid) and "llvmlite" in Path(f"/proc/{pid}/maps").read_text()


#   signal            exit code    what is said
ENDED = [
    (signal.SIGKILL, -9, ""),
    (signal.SIGINT, 130, "stopped; run the same command again to resume from the last checkpoint in "),
    (signal.SIGTERM, 143, "stopped; run the same command again to resume from the last checkpoint in "),
    (signal.SIGHUP, 129, "stopped; run the same command again to resume from the last checkpoint in "),
]
SHORT = (signal.SIGKILL, signal.SIGINT)
"""What no process can hear, and what all hear that share a terminal."""


@pytest.fixture(autouse=True)
def _hangups_are_heard():
    """Give what is started the default for SIGHUP, also where the tests themselves are to outlive their terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("number", "code", "expected"),
    [pytest.param(*row, id=row[0].name, marks=() if row[0] in SHORT else pytest.mark.long) for row in ENDED],
)
def test_no_renderer_outlives_its_training(tmp_path, number, code, expected):
    (tmp_path / "encoder.toml").write_text(CONFIG)
    arguments = ("encoder", "--out", tmp_path / "out", "--config", tmp_path / "encoder.toml", "--jobs", 2, "--tiny")
    with running("engines", *map(str, arguments), folder=tmp_path) as command:
        # Two renderers, and what keeps count of multiprocessing's files.
        until(lambda: len(children(command.process.pid)) == 3, ENOUGH_S)
        started = children(command.process.pid)
        until(lambda: sum(map(renders, started)) == 2, ENOUGH_S)
        # A terminal sends Ctrl-C to all of them.
        command.interrupt() if number == signal.SIGINT else os.kill(command.process.pid, number)
        assert command.wait() == code
        until(lambda: not any(alive(pid) for pid in started), ENOUGH_S)
        assert expected in command.err
        assert "Traceback" not in command.err
