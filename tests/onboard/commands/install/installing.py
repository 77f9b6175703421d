"""What a person types at `install_rig.Machine`, and what is then on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rigs.machine.install_rig import Machine
from tests.rigs.machine.waiting import children

PYTHON = "/usr/bin/python3"
"""Of the system: the one of the tests may lie where a service sees nothing."""

WENT_BACK, REFUSED = 1, 2
FIRST, SECOND = "0.1.0", "0.2.0"
BUSY = "another installation is running"


def install_words(*words: str | Path) -> list[str | Path]:
    return ["install", *words, "--extras", "", "--python", PYTHON, "--settle", "1", "--no-compile"]


def install(box: Machine, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return box.onboard(*install_words(*words))


def in_force(box: Machine) -> str:
    return Path(box.run("readlink", "/opt/onboard/current").stdout.strip()).name


def overrides(box: Machine) -> list[str]:
    return [path.name for path in box.file("/run/systemd/system").glob("onboard.service*")]


def versions(box: Machine) -> list[str]:
    return sorted(path.name for path in box.file("/opt/onboard/versions").iterdir())


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return what went wrong: exactly one line, no traceback."""
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def installer(process: subprocess.Popen[str]) -> int:
    """Return the process of the command itself: `nsenter` waits for it."""
    return children(process.pid)[0]


def again(box: Machine, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Install, as soon as what a killed installation has left running is over."""
    done = install(box, *words)
    while BUSY in done.stderr:
        done = install(box, *words)
    return done
