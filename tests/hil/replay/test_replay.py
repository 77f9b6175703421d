"""A replay repeats the recorded run, and names the first difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.compare import Compared
from hil.replay.replay import replay
from hil.replay.tick_selection import Span
from onboard.perception import scan_fusion
from onboard.safety import limits
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError, RuntimeFaultError
from onboard.values.messages import BINS, Inputs, Scan
from tests.rigs.recordings.replay_rig import TURNS, opinion_of, puppet, recorded
from tests.rigs.runtime_bench import FORWARD, LEFT, Bench, Puppet, Tape

FAR = np.full(BINS, np.inf, np.float32)


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TickRecord]]:
    (file,), ticks = recorded(tmp_path_factory.mktemp("drive"))
    return file, ticks


def again(file: Path) -> Compared:
    return replay(file, policy=puppet())


def test_a_replay_is_the_same_run_to_the_last_bit(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    found = again(file)
    assert (found.first, found.ticks, found.skipped, found.gaps) == (None, len(ticks), 0, 0)
    assert found.identical
    assert found.within_tolerance
    decided = [tick for tick in ticks if tick.acted and tick.acted.decision]
    assert any(tick.acted and not tick.acted.decision for tick in ticks), "a decision was late"
    assert found.decisions == found.same == len(decided)
    assert found.fused == sum(tick.sensed is not None for tick in ticks)


def test_so_it_is_with_scans_apart(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, limits_scan={"cameras": ["front", "rear"]})
    found = again(file)
    assert (found.identical, found.ticks) == (True, len(ticks))


def test_so_it_is_with_ready_made_scans_that_came_late(tmp_path: Path) -> None:
    topics = {"scan": {"topic": "policys"}, "limits_scan": {"topic": "limits"}}
    config = Bench(**topics).config
    tape = Tape(tmp_path, config)
    bench = Bench(puppet(), listeners=[tape], **topics)
    came: dict[str, Scan] = {}

    def late(inputs: Inputs) -> Inputs:
        """A scan on each topic in every third tick, one later than the other, and not always as late."""
        if len(tape.ticks) % 3 == 0:
            for late_ms, topic in ((90 + len(tape.ticks), "policys"), (200, "limits")):
                ranges = np.full(BINS, 3.0 + len(tape.ticks) / 64 + late_ms, np.float32)
                came[topic] = Scan(inputs.now_ns - late_ms * 1_000_000, ranges, FAR > 0.0, arrival_ns=inputs.now_ns)
        return replace(inputs, scans=dict(came))

    bench.alter = late
    bench.ticks(5)
    bench.ask()
    bench.ticks(60)
    tape.close()
    (file,) = tmp_path.glob("*.mcap")
    found = again(file)
    assert {tick.inputs.now_ns - tick.scan.stamp_ns for tick in tape.ticks} > {90_000_000, 93_000_000}
    assert (found.first, found.identical, found.ticks) == (None, True, len(tape.ticks))
    with open_recording(file) as recording:
        read = [tick.inputs.scans for tick in ticks_of(recording)]
    assert [{name: scan.stamp_ns for name, scan in scans.items()} for scans in read] == [
        {name: scan.stamp_ns for name, scan in tick.inputs.scans.items()} for tick in tape.ticks
    ]


@pytest.mark.parametrize("scans", [{}, {"limits_scan": {"cameras": ["front", "rear"]}}])
def test_a_fusion_that_cannot_be_compared_is_not_called_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scans: dict[str, Any]
) -> None:
    """Frames between decisions are not recorded, so what was registered with them cannot be fused again."""
    (file,), ticks = recorded(tmp_path, scan={"history": 3}, **scans)
    sensed = sum(tick.sensed is not None for tick in ticks)
    found = again(file)
    assert (found.first, found.ticks, found.fused) == (None, len(ticks), 0)
    assert found.unfused == {"scan.history above 1": sensed}
    assert (found.identical, found.too_little, found.outcome) == (False, False, "no difference in what was compared")
    fuse = scan_fusion.fuse
    monkeypatch.setattr(scan_fusion, "fuse", lambda *given: (replace(fuse(*given)[0], ranges_m=FAR), fuse(*given)[1]))
    broken = again(file)
    assert broken.first is None, "the limits' scan has the history of the policy's"
    assert not broken.identical


def test_a_failed_engine_fails_again(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, broken={12: {"decision": None, "error": "the device is gone"}})
    assert any("the device is gone" in tick.state for tick in ticks)
    assert again(file).identical


def test_a_changed_limit_is_found_at_its_first_tick(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ticks = drive
    slower = limits._scaled
    monkeypatch.setattr(limits, "_scaled", lambda twist, factor: slower(twist, 0.999 * factor))
    first = next(tick for tick in ticks if tick.reason in ("speed_limit", "zone_stop", "zone_slow", "time_to_contact"))
    found = again(file).as_json()["first_difference"]
    assert (found["tick"], found["stage"], found["field"]) == (first.slot.number, "limits", "command.v_mps")
    assert found["recorded"] == first.command.v_mps
    assert found["replayed"] == pytest.approx(0.999 * first.command.v_mps)


def test_another_action_is_found_and_what_follows_is_compared_all_the_same(
    drive: tuple[Path, list[TickRecord]],
) -> None:
    file, _ = drive
    found = replay(file, policy=puppet((*TURNS[:3], LEFT)))
    assert set(found.fields) == {"acted.decision.action"}
    assert found.same < found.decisions
    assert not found.within_tolerance


def test_after_a_gap_it_goes_on_from_the_next_whole_state(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, lose=lambda slot: 100 <= slot < 110)
    found = again(file)
    assert (found.first, found.gaps, found.too_little) == (None, 1, False)
    assert found.skipped > 0
    assert not found.identical
    assert found.ticks + found.skipped == len(ticks) - sum(100 <= tick.slot.number < 110 for tick in ticks)
    assert found.ticks > len(ticks) // 2


def test_the_second_file_of_a_session_is_replayed_from_its_first_whole_state(tmp_path: Path) -> None:
    files, _ = recorded(tmp_path, record={"max_file_mb": 1})
    whole, refused = [], []
    for file in files[1:]:
        try:
            whole.append(again(file))
        except InputError as error:  # where a file ends depends on the disk: a short one may hold no whole state
            refused.append(str(error))
    assert all(one.endswith("no tick can be played, so nothing was compared") for one in refused)
    assert whole
    assert all(found.first is None and found.ticks > 0 and found.skipped > 0 for found in whole)
    assert not any(found.identical for found in whole)


def test_where_nothing_can_be_played_nothing_is_called_identical(
    tmp_path: Path, drive: tuple[Path, list[TickRecord]]
) -> None:
    (file,), _ = recorded(tmp_path, lose=lambda slot: slot < 400)
    with pytest.raises(InputError, match="no tick can be played, so nothing was compared"):
        replay(file, Span(to_s=0.0), policy=puppet())
    unread = opinion_of(drive[0], Puppet(FORWARD), Span(to_s=0.05))
    assert unread.reason.endswith("no decision can be played, so nothing was compared")


def test_an_older_format_is_refused_by_name(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hil.replay.sessions.FORMAT", "4")
    with pytest.raises(InputError, match="recorded in format 3, this version replays 4"):
        again(drive[0])


def test_a_part_is_played_from_the_last_whole_state_before_it(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    found = replay(file, Span(8.0, 9.0), policy=puppet())
    assert found.identical
    within = [tick for tick in ticks if 8 * NS_PER_S <= tick.slot.start_ns - ticks[0].slot.start_ns <= 9 * NS_PER_S]
    assert found.ticks == len(within) > 20
    assert found.sessions[0].from_s == (within[0].slot.start_ns - ticks[0].slot.start_ns) / NS_PER_S
    assert found.fused == sum(tick.sensed is not None for tick in within)


def test_a_difference_before_the_part_is_not_told(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = drive
    scaled = limits._scaled
    monkeypatch.setattr(limits, "_scaled", lambda twist, factor: scaled(twist, 0.999 * factor))
    first = again(file).first
    assert first is not None
    later = replay(file, Span(first.t_s + 0.5), policy=puppet())
    assert later.first is not None
    assert later.first.t_s >= first.t_s + 0.5
    before = replay(file, Span(0.0, first.t_s - 0.01), policy=puppet())
    assert before.identical


def test_what_is_missing_outside_the_part_is_not_counted(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, lose=lambda slot: 100 <= slot < 110)
    skipped = again(file)
    after_s = (ticks[-1].slot.start_ns - ticks[0].slot.start_ns) / NS_PER_S - 1.0
    found = replay(file, Span(after_s), policy=puppet())
    assert (found.identical, found.skipped, found.gaps) == (True, 0, 0)
    assert skipped.skipped > 0


def test_another_policy_says_what_it_would_have_done(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    done = [tick.acted.decision.action for tick in ticks if tick.acted and tick.acted.decision]
    opinion = opinion_of(file, Puppet(FORWARD))
    assert (opinion.decisions, opinion.same) == (len(done), done.count(FORWARD))
    assert opinion.pairs == {(action, FORWARD): done.count(action) for action in set(done)}
    assert len(opinion.moments) == min(10, opinion.decisions - opinion.same)
    values = opinion.as_json()
    assert sum(row["decisions"] for row in values["confusion"]) == len(done)
    assert values["confusion"][0]["now"] == {"action": FORWARD, "v_mps": 0.6, "w_radps": 0.0}


def test_a_fault_of_the_runtime_shows_its_traceback(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise TypeError("broken on purpose")

    monkeypatch.setattr(limits, "limit", broken)
    with pytest.raises(RuntimeFaultError) as fault:
        again(drive[0])
    first, *lines = str(fault.value).split("\n")
    assert "a fault of the runtime, not of the recording" in first
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "TypeError: broken on purpose"
    assert any("onboard/runtime.py" in line for line in lines)
