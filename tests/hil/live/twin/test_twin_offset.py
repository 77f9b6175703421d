"""The equation of the twin: against transforms worked out by hand, and as laws."""

from __future__ import annotations

from math import pi

from hypothesis import given
from hypothesis import strategies as st

from hil.live.twin.offset import Coupling, follow, offset_of, pause, reset, resume
from onboard.values.geometry import between, distance, wrap
from onboard.values.messages import Pose


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
def test_after_a_reset_nothing_of_before_counts(coupling: Coupling, robot: Pose, start: Pose, now: Pose) -> None:
    fresh = reset(robot, start)
    assert same(follow(fresh, robot), start)
    assert fresh.frozen is None
    assert same(between(start, follow(fresh, now)), between(robot, now))
