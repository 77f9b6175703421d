"""A soak of minutes: nothing is broken, all is recorded and read; and what is broken on purpose is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.reliability.soak import drive, fault_schedule, judge
from hil.reliability.soak.drive import Soak, Until
from hil.reliability.soak.fault_schedule import Draw
from hil.reliability.soak.recording_check import KEPT
from hil.reliability.soak.report import joined, lines, passed, result_of
from onboard.recording import tick_writer
from onboard.safety import limits, recovery
from onboard.values.clock import NS_PER_S
from tests.hil.reliability.soak.soak_rig import config, silent, soak
from tests.rigs.runtime_bench import FORWARD, Puppet

MINUTES = 3.0
QUICK_S = 30.0
"""Long enough for two faults, where they come as quickly as `only` has them come."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Soak:
    one = soak(tmp_path_factory.mktemp("lived"))
    one.run(Until(robot_s=60.0 * MINUTES), silent)
    return one


def result(*soaks: Soak) -> dict[str, Any]:
    return joined([result_of(one, number) for number, one in enumerate(soaks)])


def test_nothing_is_broken_in_minutes_of_faults(lived: Soak) -> None:
    values = result(lived)
    assert values["violations"] == {}
    assert values["processes"][0]["broken"] == []
    assert lived.robot_s == pytest.approx(60.0 * MINUTES, abs=0.1)
    assert lived.judge.runtimes == 1


def test_it_drives_from_goal_to_goal_with_a_fault_every_half_minute(lived: Soak) -> None:
    """Else nothing would be shown."""
    assert sum(lived.faults.values()) == MINUTES * 60.0 / fault_schedule.EVERY_S
    assert max(lived.faults.values()) == 1
    assert lived.reached >= 2
    assert lived.goals > lived.reached
    assert lived.judge.moving / lived.judge.ticks > 0.4
    assert lived.ground.path_m > 25.0


def test_the_same_seed_drives_the_same(tmp_path: Path) -> None:
    ways = []
    for name in ("first", "again"):
        one = soak(tmp_path / name, seed=5)
        one.run(Until(robot_s=QUICK_S), silent)
        ways.append((one.ground.path_m, dict(one.faults), one.judge.ticks, one.goals))
    assert ways[0] == ways[1]


Patch = Callable[[pytest.MonkeyPatch], Any]


def only(*names: str) -> Patch:
    """Let these faults come alone, and quickly."""

    def patch(given: pytest.MonkeyPatch) -> None:
        kept = [fault for fault in fault_schedule.FAULTS if fault.name in names]
        given.setattr(fault_schedule, "FAULTS", kept)
        given.setattr(fault_schedule, "EVERY_S", 12.0)
        given.setattr(fault_schedule, "ONSET_S", 2.0)
        given.setattr(drive, "CARRIED_S", 2.0)

    return patch


def believing_all(given: pytest.MonkeyPatch) -> None:
    only("odometry_stopped")(given)
    given.setattr(limits, "_fresh", lambda stamp_ns, now_ns, limit_ns: True)


def test_every_tick_is_in_the_recordings_and_they_are_deleted_when_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("e_stop")(monkeypatch)
    small = config(record={"max_file_mb": 0.2})
    one = soak(tmp_path, given=small)
    one.run(Until(robot_s=QUICK_S), silent)
    assert one.records.read.files >= 2
    assert one.records.read.ticks == one.judge.ticks == pytest.approx(30 * QUICK_S, abs=2)
    assert one.records.problems == []
    assert list(tmp_path.glob("**/*.mcap")) == []


def without_speed(given: pytest.MonkeyPatch) -> None:
    only("override_flood")(given)
    given.setattr(limits, "_within_speed", lambda twist, bounds: twist)


def backing_without_end(given: pytest.MonkeyPatch) -> None:
    only("base_deaf")(given)
    ended = recovery._back

    def endless(state: Any, backing: Any, situation: Any, section: Any, now_ns: int) -> Any:
        just_begun = replace(backing, began_ns=now_ns, began_m=situation.travelled_m)
        return ended(state, just_begun, situation, section, now_ns)

    given.setattr(recovery, "_back", endless)


#   what is broken             how                    rule that is broken then
BROKEN: list[tuple[str, Patch, str]] = [
    ("staleness of wheels",    believing_all,         "stale odometry"),
    ("the bound on speed",     without_speed,         "speed"),
    ("recovery without end",   backing_without_end,   "recovery time"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "how", "rule"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_found_and_its_recording_kept(
    what: str, how: Patch, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how(monkeypatch)
    one = soak(tmp_path)
    one.run(Until(robot_s=QUICK_S), silent)
    values = result(one)
    assert values["violations"][rule] > 0
    assert not passed(values)
    broken = values["processes"][0]["broken"][0]
    assert (broken["rule"], broken["building"]) == (rule, "room")
    assert broken["fault"] == next(iter(one.faults))
    (kept,) = values["recordings"]["kept"]
    with open_recording(tmp_path / KEPT / kept) as recording:
        assert any(tick.slot.start_ns == broken["now_ns"] for tick in ticks_of(recording))
    assert any(f"{rule}: {broken['what']}" in line for line in lines(values))


@pytest.mark.parametrize("fault", ["speed_limit_nan", "scan_noise", "scan_gone", "scan_blind_ahead"])
def test_driving_into_something_is_a_broken_rule_whatever_is_wrong_just_then(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that only wants ahead drives into the wall, since no zone holds it back."""
    only(fault)(monkeypatch)
    monkeypatch.setattr(limits, "_caps", lambda *arguments: [])
    monkeypatch.setattr(judge, "AFTER_NS", round(QUICK_S) * NS_PER_S)
    one = soak(tmp_path, policy=Puppet(FORWARD))
    one.run(Until(robot_s=QUICK_S), silent)
    values = result(one)
    assert not passed(values)
    assert one.ground.contacts == len(one.judge.contacts) == one.judge.rules["contact"] > 0
    assert fault in {broken.fault for broken in one.judge.broken if broken.rule == "contact"}
    assert any(f"under {fault}: contact: with something" in line for line in lines(values))
    assert sum(values["contacts"].values()) == one.ground.contacts
    assert one.judge.contacts[0].v_mps > 0.3


def test_where_the_zones_hold_it_back_the_same_policy_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("speed_limit_nan")(monkeypatch)
    one = soak(tmp_path, policy=Puppet(FORWARD))
    one.run(Until(robot_s=QUICK_S), silent)
    assert one.ground.path_m > 2.0
    assert (one.ground.contacts, one.judge.contacts, one.judge.rules["contact"]) == (0, [], 0)


def test_a_full_disk_ends_a_recording_that_stays_readable_and_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("disk_full")(monkeypatch)
    one = soak(tmp_path)
    one.run(Until(robot_s=2 * QUICK_S), silent)
    assert one.records.read.full_disks >= 2
    assert one.records.read.files == one.records.read.full_disks + 1
    assert 0 < one.records.read.ticks < one.judge.ticks
    assert result(one)["violations"] == {}


def test_a_tick_that_is_missing_in_a_recording_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tick_writer._Messages.of

    def forgetful(messages: Any, tick: Any) -> Any:
        return made(messages, tick) if tick.slot.number != 300 else iter(())

    monkeypatch.setattr(tick_writer._Messages, "of", forgetful)
    one = soak(tmp_path)
    one.run(Until(robot_s=20.0), silent)
    ticks = one.judge.ticks
    assert one.records.problems == [("recording incomplete", f"{ticks - 1} of {ticks} ticks are in it")]
    assert result(one)["violations"] == {"recording incomplete": 1}


def test_a_runtime_that_a_fault_ends_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only("drive_lost")(monkeypatch)
    monkeypatch.setattr(fault_schedule, "LIFE_S", 0.0)
    one = soak(tmp_path)
    one.run(Until(robot_s=QUICK_S), silent)
    values = result(one)
    assert (values["runtimes"], values["violations"]) == (1 + one.faults["drive_lost"], {})


def test_a_runtime_that_ends_by_itself_is_a_broken_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only("drive_lost")(monkeypatch)
    monkeypatch.setattr(fault_schedule, "LIFE_S", 0.0)
    monkeypatch.setattr(drive, "ENDS_RUNTIME", "another")
    one = soak(tmp_path)
    one.run(Until(robot_s=QUICK_S), silent)
    assert one.judge.rules["ended"] == one.judge.runtimes - 1 >= 1


def test_the_fault_that_ends_a_runtime_waits_until_it_has_lived_long(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Draw(config(), seed=3)
    names = [fault.name for fault in drawn.faults]
    assert {"scan_gone", "e_stop", "disk_full", "drive_lost", "base_deaf"} <= set(names)
    assert not {"camera_gone", "color_gone", "odometry_jumps_pose", "e_stop_sender_gone"} & set(names)
    young = {drawn.due(number * 30 * 10**9, life_s=60.0)[0].name for number in range(3 * len(names))}  # type: ignore[index]
    assert young == set(names) - {"drive_lost"}
    old = {drawn.due((1000 + number) * 30 * 10**9, life_s=1e5)[0].name for number in range(len(names) + 1)}  # type: ignore[index]
    assert "drive_lost" in old
