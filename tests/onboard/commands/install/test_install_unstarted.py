"""`onboard install --no-start` over a service that runs: what runs, what is said, what is deleted, and the next call.

On a machine with a real systemd, by the wheels of `install_rig`. The tests share the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from onboard.commands.install.install import version_of
from onboard.commands.install.layout import Layout
from tests.onboard.commands.install.installing import (
    FIRST,
    SECOND,
    WENT_BACK,
    again,
    in_force,
    install,
    one_line,
    overrides,
    versions,
)
from tests.rigs.machine.install_rig import UNIT, Machine, missing, wheel
from tests.rigs.machine.waiting import until

NEEDS_SYSTEMD = pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd of its own")
THIRD = "0.3.0"


@pytest.fixture
def runs(box: Machine, wheels: Path) -> str:
    """The first version, READY and in force."""
    done = again(box, wheel(wheels, FIRST), "--downgrade")
    assert done.returncode == 0, done.stderr
    assert box.running() == in_force(box)
    return in_force(box)


@NEEDS_SYSTEMD
def test_the_next_call_starts_what_is_in_force_when_another_one_runs(box: Machine, wheels: Path, runs: str) -> None:
    quiet = install(box, wheel(wheels, SECOND), "--no-start")
    assert quiet.returncode == 0, quiet.stderr
    assert in_force(box).startswith(SECOND)
    assert quiet.stdout.endswith(f"from the next start of the service on; {runs} runs until then\n")
    assert box.running() == runs
    done = install(box, wheel(wheels, SECOND))
    assert done.returncode == 0, done.stderr
    assert "nothing to do" not in done.stdout
    assert box.running() == in_force(box)
    assert in_force(box).startswith(SECOND)
    assert set(versions(box)) == {runs, in_force(box)}
    assert install(box, "--rollback").returncode == 0
    assert box.running() == in_force(box) == runs


@NEEDS_SYSTEMD
def test_one_that_does_not_come_up_then_is_taken_back_to_what_ran(box: Machine, wheels: Path, runs: str) -> None:
    broken = wheel(wheels / "ends", SECOND, "ends")
    assert install(box, broken, "--no-start").returncode == 0
    done = install(box, broken)
    assert done.returncode == WENT_BACK, done.stdout
    line = one_line(done)
    assert "did not become READY" in line
    assert f"{runs} runs again" in line
    assert box.running() == in_force(box) == runs
    assert overrides(box) == []


@NEEDS_SYSTEMD
@pytest.mark.long
def test_what_runs_is_not_deleted_by_another_call_that_starts_nothing(box: Machine, wheels: Path, runs: str) -> None:
    for release in (SECOND, THIRD):
        assert install(box, wheel(wheels, release), "--no-start").returncode == 0
    assert box.running() == runs
    assert set(versions(box)) == {runs, in_force(box)}, "what never ran is deleted"
    assert install(box, "--rollback").returncode == 0
    assert box.running() == in_force(box) == runs


def process_of(box: Machine) -> str:
    """Return the version whose process there is, READY or not, "" without one."""
    line = box.run("ps", "-o", "args=", "-p", box.show("MainPID")).stdout
    return line.partition("/opt/onboard/versions/")[2].partition("/")[0]


@NEEDS_SYSTEMD
def test_one_that_does_not_come_up_is_taken_back_to_one_that_waits(box: Machine, wheels: Path) -> None:
    """Its base is switched off, so it is not READY; it is what drove all the same, and the new one never ran."""
    patient = UNIT.replace("TimeoutStartSec=4", "TimeoutStartSec=90")
    assert (
        again(box, wheel(wheels / "waits", FIRST, "silent", unit=patient), "--downgrade", "--no-start").returncode == 0
    )
    waits = in_force(box)
    box.run("systemctl", "restart", "--no-block", "onboard.service")
    until(lambda: process_of(box) == waits)
    broken = wheel(wheels / "ends", SECOND, "ends", unit=patient)
    assert install(box, broken, "--no-start").returncode == 0
    assert process_of(box) == waits
    assert in_force(box).startswith(SECOND)
    done = install(box, broken, "--ready-within", "3")
    assert done.returncode == WENT_BACK, done.stdout
    assert f"is not in force, and {waits} does not come up: not READY within 3 s" in one_line(done)
    assert (in_force(box), process_of(box), box.show("ActiveState")) == (waits, waits, "activating")
    assert overrides(box) == []


#   command line of the process                                                   version
LINES = [
    (["/opt/onboard/versions/1.0-a/bin/python", "/opt/onboard/current/bin/onboard", "run"], "1.0-a"),
    (["/bin/sh", "/opt/onboard/versions/1.0-a/bin/onboard", "run"], "1.0-a"),
    (["/usr/bin/python3", "/opt/onboard/current/bin/onboard"], None),
    (["/opt/onboard/versions"], None),
    ([], None),
]


@pytest.mark.parametrize(("words", "version"), LINES)
def test_the_version_of_a_process(words: list[str], version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _: words)
    assert version_of(Layout(), os.getpid()) == version


def test_no_process_is_of_no_version() -> None:
    assert version_of(Layout(), 0) is None
    assert version_of(Layout(), 2**22 + 1) is None
    assert version_of(Layout(), os.getpid()) is None, f"{sys.executable} is none"
