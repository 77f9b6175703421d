"""Recordings as arrays: every tick as written; inconsistent ticks are refused in one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hil.recordings import ticks
from hil.report import load
from hil.report.load import read_timeline, read_timelines
from hil.report.tables import notes_of
from hil.report.timeline import Timeline
from onboard.drivers.dds.tick_types import TickMessage
from onboard.recording.tick_message import tick_record
from onboard.state import TickRecord
from onboard.values.errors import InputError
from tests.rigs.recorded_drive import Recorded, record_drive
from tests.rigs.recordings.replay_mutations import join_sessions


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_drive(tmp_path_factory.mktemp("drive"))


@pytest.fixture(scope="module")
def timeline(drive: Recorded) -> Timeline:
    return read_timeline([drive.path])


def test_every_tick_is_there_as_it_was(drive, timeline):
    assert timeline.slot.tolist() == [tick.slot.number for tick in drive.ticks]
    assert timeline.state == [tick.state for tick in drive.ticks]
    assert timeline.reason == [tick.reason for tick in drive.ticks]
    assert timeline.command.tolist() == [[tick.command.v_mps, tick.command.w_radps] for tick in drive.ticks]
    assert timeline.wanted.tolist() == [[tick.wanted.v_mps, tick.wanted.w_radps] for tick in drive.ticks]
    poses = [tick.odometry.pose for tick in drive.ticks]
    assert timeline.odometry[:, :3].tolist() == [[pose.x_m, pose.y_m, pose.yaw_rad] for pose in poses]
    for row, tick in enumerate(drive.ticks):
        assert np.array_equal(np.isnan(timeline.scans[row]), ~tick.scan.seen)
        assert np.array_equal(timeline.scans[row][tick.scan.seen], tick.scan.ranges_m[tick.scan.seen])


def test_what_happened_now_and_then_stands_at_its_tick(drive, timeline):
    accepted = next(row for row, tick in enumerate(drive.ticks) if tick.inputs.goals)
    assert list(timeline.goals) == [accepted]
    assert timeline.goals[accepted][0].frame_id == "map"
    assert timeline.resets == {
        row: tick.sensed.memory_reset
        for row, tick in enumerate(drive.ticks)
        if tick.sensed and tick.sensed.memory_reset
    }
    assert np.flatnonzero(timeline.e_stop == 1).tolist() == list(range(len(drive.ticks) - 5, len(drive.ticks)))
    acted = [row for row, tick in enumerate(drive.ticks) if tick.acted and tick.acted.decision]
    assert np.flatnonzero(np.isfinite(timeline.delay_ms)).tolist() == acted
    assert timeline.delay_ms[acted] == pytest.approx(100.0)
    assert not timeline.gap.any()
    assert timeline.end_s(timeline.ticks - 1) == pytest.approx(len(drive.ticks) / 30.0)


def test_a_gap_is_seen_and_skipped_slots_are_none(timeline):
    slot, missed = timeline.slot.copy(), timeline.missed.copy()
    slot[40:] += 7
    slot[60:] += 3
    missed[60] = 3
    assert np.flatnonzero(replace(timeline, slot=slot, missed=missed).gap).tolist() == [40]


def changed(field: str, value: object):
    """Return a reader of the first 20 ticks, the last of them with another value."""

    def read(message: TickMessage, *parts: object) -> TickRecord | None:
        message = replace(message, **{field: value}) if message.slot == 19 else message
        return tick_record(message, *parts) if message.slot < 20 else None

    return read


#   what is written into the 20th tick   what is said after the file's name
UNFIT = [
    (changed("odometry", [1.0, 2.0]), "tick 19: a pose with its twist of 2 numbers, must be 5"),
    (changed("wanted", [1.0] * 3), "tick 19: a twist of 3 numbers, must be 2"),
    (changed("start_ns", 5), "tick 19 begins before the one before it"),
    (changed("start_ns", 2**62), "its ticks are over 100 h apart"),
    (changed("stages", ["inbox"]), "tick 19: zip() argument 2 is longer than argument 1"),
]


@pytest.mark.parametrize(("read", "expected"), UNFIT)
def test_ticks_that_do_not_fit_together_are_refused(drive, monkeypatch, read, expected):
    monkeypatch.setattr(ticks, "tick_record", read)
    with pytest.raises(InputError) as caught:
        read_timeline([drive.path])
    assert str(caught.value).startswith(str(drive.path))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recording_without_ticks_is_refused(drive, monkeypatch):
    monkeypatch.setattr(load, "ticks_by_session", lambda *given, **options: iter(()))
    with pytest.raises(InputError, match="no tick in it"):
        read_timeline([drive.path])


def test_the_sessions_of_one_file_are_read_each_as_if_alone(drive, timeline, tmp_path):
    file = tmp_path / "joined.mcap"
    join_sessions(drive.path, file)
    first, second = read_timelines([file])
    assert first.sessions == second.sessions == (first.session["session"], "second")
    assert second.session["session"] == "second"
    for one in (first, second):
        assert one.slot.tolist() == timeline.slot.tolist()
        assert one.t_s.tolist() == timeline.t_s.tolist()
        assert np.array_equal(one.scans, timeline.scans, equal_nan=True)
        assert (one.state, one.resets, one.events) == (timeline.state, timeline.resets, timeline.events)
    assert "The file holds 2 sessions; this page is about second." in notes_of(second)
    with pytest.raises(InputError, match=r"joined\.mcap: holds 2 sessions, a page is about one"):
        read_timeline([file])
