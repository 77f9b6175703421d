"""The disk budget of recordings: deleted and kept files as a table, as laws, and on a real disk that fills up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.config import RecordSection
from onboard.drivers.dds.ros_types import String, to_cdr
from onboard.recording.recorder import Recorder
from onboard.recording.retention import Budget, StoredRecording, Verdict, judge, mark
from onboard.recording.ros_schema import message_type
from onboard.values.errors import InputError

WALL_NS = 1_790_000_000 * 10**9
DAY_NS = 86_400 * 10**9
MB = 1_000_000
PLENTY = 10**12
STRING = message_type(String)
BUDGET = Budget(total_bytes=100, file_bytes=10, free_bytes=50)


def held(*sizes: int, marked: Sequence[int] = (), fixed: Sequence[int] = ()) -> list[StoredRecording]:
    return [StoredRecording(Path(str(n)), size, n in marked, n in fixed) for n, size in enumerate(sizes)]


#   name, recordings (oldest first), free bytes, expected deletions, over, full
JUDGED: list[tuple[str, list[StoredRecording], int, list[int], int, bool]] = [
    ("none yet", [], PLENTY, [], 0, False),
    ("just as much as may be", held(80, 10), PLENTY, [], 0, False),
    ("one byte too much", held(80, 11), PLENTY, [0], 0, False),
    ("the oldest go until it fits", held(5, 30, 61), PLENTY, [0, 1], 0, False),
    ("a marked one stays, the next goes", held(80, 10, 10, marked=[0]), PLENTY, [1], 0, False),
    ("one in use stays", held(80, 10, 10, fixed=[0]), PLENTY, [1], 0, False),
    ("all are marked", held(80, 20, marked=[0, 1]), PLENTY, [], 10, False),
    ("the disk is as full as may be", held(5, 5), 60, [], 0, False),
    ("the disk is one byte fuller", held(5, 5), 59, [0], 0, False),
    ("room for others, not for a whole file", held(3, marked=[0]), 50, [], 0, False),
    ("less than others need", held(3, marked=[0]), 49, [], 0, True),
    ("less than others need until all have gone", held(30, 30), 10, [0, 1], 0, False),
]


@pytest.mark.parametrize(
    ("recordings", "free", "gone", "over", "full"), [row[1:] for row in JUDGED], ids=[row[0] for row in JUDGED]
)
def test_what_goes(recordings: list[StoredRecording], free: int, gone: list[int], over: int, full: bool) -> None:
    assert judge(recordings, BUDGET, free) == Verdict(tuple(Path(str(n)) for n in gone), over, full)


RECORDINGS = st.lists(
    st.builds(
        StoredRecording, st.uuids().map(lambda name: Path(str(name))), st.integers(0, 100), st.booleans(), st.booleans()
    ),
    max_size=12,
    unique_by=lambda one: one.path,
)
BUDGETS = st.builds(Budget, st.integers(0, 300), st.integers(0, 50), st.integers(0, 100))


@given(RECORDINGS, BUDGETS, st.integers(0, 300))
def test_nothing_that_must_stay_goes_and_nothing_goes_without_need(
    recordings: list[StoredRecording], budget: Budget, free: int
) -> None:
    verdict = judge(recordings, budget, free)
    may_go = [recording for recording in recordings if not recording.marked and not recording.fixed]
    assert list(verdict.delete) == [one.path for one in may_go[: len(verdict.delete)]], "the oldest, in their order"
    kept = [recording for recording in recordings if recording.path not in verdict.delete]
    freed = sum(recording.size_bytes for recording in recordings) - sum(one.size_bytes for one in kept)
    if len(verdict.delete) < len(may_go):
        assert fits(kept, budget, free + freed), "some are left though the bounds do not hold"
    if verdict.delete:
        last = next(recording for recording in recordings if recording.path == verdict.delete[-1])
        assert not fits([*kept, last], budget, free + freed - last.size_bytes), "the last one need not have gone"
    assert verdict.over_bytes == max(0, sum(one.size_bytes for one in kept) + budget.file_bytes - budget.total_bytes)
    assert verdict.full == (free + freed < budget.free_bytes)


def fits(kept: Sequence[StoredRecording], budget: Budget, free: float) -> bool:
    """Check the verdict against the bounds of `config.RecordSection`."""
    return (
        sum(one.size_bytes for one in kept) + budget.file_bytes <= budget.total_bytes
        and free >= budget.free_bytes + budget.file_bytes
    )


def recorder(folder: Path, day: int, **section: float) -> Recorder:
    settings = RecordSection.model_validate({"directory": folder, **section})
    return Recorder(settings, "robot", {}, wall_ns=WALL_NS + day * DAY_NS, now_ns=0)


def sessions(folder: Path, days: int) -> list[Path]:
    """Return recordings of one megabyte, one per day, oldest first."""
    for day in range(days):
        session = recorder(folder, day)
        assert session.write("/a", STRING, random.Random(day).randbytes(MB), 0)
        session.close()
    return sorted(folder.glob("*.mcap"))


def test_a_session_begins_within_the_budget_and_keeps_what_is_marked(tmp_path: Path) -> None:
    old = sessions(tmp_path, 5)
    mark(old[1], keep=True)
    session = recorder(tmp_path, 9, max_file_mb=1, max_total_mb=3.5)
    session.close()
    new = session.stats().file
    assert sorted(tmp_path.glob("*.mcap")) == [old[1], old[4], new]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.mcap")) <= 3.5 * MB


def test_marked_ones_that_fill_the_budget_do_not_keep_the_robot_from_recording(tmp_path: Path) -> None:
    old = sessions(tmp_path, 2)
    for path in old:
        mark(path, keep=True)
    session = recorder(tmp_path, 9, max_file_mb=1, max_total_mb=1)
    assert session.stats().stopped == ""
    session.close()
    assert [path for path in old if path.exists()] == old


def test_a_disk_that_others_need_ends_the_recording_with_the_reason_and_deletes_no_marked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = sessions(tmp_path, 1)
    mark(old, keep=True)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    session = recorder(tmp_path, 9)
    assert not session.write("/a", STRING, to_cdr(String("x")), 0)
    session.close()
    assert "recording stopped: less than 500 MB free" in session.stats().stopped
    assert list(tmp_path.glob("*.mcap")) == [old]


def test_marks_are_made_and_taken_away_as_often_as_one_likes(tmp_path: Path) -> None:
    (path,) = sessions(tmp_path, 1)
    for keep in (True, True, False, False):
        mark(path, keep=keep)
        assert (tmp_path / f"{path.name}.keep").exists() == keep


@pytest.mark.parametrize("name", ["none.mcap", "notes.txt", "."])
def test_only_recordings_are_marked(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not a recording"):
        mark(tmp_path / name, keep=True)
