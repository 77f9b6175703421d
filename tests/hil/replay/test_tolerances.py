"""Tolerances of a replay: bit-exact on the recording machine, within tolerances elsewhere; differences leaf by leaf."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.recordings.recording import Session, open_recording
from hil.replay.compare import Comparison, SessionCount, joined
from hil.replay.compared_fields import Difference, _of_state
from hil.replay.replay import replay
from hil.replay.summary import compared_line
from hil.replay.tolerances import BIT_FOR_BIT, OF_REFERENCE, Measure, measure_of, tolerant
from onboard.perception import scan_fusion
from onboard.state import RobotState
from onboard.values.messages import Pose
from tests.rigs.recordings.replay_mutations import Whole, put_together, taken_apart
from tests.rigs.recordings.replay_rig import short_drive

OTHER = tolerant("other engine")
BEHIND = 0
LATER = 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return taken_apart(short_drive(tmp_path_factory.mktemp("drive")).read_bytes())


def written(whole: Whole, folder: Path, changes: Mapping[str, str | None]) -> Path:
    """Write the drive with another session's record; None leaves a name out."""
    session = {name: text for name, text in {**whole.session, **changes}.items() if text is not None}
    file = folder / "drive.mcap"
    file.write_bytes(put_together(replace(whole, session=session)))
    return file


def session_of(file: Path) -> Session:
    with open_recording(file) as recording:
        return recording.sessions[0]


#   what the record says otherwise            by what it is judged
MEASURES: list[tuple[dict[str, str | None], str]] = [
    ({}, "bit for bit"),
    ({"code_sha256": "0" * 64, "onboard_version": "9"}, "bit for bit"),
    ({"machine": "another name"}, "bit for bit"),
    ({"processor": "a Jetson"}, "within tolerances: other processor"),
    ({"libraries": "numpy 1.0"}, "within tolerances: other libraries"),
    ({"processor": "a Jetson", "engine": "tensorrt 10.3"}, "within tolerances: other processor and engine"),
    ({"processor": None}, "within tolerances: the recording does not say its processor"),
    ({"machine": "reference"}, "as a reference: exact but for the last bits of sums"),
]


@pytest.mark.parametrize(("changes", "expected"), MEASURES)
def test_a_recording_is_judged_by_where_it_was_made(
    whole: Whole, tmp_path: Path, changes: dict[str, str | None], expected: str
) -> None:
    file = written(whole, tmp_path, changes)
    assert measure_of(session_of(file)).description == expected
    assert f", judged {expected}, " in compared_line(replay(file))


def test_another_model_is_judged_by_tolerances(whole: Whole, tmp_path: Path) -> None:
    session = session_of(written(whole, tmp_path, {}))
    assert measure_of(session, same_model=False).description == "within tolerances: other model"


def ranges(alter: Callable[[np.ndarray], np.ndarray]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what has the fusion give another range behind the robot, where no limit looks."""

    def change(patch: pytest.MonkeyPatch) -> None:
        fuse = scan_fusion.fuse

        def fused(*given: Any) -> Any:
            seen, memory = fuse(*given)
            ranges_m = seen.ranges_m.copy()
            ranges_m[BEHIND] = alter(ranges_m[BEHIND])
            return replace(seen, ranges_m=ranges_m), memory

        patch.setattr(scan_fusion, "fuse", fused)

    return change


farther = ranges(lambda range_m: range_m + np.float32(0.0009))
last_bit = ranges(lambda range_m: np.nextafter(range_m, np.float32(20.0)))


OTHER_MACHINE, REFERENCE = {"processor": "a Jetson"}, {"machine": "reference"}

#   change     recorded   what it came to
CHANGES = [
    (farther,  {},        "differs"),
    (farther,  OTHER_MACHINE, "within tolerance"),
    (farther,  REFERENCE, "differs"),
    (last_bit, {},        "differs"),
    (last_bit, OTHER_MACHINE, "within tolerance"),
    (last_bit, REFERENCE, "within tolerance"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "recorded", "outcome"), CHANGES)
def test_what_is_too_small_to_matter_elsewhere_is_found_where_it_was_recorded(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, recorded: dict[str, str], outcome: str
) -> None:
    file = written(whole, tmp_path, recorded)
    change(monkeypatch)
    found = replay(file)
    assert set(found.fields) == {"ranges_m", "scan_odometry"}
    assert (found.outcome, found.within_tolerance) == (outcome, outcome != "differs")
    assert not found.identical


def test_the_difference_that_is_told_is_the_first_that_may_not_be(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last bits of sums differ before it, in every scan, as on another machine."""
    calls = count()
    last_bit(monkeypatch)
    fuse = scan_fusion.fuse

    def fused(*given: Any) -> Any:
        seen, memory = fuse(*given)
        ranges_m = seen.ranges_m.copy()
        ranges_m[BEHIND + 1] += np.float32(0.5 if next(calls) >= LATER else 0.0)
        return replace(seen, ranges_m=ranges_m), memory

    monkeypatch.setattr(scan_fusion, "fuse", fused)
    file = written(whole, tmp_path, {"machine": "reference"})
    found = replay(file)
    assert found.first is not None
    assert (found.outcome, found.first.difference.place, found.first.allowed) == ("differs", f"[{BEHIND + 1}]", False)
    assert joined([found, found]).first == found.first
    assert found.sessions[0].first == found.first


#   field       by     bit for bit, of a reference, elsewhere
ALLOWED = [
    ("acted.decision.action", 1.0, False, False, True),
    ("sensed.memory_reset", 1.0, False, False, False),
    ("reason",  np.inf,   False, False, False),
    ("command",   1e-9,   False, True,  True),
    ("command",   1e-5,   False, False, False),
    ("ranges_m",  2e-6,   False, True,  True),
    ("ranges_m",  9e-4,   False, False, True),
    ("acted.decision.logits", 5e-3,   False, False, True),
]  # fmt: skip


@pytest.mark.parametrize(("field", "by", "bit_for_bit", "reference", "elsewhere"), ALLOWED)
def test_how_far_a_field_may_differ(field: str, by: float, bit_for_bit: bool, reference: bool, elsewhere: bool) -> None:
    one = Difference("stage", field, "", 0.0, by, by)
    assert [measure.allows(one) for measure in (BIT_FOR_BIT, OF_REFERENCE, OTHER)] == [
        bit_for_bit, reference, elsewhere,
    ]  # fmt: skip


#   same of 1000 decisions, by
@pytest.mark.parametrize(("same", "measure", "within"), [(995, OTHER, True), (994, OTHER, False), (1000, OTHER, True)])
def test_elsewhere_a_few_actions_may_differ(same: int, measure: Measure, within: bool) -> None:
    count = SessionCount(None, decisions=1000, same=same, measure=measure)  # type: ignore[arg-type]
    assert Comparison("file", [count]).within_tolerance == within


STATE = RobotState()
MEMORY = np.ones((2, 3), np.float32)
ARRAY = "array of shape (2, 3)"


def remembering(memory: Any) -> RobotState:
    return replace(STATE, pilot=replace(STATE.pilot, memory=memory))


def at(x_m: float) -> RobotState:
    return replace(STATE, wheels=replace(STATE.wheels, pose=Pose(x_m, 0.0, 0.0)))


CHANGED = MEMORY.copy()
CHANGED[1, 2] = 1.5

#   recorded, now, (field, place, recorded, now)
STATES = [
    (STATE, STATE, []),
    (remembering(MEMORY), remembering(MEMORY.copy()), []),
    (remembering(MEMORY), remembering(CHANGED), [("pilot.memory", "[1][2]", 1.0, 1.5)]),
    (remembering(MEMORY), remembering(None), [("pilot.memory", "", ARRAY, None)]),
    (remembering(None), remembering(MEMORY), [("pilot.memory", "", None, ARRAY)]),
    (remembering(MEMORY), remembering(MEMORY[:1]), [("pilot.memory", "", ARRAY, "array of shape (1, 3)")]),
    (at(1.0), at(1.25), [("keyframe", ".wheels.pose.x_m", 1.0, 1.25)]),
    (at(math.nan), at(math.nan), []),
]


@pytest.mark.parametrize(("recorded", "again", "differences"), STATES)
def test_what_differs(recorded: RobotState, again: RobotState, differences: list[tuple[str, str, Any, Any]]) -> None:
    found = [(one.field, one.place, one.recorded, one.replayed) for one in _of_state(recorded, again)]
    assert found == differences
