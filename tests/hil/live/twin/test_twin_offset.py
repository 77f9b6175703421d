"""The equation of the twin: against transforms worked out by hand, and as laws."""

from __future__ import annotations

from math import pi, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live.twin.offset import Coupling, follow, moved, offset_of, pause, reset, resume
from onboard.values.geometry import between, compose, distance, inverse, wrap
from onboard.values.messages import Pose

HALF = sqrt(0.5)

#   what                     robot at 0           twin at 0             robot now              twin now, by hand
BY_HAND = [
    ("nothing moved", Pose(1, 2, 0.3), Pose(10, 20, 0.7), Pose(1, 2, 0.3), Pose(10, 20, 0.7)),
    ("same headings", Pose(0, 0, 0), Pose(10, 20, 0), Pose(1, 2, 0.5), Pose(11, 22, 0.5)),
    ("a metre ahead", Pose(5, 5, 0), Pose(0, 0, pi / 2), Pose(6, 5, 0), Pose(0, 1, pi / 2)),
    ("a metre to the left", Pose(5, 5, 0), Pose(0, 0, pi / 2), Pose(5, 6, 0), Pose(-1, 0, pi / 2)),
    ("turned on the spot", Pose(5, 5, 0), Pose(1, 1, pi / 2), Pose(5, 5, 1), Pose(1, 1, pi / 2 + 1)),
    ("back to back", Pose(2, 0, pi / 2), Pose(3, 0, -pi / 2), Pose(2, 1, pi / 2), Pose(3, -1, -pi / 2)),
    ("half a right angle", Pose(0, 0, pi / 4), Pose(0, 0, pi / 2), Pose(1, 0, pi / 4), Pose(HALF, HALF, pi / 2)),
    ("heading wraps", Pose(0, 0, 3), Pose(0, 0, 3), Pose(0, 0, -3), Pose(0, 0, -3)),
]


@pytest.mark.parametrize(("what", "robot", "twin", "now", "expected"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_the_equation_by_hand(what: str, robot: Pose, twin: Pose, now: Pose, expected: Pose) -> None:
    assert same(moved(offset_of(robot, twin), now), expected)


def test_a_pause_in_a_corner_by_hand() -> None:
    """A metre ahead, a turn to the right about in the room, another metre: in the corridor two metres straight on."""
    coupling = reset(Pose(0, 0, 0), Pose(100, 50, 0))
    coupling = pause(coupling, Pose(1, 0, 0))
    assert follow(coupling, Pose(1.2, -0.1, -1.0)) == Pose(101, 50, 0)
    coupling = resume(coupling, Pose(1.2, -0.1, -pi / 2))
    assert same(follow(coupling, Pose(1.2, -1.1, -pi / 2)), Pose(102, 50, 0))


metres = st.floats(-1000.0, 1000.0)
poses = st.builds(Pose, metres, metres, st.floats(-3.14, 3.14))
couplings = st.builds(lambda robot, twin: Coupling(offset_of(robot, twin)), poses, poses)


def same(a: Pose, b: Pose) -> bool:
    return distance(a, b) < 1e-6 and abs(wrap(a.yaw_rad - b.yaw_rad)) < 1e-9


@given(couplings, poses, st.lists(poses, max_size=5), poses)
def test_law_paused_and_moved_anyhow_and_resumed_the_twin_is_where_it_was(
    coupling: Coupling, at_pause: Pose, meanwhile: list[Pose], at_resume: Pose
) -> None:
    before = follow(coupling, at_pause)
    coupling = pause(coupling, at_pause)
    assert all(follow(coupling, pose) == before for pose in meanwhile)
    assert same(follow(resume(coupling, at_resume), at_resume), before)


@given(couplings, poses, poses)
def test_law_every_motion_of_the_robot_is_the_same_motion_of_the_twin(coupling: Coupling, a: Pose, b: Pose) -> None:
    assert same(between(follow(coupling, a), follow(coupling, b)), between(a, b))


@given(couplings, poses, poses, poses)
def test_law_motions_on_both_sides_of_a_pause_add_up(coupling: Coupling, a: Pose, step: Pose, b: Pose) -> None:
    resumed = resume(pause(coupling, a), b)
    assert same(follow(resumed, compose(b, step)), compose(follow(coupling, a), step))


@given(couplings, poses, poses)
def test_law_the_equation_is_a_change_of_frame(coupling: Coupling, robot: Pose, other: Pose) -> None:
    map_from_room = compose(follow(coupling, robot), inverse(robot))
    assert same(follow(coupling, other), compose(map_from_room, other))


@given(couplings, poses, poses, poses)
def test_pausing_twice_is_pausing_once_and_what_was_not_paused_is_not_touched(
    coupling: Coupling, a: Pose, b: Pose, c: Pose
) -> None:
    once = pause(coupling, a)
    assert pause(once, b) == once
    assert resume(resume(once, b), c) == resume(once, b)
    assert resume(coupling, a) is coupling


@given(couplings, poses, poses, poses)
def test_after_a_reset_nothing_of_before_counts(coupling: Coupling, robot: Pose, start: Pose, now: Pose) -> None:
    fresh = reset(robot, start)
    assert same(follow(fresh, robot), start)
    assert fresh.frozen is None
    assert same(between(start, follow(fresh, now)), between(robot, now))
