"""`onboard install` whose listener goes: a terminal that hangs up, a pipe that is closed. The robot is left running.

On a machine with a real systemd, by the wheels of `install_rig`. The tests share the machine.
"""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.onboard.commands.install.installing import (
    FIRST,
    SECOND,
    WENT_BACK,
    again,
    in_force,
    install_words,
    overrides,
)
from tests.rigs.machine.install_rig import LIMIT_S, Machine, environment, missing, onboard, wheel
from tests.rigs.machine.waiting import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd of its own")


@pytest.fixture
def installed(box: Machine, wheels: Path) -> Machine:
    """The machine with the first version READY."""
    done = again(box, wheel(wheels, FIRST))
    assert done.returncode == 0, done.stderr
    return box


def on_trial(box: Machine) -> bool:
    return bool(overrides(box)) and box.show("ActiveState") == "activating"


def test_a_terminal_that_hangs_up_leaves_the_old_one_running(installed: Machine, wheels: Path) -> None:
    before, invocation = in_force(installed), installed.show("InvocationID")
    words = installed.command(*onboard(*install_words(wheel(wheels, SECOND, "silent"), "--ready-within", "60")))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, environment())
    try:
        until(lambda: on_trial(installed), LIMIT_S)
    finally:
        os.close(terminal)  # the connection is lost
        os.waitpid(pid, 0)
    until(lambda: installed.running() == before and overrides(installed) == [], LIMIT_S)
    assert installed.show("InvocationID") != invocation, "it was started anew"
    assert in_force(installed) == before


def test_a_pipe_that_is_closed_leaves_the_old_one_running(installed: Machine, wheels: Path) -> None:
    before = in_force(installed)
    words = installed.command(*onboard(*install_words(wheel(wheels, SECOND, "silent"), "--ready-within", "2")))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    until(lambda: on_trial(installed), LIMIT_S)
    process.stdout.close()  # as of `| head`, or of a `tee` that was ended
    errors, code = process.stderr.read(), process.wait(LIMIT_S)
    assert (code, errors.count("\n")) == (WENT_BACK, 1), errors
    assert f"not READY within 2 s (activating, result success); {before} runs again" in errors
    assert installed.running() == in_force(installed) == before
    assert overrides(installed) == []
