"""How an installation goes back: whatever ends it while a version is tried, the old one is in force and as it was.

The real steps on a folder of their own, with a systemd that only says what it was asked for.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from onboard.commands.install import steps
from onboard.commands.install.install import exclusive, os_errors_as_input_errors
from onboard.commands.install.layout import UNITS_IN_VERSION, Layout, Version, pointed_at, write_marker
from onboard.commands.install.plan import InstalledState, InstallRequest, Step
from onboard.commands.install.run_program import EndedError, signals_as_errors
from onboard.commands.install.steps import Installer, NotReadyError, Timeouts
from onboard.commands.install.systemctl import Status
from onboard.commands.install.unit_files import on_trial
from onboard.commands.install.wheel import Choice
from onboard.values.errors import InputError, OnboardError
from tests.onboard.commands.install.installing import REFUSED, one_line
from tests.rigs.machine.install_rig import ROOT, UNIT, environment, onboard

OLD, NEW = "0.1.0-a", "0.2.0-b"
RUNS = Status("active", "success", "idle", "1", True)
NOT_READY = "not READY within 1 s"


@dataclass
class FakeSystemd:
    """A systemd that does nothing but to remember what it was told, and what was on trial then.

    seen:  what it says of the service, before and after
    new:   what becomes of the new version: "" when it is READY
    while: called in the middle of a start, with the version that is started
    """

    layout: Layout
    seen: list[Status] = field(default_factory=lambda: [RUNS])
    new: str = ""
    meanwhile: Callable[[str], None] = lambda _: None
    asked: list[str] = field(default_factory=list)

    def status(self) -> Status:
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]

    def reload(self) -> None:
        self.asked.append("reload")

    def apply(self, files: Sequence[Path]) -> None:
        self.asked.append("apply")

    def start(self, within_s: float, settle_s: float) -> str:
        version = NEW if on_trial(self.layout) else OLD
        self.asked.append(f"start {version}")
        self.meanwhile(version)
        return self.new if version == NEW else ""

    def stop(self) -> None:
        self.asked.append("stop")

    def enable(self, on: bool) -> None:
        self.asked.append("enable")


TRIED = ["reload", f"start {NEW}"]
BACK = [*TRIED, "reload", f"start {OLD}"]
IN_FORCE = [*TRIED, "reload"]


@pytest.fixture
def reported(tmp_path: Path) -> FakeSystemd:
    """Two versions, the old one in force."""
    layout = Layout(tmp_path)
    for name in (OLD, NEW):
        units = layout.folder(name) / UNITS_IN_VERSION
        units.mkdir(parents=True)
        (units / "onboard.service").write_text(UNIT)
        write_marker(layout.folder(name), Version(name, name.partition("-")[0], "x.whl"))
    layout.current.symlink_to(f"versions/{OLD}")
    return FakeSystemd(layout)


def installation(
    reported: FakeSystemd, say: Callable[[str], None] = lambda _: None, **differs: str | None
) -> Installer:
    """Return one of the new version. differs: what else there is than the old one, which is in force and runs."""
    found = InstalledState(
        reported.layout.complete(), OLD, None, left=(), placed=True, configured=True, runs=True, enabled=True
    )
    found = replace(found, **{"running": OLD, **differs})
    return Installer(
        reported.layout, reported, InstallRequest("0.2.0", NEW, compiles=False), found, None,
        Choice("", None, False, Path("/usr/bin/python3")), Timeouts(1.0, 0.0), say,
    )  # fmt: skip


def upgrade(reported: FakeSystemd, say: Callable[[str], None] = lambda _: None) -> None:
    """Try the new version and put it in force."""
    with signals_as_errors():
        installation(reported, say).do((Step.TRY, Step.SWITCH))


def went_back(reported: FakeSystemd, error: type[OnboardError], match: str) -> None:
    with pytest.raises(error, match=match):
        upgrade(reported)
    assert (pointed_at(reported.layout.current), on_trial(reported.layout)) == (OLD, [])


def test_one_that_comes_up_is_in_force(reported: FakeSystemd) -> None:
    upgrade(reported)
    assert reported.asked == IN_FORCE
    assert (pointed_at(reported.layout.current), on_trial(reported.layout)) == (NEW, [])


#   state before      what is done with the old one   what is said of it
BEFORE = [
    ("active", f"start {OLD}", f"{OLD} runs again"),
    ("activating", f"start {OLD}", f"{OLD} runs again"),
    ("reloading", f"start {OLD}", f"{OLD} runs again"),
    ("deactivating", f"start {OLD}", f"{OLD} runs again"),
    ("inactive", "stop", "stopped as before"),
    ("failed", "stop", "stopped as before"),
]


@pytest.mark.parametrize(("active", "done", "expected"), BEFORE)
def test_the_old_one_is_put_back_as_it_was(active: str, done: str, expected: str, reported: FakeSystemd) -> None:
    reported.new, reported.seen = (
        NOT_READY,
        [Status(active, "success", "", "1", True), Status("failed", "timeout", "", "2", True)],
    )
    went_back(reported, NotReadyError, f"{NOT_READY}; .*{expected}")
    assert reported.asked == [*TRIED, "reload", done]


#   status before             after                          taken
SEES = [
    ("idle", "idle", True),
    ("idle", "navigating, without left, rear", False),
    ("idle, without left", "idle, without left", True),
    ("idle, without left", "idle, without rear", False),
    ("idle, without left, rear", "idle", True),
]


@pytest.mark.parametrize(("before", "after", "taken"), SEES)
def test_one_that_is_blind_where_the_old_one_saw_is_taken_back(
    before: str, after: str, taken: bool, reported: FakeSystemd
) -> None:
    reported.seen = [Status("active", "success", status, "1", True) for status in (before, after)]
    if taken:
        upgrade(reported)
        assert reported.asked == IN_FORCE
    else:
        went_back(
            reported,
            NotReadyError,
            f"receives nothing from .*rear, which the previous version received; {OLD} runs again",
        )
        assert reported.asked == BACK


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_while_the_new_one_is_tried_ends_with_the_old_one(
    number: signal.Signals, reported: FakeSystemd
) -> None:
    reported.meanwhile = lambda version: os.kill(os.getpid(), number) if version == NEW else None
    went_back(reported, EndedError, f"ended by {number.name}")
    assert reported.asked == BACK


def test_signals_while_it_goes_back_change_nothing(reported: FakeSystemd) -> None:
    reported.new, reported.meanwhile = (
        NOT_READY,
        lambda version: os.kill(os.getpid(), signal.SIGINT) if version == OLD else None,
    )
    went_back(reported, NotReadyError, NOT_READY)
    assert reported.asked == BACK


def test_a_signal_between_the_trial_and_the_switch_ends_with_the_old_one(reported: FakeSystemd) -> None:
    def say(words: str) -> None:
        if words.startswith("switch"):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(EndedError):
        upgrade(reported, say)
    assert reported.asked == BACK
    assert (pointed_at(reported.layout.current), on_trial(reported.layout)) == (OLD, [])


def test_a_signal_in_the_middle_of_the_switch_comes_too_late(
    reported: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def placed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(steps, "place", placed)
    upgrade(reported)
    assert reported.asked == IN_FORCE
    assert (pointed_at(reported.layout.current), on_trial(reported.layout)) == (NEW, [])


def test_an_old_one_that_does_not_come_up_either_is_told(
    reported: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported.new = NOT_READY
    monkeypatch.setattr(reported, "start", lambda *_: NOT_READY)
    went_back(reported, NotReadyError, f"{NEW} was rolled back, but {OLD} does not start: {NOT_READY}")


#   the version before   what is said of it
OTHERS = [(OLD, f"`onboard install --rollback` returns to {OLD}"), (None, "there is no version to return to")]


@pytest.mark.parametrize(("previous", "expected"), OTHERS)
def test_one_that_is_started_in_force_and_does_not_come_up_is_stopped(
    previous: str | None, expected: str, reported: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "start", lambda *_: NOT_READY)
    with pytest.raises(NotReadyError, match=f"{NEW}: {NOT_READY}; it is stopped, and {expected}\\. "):
        installation(reported, current=NEW, previous=previous, running=None).do((Step.START,))
    assert reported.asked == ["stop"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            "No usable temporary directory",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/run/x"), "/run/x: No space left on device"),
        (OSError(), "OSError"),
    ],
)
def test_what_a_disk_refuses_is_one_line(error: OSError, expected: str) -> None:
    with pytest.raises(InputError) as caught, os_errors_as_input_errors():
        raise error
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_a_source_folder_where_nothing_can_be_written_is_one_line() -> None:
    words = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *onboard("install", ROOT, "--dry-run")]
    unmeasured = {name: value for name, value in environment().items() if name != "COVERAGE_PROCESS_CONFIG"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=unmeasured)
    assert done.returncode == REFUSED
    assert one_line(done).startswith("error: No usable temporary directory found in")


def test_a_lock_that_cannot_be_made_is_no_other_installation(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=r"run: File exists"), os_errors_as_input_errors(), exclusive(Layout(tmp_path)):
        pass
    layout = Layout(tmp_path / "other")
    with exclusive(layout), pytest.raises(InputError, match="another installation is running"), exclusive(layout):
        pass
    with pytest.raises(BlockingIOError), exclusive(layout):
        raise BlockingIOError
