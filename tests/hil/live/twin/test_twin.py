"""The twin between messages: following, pausing, resetting, touching, seeing people, and not believing everything."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, pi

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.live.twin.scene import person_in_view, touches
from hil.live.twin.twin import (
    ASKED,
    GOOD,
    SILENT_NS,
    WAITING,
    Twin,
    Verdict,
    hear,
    judge,
    pause,
    reset,
    resume,
    silence,
    stick,
    watch,
)
from hil.scene.walkers import KINDS, crowd_of
from onboard.navigation.odometry import integrate
from onboard.values.errors import InputError
from onboard.values.geometry import between, distance
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist
from tests.hil.live.twin.twin_places import START, TICK_NS, boxed, life, said, standing

LIFE = life()
ROBOT = Pose(-3.0, 7.0, 1.0)
AHEAD = Twist(0.6, 0.0)


def begun(place=LIFE, robot: Pose = ROBOT) -> Twin:
    """Return a twin that has heard the robot once and was put at its start."""
    return reset(hear(Twin(), said(0, robot), place), place)


def driven(twin: Twin, robot: Pose, twist: Twist, ticks: int, first: int = 1, place=LIFE) -> tuple[Twin, Pose]:
    """Return the twin, and the robot, after so many ticks of a velocity."""
    for tick in range(first, first + ticks):
        robot = integrate(robot, twist, TICK_NS / 1e9)
        twin = hear(twin, said(tick, robot, twist), place)
    return twin, robot


def near(a: Pose, b: Pose) -> bool:
    return distance(a, b) < 1e-6 and abs(a.yaw_rad - b.yaw_rad) < 1e-9


def test_before_the_robot_is_heard_it_waits_and_refuses() -> None:
    assert Twin().why == WAITING
    with pytest.raises(InputError, match="reset: no odometry of the robot was received"):
        reset(Twin(), LIFE)
    assert resume(Twin(), 0) == Twin()
    assert pause(Twin()) == Twin()


def test_it_follows_from_its_start() -> None:
    twin, _ = driven(begun(), ROBOT, AHEAD, 30)
    assert near(twin.pose, Pose(START.x_m + 0.6, START.y_m, 0.0))
    assert twin.twist == AHEAD
    assert near(twin.odom_from_base, Pose(0.6, 0.0, 0.0)), "its own wheels begin at zero"


def test_pause_stands_still_and_resume_goes_on_from_there() -> None:
    twin, robot = driven(begun(), ROBOT, AHEAD, 30)
    twin = pause(twin)
    before = twin.pose
    twin, robot = driven(twin, robot, Twist(0.2, 2.0), 45, first=31)
    assert (twin.pose, twin.twist, twin.why) == (before, STOP, ASKED)
    twin = resume(twin, 75 * TICK_NS)
    twin, _ = driven(twin, robot, AHEAD, 30, first=76)
    assert near(between(before, twin.pose), Pose(0.6, 0.0, 0.0))


twists = st.builds(Twist, st.floats(-0.3, 1.0), st.floats(-3.0, 3.0))


@given(st.lists(st.tuples(twists, st.sampled_from(["follow", "pause"])), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_law_the_twins_way_is_what_the_robot_drove_while_it_followed(legs: list[tuple[Twist, str]]) -> None:
    free = life(world=None, start=Pose(5.0, 3.2, 0.0))
    twin, robot, expected, tick = begun(free), ROBOT, Pose(5.0, 3.2, 0.0), 1
    for twist, word in legs:
        twin = pause(twin) if word == "pause" else resume(twin, (tick - 1) * TICK_NS)
        twin, robot = driven(twin, robot, twist, 4, tick, free)
        expected = integrate(expected, twist, 4 * TICK_NS / 1e9) if word == "follow" else expected
        tick += 4
    assert distance(twin.pose, expected) < 1e-6


def test_a_reset_begins_another_life_and_its_wheels_go_on() -> None:
    twin, robot = driven(begun(), ROBOT, AHEAD, 30)
    wheels = twin.odom_from_base
    second = life(1, Pose(8.0, 3.0, pi / 2))
    twin = reset(twin, second)
    assert twin.pose == second.start
    assert near(twin.odom_from_base, wheels)
    twin, _ = driven(twin, robot, AHEAD, 30, 31, second)
    assert near(twin.odom_from_base, Pose(1.2, 0.0, 0.0))


def test_a_reset_while_paused_stands_at_the_new_start_until_resume() -> None:
    twin = reset(pause(begun()), life(1, Pose(8.0, 3.0, 0.0)))
    twin, robot = driven(twin, ROBOT, AHEAD, 5)
    assert (twin.pose, twin.why) == (Pose(8.0, 3.0, 0.0), ASKED)
    twin, _ = driven(resume(twin, 5 * TICK_NS), robot, AHEAD, 30, 6)
    assert near(twin.pose, Pose(8.6, 3.0, 0.0))


# --- contact and people -----------------------------------------------------------------------------------------------


def test_it_touches_the_box_where_the_footprint_reaches_it() -> None:
    twin, robot, tick = begun(life(start=Pose(1.0, 1.0, 0.0))), ROBOT, 1
    while not twin.contact and tick < 600:
        twin, robot = driven(twin, robot, AHEAD, 1, tick)
        tick += 1
    assert twin.pose.x_m == pytest.approx(5.0 - 0.25, abs=0.03)


def test_where_there_is_no_new_start_it_is_stuck_until_a_reset() -> None:
    twin, robot = driven(begun(life(start=Pose(4.7, 1.0, 0.0))), ROBOT, AHEAD, 10)
    assert twin.contact
    twin = stick(twin, "no room")
    assert (twin.why, twin.contact, twin.twist) == ("contact: no room", False, STOP)
    at = twin.pose
    with pytest.raises(InputError, match="contact: no room; it needs a reset"):
        resume(twin, 10 * TICK_NS)
    twin, _ = driven(pause(twin), robot, AHEAD, 30, 11)
    assert (twin.pose, twin.why) == (at, "contact: no room")
    assert reset(twin, LIFE).why == ""


#   what             where                 touches a person at (3, 2)?
PERSONS = [("apart", Pose(2.4, 2.0, 0.0), False), ("near", Pose(2.52, 2.0, 0.0), True), ("in", Pose(3, 2, 0), True)]


@pytest.mark.parametrize(("what", "pose", "touched"), PERSONS, ids=[row[0] for row in PERSONS])
def test_it_touches_people(what: str, pose: Pose, touched: bool) -> None:
    assert touches(LIFE, pose, standing((3.0, 2.0))) == touched
    assert not touches(LIFE, pose, None)


#   what                      from                      a person at     in view?
VIEWS = [
    ("ahead", Pose(1.0, 2.0, 0.0), (4.0, 2.0), True),
    ("at the edge of the view", Pose(1.0, 2.0, 0.0), (2.0, 2.9), True),
    ("beside the view", Pose(1.0, 2.0, 0.0), (2.0, 3.2), False),
    ("behind", Pose(2.0, 2.0, 0.0), (1.0, 2.0), False),
    ("behind, looking back", Pose(2.0, 2.0, pi), (1.0, 2.0), True),
    ("behind the box", Pose(3.0, 1.0, 0.0), (7.0, 1.0), False),
    ("past the box", Pose(3.0, 3.0, 0.0), (7.0, 3.0), True),
]


@pytest.mark.parametrize(("what", "pose", "person", "seen"), VIEWS, ids=[row[0] for row in VIEWS])
def test_a_person_is_in_view_by_the_truth_of_the_world(
    what: str, pose: Pose, person: tuple[float, float], seen: bool
) -> None:
    assert person_in_view(LIFE, pose, standing(person)) == seen


def test_people_walk_while_it_follows_and_stand_while_it_is_paused() -> None:
    walker = crowd_of([KINDS["pedestrian"]], [1.0], [standing((2.0, 3.0)).corners_m * 1.0 + [[0, 0], [5.0, 0]]])
    place = life(crowd=walker)
    twin, _ = driven(begun(place), ROBOT, STOP, 30, place=place)
    assert twin.crowd is not None
    assert twin.crowd.state[0, 0] == pytest.approx(3.0, abs=0.05)
    held, _ = driven(pause(twin), ROBOT, STOP, 30, 31, place)
    assert held.crowd is twin.crowd
    assert reset(held, place).crowd is walker


# --- a stream that cannot be believed ---------------------------------------------------------------------------------

#   what        the bad message                                     what is told                         again good at
BAD = [
    ("NaN", replace(said(31, ROBOT), pose=Pose(nan, 0.0, 0.0)), "odometry: x is nan", 32),
    ("jump", said(31, Pose(40.0, 7.0, 1.0)), "odometry: jumped by", 32),
    ("time back", said(3, ROBOT), "odometry: its time went back by", 32),
    ("no pose", replace(said(31, ROBOT), pose=None), "odometry without a pose", 32),
]


@pytest.mark.parametrize(("what", "bad", "reason", "good_at"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_message_freezes_it_until_it_is_resumed_on_a_good_one(what: str, bad, reason: str, good_at: int) -> None:
    twin, robot = driven(begun(), ROBOT, AHEAD, 30)
    before = twin.pose
    twin = hear(twin, bad, LIFE)
    assert (twin.pose, twin.twist) == (before, STOP)
    assert twin.why.startswith(reason)
    with pytest.raises(InputError, match="resume: odometry"):
        resume(twin, 31 * TICK_NS)
    with pytest.raises(InputError, match="reset: odometry"):
        reset(twin, LIFE)
    after = bad.pose if what == "jump" else robot
    twin = hear(twin, said(good_at, after), LIFE)
    assert twin.why.startswith(reason), "it does not go on by itself"
    twin = resume(twin, good_at * TICK_NS)
    twin, _ = driven(twin, after, AHEAD, 30, good_at + 1)
    assert near(between(before, twin.pose), Pose(0.6, 0.0, 0.0))


def test_silence_freezes_it_and_resume_waits_for_the_robot() -> None:
    twin, robot = driven(begun(), ROBOT, AHEAD, 30)
    late_ns = 30 * TICK_NS + 10**9
    assert watch(twin, 31 * TICK_NS) == twin
    frozen = watch(twin, late_ns)
    assert frozen.why == "odometry: none for more than 0.5 s"
    with pytest.raises(InputError, match="resume: odometry: none"):
        resume(frozen, late_ns)
    resumed = hear(frozen, replace(said(62, robot), arrival_ns=late_ns), LIFE)
    assert resume(resumed, late_ns).why == ""


def test_a_fault_while_it_is_paused_keeps_the_pause_and_is_none_of_its_business_later() -> None:
    twin = pause(begun())
    twin = hear(twin, said(1, Pose(40.0, 7.0, 1.0)), LIFE)
    assert twin.why == ASKED
    twin = hear(twin, said(2, Pose(40.0, 7.0, 1.0)), LIFE)
    assert near(resume(twin, 2 * TICK_NS).pose, START)


def test_a_life_whose_start_is_in_the_wall_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit"):
        life(start=Pose(5.2, 1.0, 0.0), world=boxed())


# ---- Which of a robot's poses are believed

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
