"""What an installation does, as a function of what is there: a table, and what every plan holds to."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from install_rig import ROOT

from onboard.errors import InputError
from onboard.install.layout import UNIT, UNITS_IN_VERSION, Layout, Version
from onboard.install.plan import Found, Order, Step, line, plan, surplus
from onboard.install.units import (
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

OLD, NEW, OLDEST = "0.1.0-a", "0.2.0-b", "0.0.9-c"
VERSIONS = {name: Version(name, name.partition("-")[0], f"{name}.whl") for name in (OLD, NEW, OLDEST)}


def there(*names: str, current: str | None = None, previous: str | None = None) -> Found:
    """All in order, with these versions."""
    versions = {name: VERSIONS[name] for name in names}
    return Found(versions, current, previous, left=(), placed=True, configured=True, runs=True, enabled=True)


NOTHING = Found({}, None, None, left=(), placed=False, configured=False, runs=False, enabled=False)
INSTALLED = there(OLD, current=OLD)
WANT_OLD, WANT_NEW = Order("0.1.0", OLD), Order("0.2.0", NEW)

BUILD, CONFIGURE, CHECK, ACCOUNT = Step.BUILD, Step.CONFIGURE, Step.CHECK, Step.ACCOUNT
TRY, SWITCH, START, ENABLE, PRUNE = Step.TRY, Step.SWITCH, Step.START, Step.ENABLE, Step.PRUNE
UPGRADE = (BUILD, CHECK, ACCOUNT, TRY, SWITCH)
FIRST = (BUILD, CONFIGURE, CHECK, ACCOUNT, SWITCH)

#   name                                order      found       steps
PLANS = [
    ("the first", WANT_OLD, NOTHING, (*FIRST, START, ENABLE)),
    ("the first, without starting it", replace(WANT_OLD, start=False), NOTHING, FIRST),
    ("the same once more", WANT_OLD, INSTALLED, ()),
    ("the same, which was stopped", WANT_OLD, replace(INSTALLED, runs=False), (CHECK, START)),
    ("the same, a file missing", WANT_OLD, replace(INSTALLED, placed=False), (CHECK, ACCOUNT, SWITCH)),
    ("the same, not started with the machine", WANT_OLD, replace(INSTALLED, enabled=False), (ENABLE,)),
    ("a newer one", WANT_NEW, INSTALLED, UPGRADE),
    ("a newer one, without starting it", replace(WANT_NEW, start=False), INSTALLED, (BUILD, CHECK, ACCOUNT, SWITCH)),
    ("one built before", WANT_NEW, there(OLD, NEW, current=OLD), (CHECK, ACCOUNT, TRY, SWITCH)),
    ("a third", WANT_NEW, there(OLD, OLDEST, current=OLD, previous=OLDEST), (*UPGRADE, PRUNE)),
    ("an older one, as asked for", replace(WANT_OLD, downgrade=True), there(NEW, current=NEW), UPGRADE),
    ("after an interruption", WANT_OLD, replace(INSTALLED, left=("x",)), (Step.CLEAN, CHECK, START)),
]  # fmt: skip


@pytest.mark.parametrize(("order", "found", "steps"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_the_plan(order: Order, found: Found, steps: tuple[Step, ...]) -> None:
    assert plan(order, found) == steps


def test_an_older_one_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.1\.0-a is older than 0\.2\.0-b, which is in force: --downgrade"):
        plan(WANT_OLD, there(NEW, current=NEW))


def test_another_build_of_the_same_release_is_no_downgrade() -> None:
    assert TRY in plan(Order("0.2.0", "0.2.0-other"), there(NEW, current=NEW))


FOUND = st.builds(
    lambda names, current, previous, flags: Found(
        {name: VERSIONS[name] for name in names},
        current if current in names else None,
        previous if previous in names else None,
        left=("x",) if flags[0] else (),
        placed=flags[1],
        configured=flags[2],
        runs=flags[3],
        enabled=flags[4],
    ),
    st.sets(st.sampled_from(sorted(VERSIONS))),
    st.sampled_from(sorted(VERSIONS)),
    st.sampled_from(sorted(VERSIONS)),
    st.tuples(*[st.booleans()] * 5),
)
ORDERS = st.builds(
    lambda version, start: Order(version.release, version.name, True, start),
    st.sampled_from(sorted(VERSIONS.values(), key=lambda one: one.name)),
    st.booleans(),
)


@given(ORDERS, FOUND)
def test_every_plan(order: Order, found: Found) -> None:
    steps = plan(order, found)
    assert list(steps) == [step for step in Step if step in steps], "in their order, each once"
    assert (SWITCH in steps) or (order.name == found.current and found.placed), "the wanted one is in force at the end"
    assert not {TRY, START} <= set(steps), "started once"
    assert order.start or not {TRY, START, ENABLE} & set(steps), "never started when that was not asked for"
    if SWITCH in steps and TRY in steps:
        assert steps.index(TRY) < steps.index(SWITCH), "what is not READY never gets into force"
    if {TRY, START, SWITCH} & set(steps):
        assert CHECK in steps, "no start and no switch before the configuration was checked"
    kept = found.versions.keys() - set(surplus(order.name, found))
    assert found.current is None or found.current in kept, "there is always one to go back to"
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
