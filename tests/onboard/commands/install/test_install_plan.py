"""What an installation does, as a function of what is there: a table, and what every plan holds to."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.commands.install.cli import install_command
from onboard.commands.install.install import Request, install, version_of
from onboard.commands.install.layout import UNIT, UNITS_IN_VERSION, Layout, Version
from onboard.commands.install.plan import InstalledState, InstallRequest, Step, before, line, outcome, plan, surplus
from onboard.commands.install.steps import Timeouts
from onboard.commands.install.systemctl import Status, Systemd
from onboard.commands.install.unit_files import (
    end_trial,
    folder_of,
    foreign,
    in_place,
    is_for_system,
    on_trial,
    place,
    prepare,
    present,
    remove,
    set_trial,
)
from onboard.commands.install.wheel import Choice
from onboard.values.errors import InputError
from tests.rigs.machine.install_rig import ROOT, wheel

READY_S = 900.0
"""The first start of a version compiles kernels for minutes."""
OLD, NEW, OLDEST = "0.1.0-a", "0.2.0-b", "0.0.9-c"
VERSIONS = {name: Version(name, name.partition("-")[0], f"{name}.whl") for name in (OLD, NEW, OLDEST)}


def there(*names: str, current: str | None = None, previous: str | None = None, running: str = "") -> InstalledState:
    """All in order, with these versions; what runs is the one in force when not said otherwise."""
    versions = {name: VERSIONS[name] for name in names}
    found = InstalledState(versions, current, previous, left=(), placed=True, configured=True, runs=True, enabled=True)
    return replace(found, running=running or current)


NOTHING = InstalledState({}, None, None, left=(), placed=False, configured=False, runs=False, enabled=False)
INSTALLED = there(OLD, current=OLD)
WANT_OLD, WANT_NEW = InstallRequest("0.1.0", OLD), InstallRequest("0.2.0", NEW)

BUILD, CONFIGURE, CHECK, ACCOUNT = Step.BUILD, Step.CONFIGURE, Step.CHECK, Step.ACCOUNT
TRY, SWITCH, START, ENABLE, PRUNE = Step.TRY, Step.SWITCH, Step.START, Step.ENABLE, Step.PRUNE
CLEAN, RETURN, COMPILE = Step.CLEAN, Step.RETURN, Step.COMPILE
UPGRADE = (BUILD, CHECK, ACCOUNT, COMPILE, TRY, SWITCH)
FIRST = (BUILD, CONFIGURE, CHECK, ACCOUNT, COMPILE, SWITCH)
UNSTARTED = there(OLD, NEW, current=NEW, previous=OLD, running=OLD)
"""After `--no-start` over a service that runs, which still does."""
UNPROVEN = there(OLD, OLDEST, current=OLD, previous=OLDEST, running=OLDEST)
WAITS = replace(UNSTARTED, runs=False)
"""The same, and it is not READY."""
ON_TRIAL = replace(there(OLD, NEW, current=OLD, running=NEW), left=("x",), tried=True)
RETRIED = (CHECK, RETURN, ACCOUNT, COMPILE, TRY, SWITCH)
SWITCHED = (CHECK, ACCOUNT, COMPILE, SWITCH)
QUIET_NEW, QUIET_OLD = replace(WANT_NEW, start=False), replace(WANT_OLD, start=False, downgrade=True)

#   name                                order      found       steps
PLANS = [
    ("the first", WANT_OLD, NOTHING, (*FIRST, START, ENABLE)),
    ("the first, without starting it", replace(WANT_OLD, start=False), NOTHING, FIRST),
    ("the same once more", WANT_OLD, INSTALLED, ()),
    ("the same, which was stopped", WANT_OLD, replace(INSTALLED, runs=False), (CHECK, COMPILE, START)),
    ("the same, a file missing", WANT_OLD, replace(INSTALLED, placed=False), (CHECK, ACCOUNT, SWITCH)),
    ("the same, not started with the machine", WANT_OLD, replace(INSTALLED, enabled=False), (ENABLE,)),
    ("a newer one", WANT_NEW, INSTALLED, UPGRADE),
    ("a newer one, without starting it", QUIET_NEW, INSTALLED, (BUILD, CHECK, ACCOUNT, COMPILE, SWITCH)),
    ("one built before", WANT_NEW, there(OLD, NEW, current=OLD), (CHECK, ACCOUNT, COMPILE, TRY, SWITCH)),
    ("a third", WANT_NEW, there(OLD, OLDEST, current=OLD, previous=OLDEST), (*UPGRADE, PRUNE)),
    ("an older one, as asked for", replace(WANT_OLD, downgrade=True), there(NEW, current=NEW), UPGRADE),
    ("after an interruption", WANT_OLD, replace(INSTALLED, left=("x",)), (CLEAN, CHECK, COMPILE, START)),
    ("in force, another one runs", WANT_NEW, UNSTARTED, RETRIED),
    ("in force, another one waits for its base", WANT_NEW, WAITS, RETRIED),
    ("what waits, another one in force", replace(WANT_OLD, downgrade=True), WAITS, (*SWITCHED, START)),
    ("in force, another one runs, and shall", QUIET_NEW, UNSTARTED, ()),
    ("what runs, another one in force", replace(WANT_OLD, downgrade=True), UNSTARTED, SWITCHED),
    ("the same, without starting it", QUIET_OLD, UNSTARTED, SWITCHED),
    ("a third, and the first of them runs", WANT_NEW, UNPROVEN, (BUILD, *RETRIED, PRUNE)),
    ("in force, stopped", WANT_NEW, replace(UNSTARTED, runs=False, running=None), (CHECK, COMPILE, START)),
    ("in force, what runs is not known", WANT_NEW, replace(UNSTARTED, running=None), (CHECK, COMPILE, START)),
    ("in force, what runs is gone", WANT_NEW, replace(UNSTARTED, running="0.0.1-gone"), (CHECK, COMPILE, START)),
    ("the one on trial", WANT_NEW, ON_TRIAL, (CLEAN, CHECK, ACCOUNT, COMPILE, TRY, SWITCH)),
    ("the one before a trial", WANT_OLD, ON_TRIAL, (CLEAN, CHECK, COMPILE, START)),
]  # fmt: skip


@pytest.mark.parametrize(("order", "found", "steps"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_the_plan(order: InstallRequest, found: InstalledState, steps: tuple[Step, ...]) -> None:
    assert plan(order, found) == steps


#   what is there    wanted   the one before     deleted
KEPT = [
    (UNSTARTED, NEW, OLD, []),
    (UNSTARTED, OLD, NEW, []),
    (UNPROVEN, NEW, OLDEST, [OLD]),
    (there(OLD, NEW, OLDEST, current=OLD, previous=OLDEST), NEW, OLD, [OLDEST]),
    (there(OLD, NEW, OLDEST, current=OLD, previous=NEW), OLD, NEW, [OLDEST]),
    (replace(UNPROVEN, runs=False), NEW, OLDEST, [OLD]),
    (replace(UNPROVEN, runs=False, running=None), NEW, OLD, [OLDEST]),
    (replace(ON_TRIAL, current=None), OLDEST, None, [OLD]),
]


@pytest.mark.parametrize(("found", "name", "previous", "deleted"), KEPT)
def test_what_ran_is_the_one_before_and_what_runs_is_not_deleted(
    found: InstalledState, name: str, previous: str | None, deleted: list[str]
) -> None:
    assert (before(name, found), surplus(name, found)) == (previous, deleted)


#   asked for    there                                           changed   said
SAID = [
    (WANT_OLD, INSTALLED, False, f"{OLD} is active and READY: nothing to do"),
    (WANT_NEW, UNSTARTED, True, f"{NEW} is active"),
    (QUIET_NEW, UNSTARTED, False, f"{NEW} becomes active at the next start of the service; {OLD} runs until then"),
    (QUIET_NEW, replace(UNSTARTED, running=None), True, f"{NEW} becomes active .*; another one runs until then"),
    (QUIET_NEW, replace(UNSTARTED, running=None, runs=False), True, f"{NEW} becomes active .*; nothing runs"),
    (QUIET_OLD, UNSTARTED, True, f"{OLD} is active and running"),
]


@pytest.mark.parametrize(("order", "found", "changed", "expected"), SAID)
def test_what_is_said_at_the_end_is_so(
    order: InstallRequest, found: InstalledState, changed: bool, expected: str
) -> None:
    assert re.fullmatch(expected, outcome(order, found, changed=changed))


def test_an_older_one_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.1\.0-a is older than the active version 0\.2\.0-b: --downgrade"):
        plan(WANT_OLD, there(NEW, current=NEW))


FOUND = st.builds(
    lambda names, current, previous, running, flags: InstalledState(
        {name: VERSIONS[name] for name in names},
        current if current in names else None,
        previous if previous in names else None,
        left=("x",) if flags[0] else (),
        placed=flags[1],
        configured=flags[2],
        runs=flags[3],
        enabled=flags[4],
        running=running,
        tried=flags[5],
    ),
    st.sets(st.sampled_from(sorted(VERSIONS))),
    st.sampled_from(sorted(VERSIONS)),
    st.sampled_from(sorted(VERSIONS)),
    st.sampled_from([None, "0.0.1-gone", *sorted(VERSIONS)]),
    st.tuples(*[st.booleans()] * 6),
)
ORDERS = st.builds(
    lambda version, start: InstallRequest(version.release, version.name, True, start),
    st.sampled_from(sorted(VERSIONS.values(), key=lambda one: one.name)),
    st.booleans(),
)


@given(ORDERS, FOUND)
def test_every_plan(order: InstallRequest, found: InstalledState) -> None:
    steps = plan(order, found)
    assert list(steps) == [step for step in Step if step in steps], "in their order, each once"
    assert (SWITCH in steps) or (order.name == found.current and found.placed), "the wanted one is in force at the end"
    assert not {TRY, START} <= set(steps), "started once"
    assert order.start or not {TRY, START, ENABLE} & set(steps), "never started when that was not asked for"
    if SWITCH in steps and TRY in steps:
        assert steps.index(TRY) < steps.index(SWITCH), "what is not READY never gets into force"
    if {TRY, START, SWITCH} & set(steps):
        assert CHECK in steps, "no start and no switch before the configuration was checked"
    assert RETURN not in steps or TRY in steps, "what runs is put in force again where it may be needed"
    ready = found.runs and found.running == order.name
    assert ready or not order.start or {TRY, START} & set(steps), "what is READY at the end is what was asked for"
    kept = found.versions.keys() - set(surplus(order.name, found))
    assert found.proven is None or found.proven in kept, "there is always one to go back to"
    assert found.running not in found.versions or found.running in kept, "what runs is not deleted"
    assert all("{" not in line(step, order, found) for step in steps)


FOR_PEOPLE = (".md", ".example")


def test_every_file_of_the_service_has_a_folder_or_is_for_people() -> None:
    names = {path.name for path in (ROOT / "systemd").iterdir()}
    people = {name for name in names if name.endswith(FOR_PEOPLE)}
    assert UNIT in names
    assert {name for name in names if not is_for_system(name)} == people
    assert len({folder_of(name) / name for name in names - people}) == len(names - people)


def test_on_trial_the_service_names_the_version_itself_and_nothing_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    version = layout.folder(NEW)
    shutil.copytree(ROOT / "systemd", version / UNITS_IN_VERSION)
    place(layout, prepare(layout, version))
    assert in_place(layout, version)
    set_trial(layout, version)
    unit = (tmp_path / "run/systemd/system" / UNIT).read_text()
    assert f"ExecStart=/opt/onboard/versions/{NEW}/bin/onboard run" in unit
    assert "/opt/onboard/current" not in unit
    assert in_place(layout, version), "what is in force stays as it is"
    end_trial(layout)
    assert on_trial(layout) == []
    (tmp_path / "usr/local/lib/systemd/system" / UNIT).write_text("[Service]\n")
    assert not in_place(layout, version)
    assert foreign(layout, version) == [tmp_path / "usr/local/lib/systemd/system" / UNIT]
    remove(layout)
    assert present(layout) == []
    assert (tmp_path / "usr/local/lib/systemd/system" / UNIT).exists(), "it is somebody else's now"


def test_install_waits_for_ready_longer_than_systemd_waits_for_the_start() -> None:
    assert inspect.signature(install_command).parameters["ready_within"].default == READY_S
    minutes = re.search(r"^TimeoutStartSec=(\d+)min$", (ROOT / "systemd" / UNIT).read_text(), re.MULTILINE)
    assert minutes is not None
    assert 60.0 * int(minutes[1]) < READY_S


class NoSystemd(Systemd):
    """A machine without systemd."""

    def status(self) -> Status:
        raise InputError("systemctl not found: the service needs systemd")


@pytest.mark.parametrize("python", [Path(sys.executable), Path("/root/python")])
def test_a_dry_run_prints_its_plan_on_a_machine_that_refuses_the_installation(python: Path, tmp_path: Path) -> None:
    said: list[str] = []
    choice = Choice("cpu", None, False, python)
    request = Request(wheel(tmp_path, "0.2.0"), choice, Timeouts(1.0, 0.0), start=False, dry_run=True)
    result = install(request, Layout(tmp_path / "root"), NoSystemd(), said.append)
    assert result["steps"] == ["build", "configure", "check", "account", "compile", "switch"]
    assert f"would build {result['version']} next to the other versions" in said
    refused = [line for line in said if line.startswith("this machine would refuse it: ")]
    assert any("systemctl not found" in line for line in refused)
    assert not (tmp_path / "root").exists()
    with pytest.raises(InputError):
        install(replace(request, dry_run=False), Layout(tmp_path / "root"), NoSystemd(), said.append)


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
