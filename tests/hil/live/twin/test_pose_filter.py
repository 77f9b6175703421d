"""Which of a robot's poses are believed."""

from __future__ import annotations

from math import inf, nan, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live.twin.twin import GOOD, SILENT_NS, Verdict, judge, silence
from onboard.navigation.odometry import integrate
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist

HERE = Pose(1.0, 2.0, 0.5)


def message(pose: Pose | None, twist: Twist = STOP) -> OdometryMessage:
    return OdometryMessage(0, 0, pose, twist)


#   what                message                                  before   elapsed   fault begins with   go on from?
MESSAGES = [
    ("the first", message(HERE), None, 0.0, "", True),
    ("the same again", message(HERE), HERE, 0.03, "", True),
    ("at 1 m/s", message(Pose(1.03, 2.0, 0.5)), HERE, 0.03, "", True),
    ("after a gap", message(Pose(3.0, 2.0, 0.5)), HERE, 1.0, "", True),
    ("turned across pi", message(Pose(0, 0, 3.1)), Pose(0, 0, -3.1), 0.03, "", True),
    ("no pose", message(None), HERE, 0.03, "odometry without a pose", False),
    ("x not a number", message(Pose(nan, 0, 0)), HERE, 0.03, "odometry: x is nan", False),
    ("y infinite", message(Pose(0, -inf, 0)), HERE, 0.03, "odometry: y is -inf", False),
    ("yaw not a number", message(Pose(0, 0, nan)), None, 0.0, "odometry: yaw is nan", False),
    ("v not a number", message(HERE, Twist(nan, 0.0)), HERE, 0.03, "odometry: v is nan", False),
    ("w infinite", message(HERE, Twist(0.0, inf)), HERE, 0.03, "odometry: w is inf", False),
    ("absurd", message(Pose(1e9, 0, 0)), None, 0.0, "odometry: x is 1000000000", False),
    ("held up, then on", message(Pose(1.3, 2.0, 0.5), Twist(0.6, 0.0)), HERE, 0.001, "", True),
    ("turned on, held up", message(Pose(1.0, 2.0, 0.9), Twist(0.0, 1.0)), HERE, 0.001, "", True),
    ("faster than it says", message(Pose(1.5, 2.0, 0.5), Twist(0.6, 0.0)), HERE, 0.001, "odometry: jumped", True),
    ("jumped", message(Pose(2.0, 2.0, 0.5)), HERE, 0.03, "odometry: jumped by 1 m in 0.03 s, limit 0.14 m", True),
    ("jumped round", message(Pose(1, 2, 0.5 + pi)), HERE, 0.03, "odometry: jumped by 3.14 rad in 0.03 s", True),
    ("time back", message(HERE), HERE, -1.0, "odometry: its time went back by 1 s", True),
]


@pytest.mark.parametrize(
    ("what", "odometry", "before", "elapsed_s", "fault", "is_pose"), MESSAGES, ids=[row[0] for row in MESSAGES]
)
def test_what_is_wrong_is_told_in_a_line(
    what: str, odometry: OdometryMessage, before: Pose | None, elapsed_s: float, fault: str, is_pose: bool
) -> None:
    verdict = judge(odometry, before, elapsed_s)
    assert verdict.is_pose == is_pose
    assert verdict == GOOD if fault == "" else verdict.fault.startswith(fault)
    assert "\n" not in verdict.fault


@given(st.floats(-2.9, 2.9), st.floats(-9.9, 9.9), st.floats(0.0, 5.0))
def test_nothing_that_a_robot_can_do_is_a_jump(v_mps: float, w_radps: float, elapsed_s: float) -> None:
    after = integrate(HERE, Twist(v_mps, w_radps), elapsed_s)
    assert judge(message(after, Twist(v_mps, w_radps)), HERE, elapsed_s) == Verdict("", True)


#   what                             moved [m]   by the stamps [s]   between the arrivals [s]   is a jump
CLOCKS = [
    ("an honest gap", 1.9, 2.0, 2.0, False),
    ("held up on the way", 0.5, 0.5, 0.4, False),
    ("a clock that ran ahead", 5.0, 3600.0, 0.033, True),
    ("a gap that was none", 1.9, 2.0, 0.033, True),
]


@pytest.mark.parametrize(("what", "moved_m", "elapsed_s", "gap_s", "jump"), CLOCKS, ids=[row[0] for row in CLOCKS])
def test_the_robots_clock_explains_no_more_than_ours(
    what: str, moved_m: float, elapsed_s: float, gap_s: float, jump: bool
) -> None:
    verdict = judge(message(Pose(1.0 + moved_m, 2.0, 0.5)), HERE, elapsed_s, gap_s)
    assert verdict.fault.startswith("odometry: jumped") == jump


def test_silence_is_told_once_it_lasts() -> None:
    assert silence(None, 10**12) == ""
    assert silence(5, 5 + SILENT_NS) == ""
    assert silence(5, 6 + SILENT_NS) == "odometry: none for more than 0.5 s"
