"""`systemctl reload`, many times: the shipped unit under a real systemd, with a dummy program."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.rigs.machine.systemd_rig import UNITS, Machine, machine, missing
from tests.rigs.machine.waiting import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")

UNIT = "idle.service"
BURST = 5
#   line of the unit                   replacement
IDLE = (
    (r"^Type=notify$", "Type=exec"),
    (r"^WatchdogSec=.*$", ""),
    (r"^RestartSec=.*$", "RestartSec=100ms"),
    (r"^Exec(StartPre|StopPost)=.*$", ""),
    (r"^ExecStart=.*$", "ExecStart=/usr/bin/sleep 1000"),
    (r"^ExecReload=.* check-config .*$", "ExecReload=/usr/bin/true"),
)


def idle() -> str:
    """Return the shipped unit with its limits, user and hardening, and a program that only waits."""
    text = (UNITS / "onboard.service").read_text()
    for line, other in IDLE:
        text, count = re.subn(line, other, text, flags=re.MULTILINE)
        assert count, line
    return text


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("systemd"), {f"run/units/{UNIT}": idle()}, "reload") as there:
        yield there


def process(box: Machine) -> str:
    """Return the id of the running process, "0" without a process."""
    state = box.show("ActiveState", "MainPID", unit=UNIT)
    return state["MainPID"] if state["ActiveState"] == "active" else "0"


def test_reloads_are_no_crashes_and_crashes_are_counted_as_before(box: Machine) -> None:
    box.run("systemctl", "start", UNIT)
    for _ in range(BURST + 1):
        before = process(box)
        box.run("systemctl", "reload", UNIT)
        until(lambda before=before: process(box) not in ("0", before))
    for _ in range(BURST):
        before = process(box)
        box.run("systemctl", "kill", "--signal=KILL", UNIT)
        until(
            lambda before=before: (
                process(box) not in ("0", before) or box.show("ActiveState", unit=UNIT) == {"ActiveState": "failed"}
            )
        )
        if process(box) == "0":
            break
    assert box.show("ActiveState", "Result", unit=UNIT) == {"ActiveState": "failed", "Result": "signal"}
