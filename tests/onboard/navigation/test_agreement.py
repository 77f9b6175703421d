"""Pose against twist of one odometry: bases that contradict themselves, and bases that must be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import cos, pi, radians, sin
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from onboard.config.config import OdometrySection
from onboard.navigation import odometry
from onboard.navigation.agreement import SURE_S
from onboard.navigation.odometry import OdometryState, advance
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, compose, distance, inverse
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist
from tests.onboard.navigation.fixes import CLOCK_NS, MS

TWIST, POSE = OdometrySection(), OdometrySection(source="pose")
AHEAD, ARC, SPIN = Twist(0.5, 0.0), Twist(0.5, 0.6), Twist(0.0, 1.2)
START = Pose(3.0, -2.0, 0.4)
Change = Callable[[OdometryMessage], OdometryMessage]


def drive(twist: Twist, duration_s: float, rate_hz: float = 30.0, start: Pose = START) -> Iterator[OdometryMessage]:
    """Yield the odometry of a base that starts smoothly, drives with one twist and stops; every message is right."""
    return course([(twist, duration_s), (STOP, 2.0)], rate_hz, start)


def course(
    legs: Sequence[tuple[Twist, float]], rate_hz: float = 30.0, start: Pose = START
) -> Iterator[OdometryMessage]:
    """Yield the odometry of a base that drives with each twist for so long [s]; every message is right."""
    pose, fine_s = start, 0.005
    per_message = round(1.0 / rate_hz / fine_s)
    v = w = 0.0
    for step, wanted in enumerate(wanted for wanted, lasts_s in legs for _ in range(round(lasts_s / fine_s))):
        v, w = v + (wanted.v_mps - v) * fine_s / 0.3, w + (wanted.w_radps - w) * fine_s / 0.3
        half = pose.yaw_rad + 0.5 * w * fine_s
        pose = Pose(pose.x_m + v * cos(half) * fine_s, pose.y_m + v * sin(half) * fine_s, pose.yaw_rad + w * fine_s)
        if step % per_message == 0:
            at_ns = round(step * fine_s * NS_PER_S)
            wrapped = (pose.yaw_rad + pi) % (2 * pi) - pi
            yield OdometryMessage(CLOCK_NS + at_ns, at_ns + MS, replace(pose, yaw_rad=wrapped), Twist(v, w))


def fed(
    messages: Iterator[OdometryMessage], section: OdometrySection = TWIST, change: Change | None = None
) -> OdometryState:
    state = OdometryState()
    for message in messages:
        state = advance(state, change(message) if change else message, section)
        if state.agreement.contradiction:
            break
    return state


def pose_of(message: OdometryMessage) -> Pose:
    assert message.pose is not None
    return message.pose


def in_the_odom_frame(message: OdometryMessage) -> OdometryMessage:
    return replace(message, twist=Twist(message.twist.v_mps * cos(pose_of(message).yaw_rad), message.twist.w_radps))


def scaled(v: float, w: float) -> Change:
    return lambda message: replace(message, twist=Twist(v * message.twist.v_mps, w * message.twist.w_radps))


def frozen_at(pose: Pose) -> Change:
    return lambda message: replace(message, pose=pose)


#   what                                        twist   change                              part of the reason
WRONG: list[tuple[str, Twist, Change, str]] = [
    ("twist always zero", AHEAD, scaled(0.0, 0.0), "its twist says 0.00 m and 0 deg"),
    ("twist always zero, in place", SPIN, scaled(0.0, 0.0), "its pose moved 0.00 m and turned 9"),
    ("twist in the odom frame", ARC, in_the_odom_frame, "the twist must be in base_link"),
    ("half the speed", AHEAD, scaled(0.5, 1.0), 'set odometry.source = "pose"'),
    ("a third too fast", AHEAD, scaled(1.35, 1.0), 'set odometry.source = "pose"'),
    ("turning in degrees", Twist(0.3, 0.05), scaled(1.0, 57.3), "turned"),
    ("turning the other way", SPIN, scaled(1.0, -1.0), "deg, its twist says 0.00 m and -"),
    ("turning too slow", SPIN, scaled(1.0, 0.7), "turned"),
    ("driving backward", AHEAD, scaled(-1.0, 1.0), "its twist says 1.0"),
    ("pose frozen elsewhere", AHEAD, frozen_at(START), "correct the pose in the base's driver"),
]


@pytest.mark.parametrize("rate_hz", [10.0, 50.0])
@pytest.mark.parametrize(("what", "twist", "change", "part"), WRONG, ids=[row[0] for row in WRONG])
def test_a_base_that_contradicts_itself_is_found_within_two_windows(
    what: str, twist: Twist, change: Change, part: str, rate_hz: float
) -> None:
    state = fed(drive(twist, 12.0, rate_hz), change=change)
    assert part in state.agreement.contradiction
    assert state.agreement.contradiction.startswith("contradicts itself: in ")
    assert state.stamp_ns is not None
    driven_s = (state.stamp_ns - CLOCK_NS) / NS_PER_S
    assert abs(twist.v_mps) * driven_s < 2.2
    assert abs(twist.w_radps) * driven_s < radians(200.0) + 0.6


def lossy(part: float) -> Callable[[list[OdometryMessage]], list[OdometryMessage]]:
    generator = np.random.default_rng(3)
    return lambda messages: [message for message in messages if generator.random() > part]


def noisy(messages: list[OdometryMessage]) -> list[OdometryMessage]:
    generator = np.random.default_rng(4)
    found = []
    for message in messages:
        x, y, yaw, v, w = generator.normal(0.0, [0.005, 0.005, 0.01, 0.05, 0.1])
        pose, twist = pose_of(message), message.twist
        noise = Pose(pose.x_m + float(x), pose.y_m + float(y), pose.yaw_rad + float(yaw))
        found.append(replace(message, pose=noise, twist=Twist(twist.v_mps + float(v), twist.w_radps + float(w))))
    return found


def lagging(count: int) -> Callable[[list[OdometryMessage]], list[OdometryMessage]]:
    """Return what a driver does that publishes the mean twist of its last messages."""

    def change(messages: list[OdometryMessage]) -> list[OdometryMessage]:
        means = [messages[max(0, k - count + 1) : k + 1] for k in range(len(messages))]
        twists = [(np.mean([m.twist.v_mps for m in part]), np.mean([m.twist.w_radps for m in part])) for part in means]
        return [
            replace(message, twist=Twist(float(v), float(w))) for message, (v, w) in zip(messages, twists, strict=True)
        ]

    return change


def fused(messages: list[OdometryMessage]) -> list[OdometryMessage]:
    """Return what a fusion does whose pose is corrected by 0.3 m, rarely."""
    return [
        replace(message, pose=compose(Pose(0.3 * (k // 90), 0.0, 0.0), pose_of(message)))
        for k, message in enumerate(messages)
    ]


def with_a_gap(messages: list[OdometryMessage]) -> list[OdometryMessage]:
    return messages[:60] + messages[110:]


RIGHT: list[tuple[str, Callable[[list[OdometryMessage]], list[OdometryMessage]]]] = [
    ("as it is", lambda messages: messages),
    ("a third of the messages lost", lossy(0.33)),
    ("a gap", with_a_gap),
    ("noise", noisy),
    ("mean twist", lagging(6)),
    ("a fusion", fused),
    ("pose not filled", lambda messages: [replace(one, pose=IDENTITY) for one in messages]),
    ("heading only", lambda messages: [replace(one, pose=Pose(0.0, 0.0, pose_of(one).yaw_rad)) for one in messages]),
    ("no pose", lambda messages: [replace(one, pose=None) for one in messages]),
    ("slip of 15 %", lambda messages: [scaled(0.86, 0.95)(one) for one in messages]),
]


@pytest.mark.parametrize("twist", [AHEAD, ARC, SPIN, Twist(-0.3, 0.2), Twist(1.0, 1.5), Twist(0.05, 0.0), STOP])
@pytest.mark.parametrize("rate_hz", [10.0, 30.0])
@pytest.mark.parametrize(("what", "change"), RIGHT, ids=[row[0] for row in RIGHT])
def test_a_base_that_agrees_is_believed(
    what: str, change: Callable[[list[OdometryMessage]], list[OdometryMessage]], rate_hz: float, twist: Twist
) -> None:
    state = fed(iter(change(list(drive(twist, 15.0, rate_hz)))))
    assert (state.agreement.contradiction, state.jumps) == ("", 0)


def test_only_a_window_that_agrees_and_moved_ends_a_contradiction() -> None:
    messages = list(drive(AHEAD, 4.0))
    wrong = fed(iter(messages), change=scaled(0.0, 0.0))
    assert wrong.agreement.contradiction
    later = replace(messages[-1], pose=wrong.base_pose, twist=STOP)
    #   after [ms]: at rest, a gap, an older stamp, a pose that jumps, no pose
    rest = [(33, later)] * 40 * 30
    odd = [(2000, later), (-500, later), (33, replace(later, pose=IDENTITY)), (33, replace(later, pose=None))]
    state, at_ns, arrival_ns = wrong, wrong.stamp_ns or 0, wrong.arrival_ns or 0
    for step_ms, one in [*rest, *odd, *rest[:30]]:
        at_ns, arrival_ns = at_ns + step_ms * MS, arrival_ns + abs(step_ms) * MS
        state = advance(state, replace(one, stamp_ns=at_ns, arrival_ns=arrival_ns), TWIST)
        assert state.agreement.contradiction
    for one in drive(AHEAD, 4.0, start=pose_of(later)):
        since_ns = one.stamp_ns - CLOCK_NS + 33 * MS
        state = advance(state, replace(one, stamp_ns=at_ns + since_ns, arrival_ns=arrival_ns + since_ns), TWIST)
    assert state.agreement.contradiction == ""


periods = st.sampled_from([20, 33, 100])
patterns = st.lists(st.sampled_from(["sent", "sent", "lost", "no pose"]), min_size=1, max_size=12)
bursts = st.lists(st.tuples(st.integers(5, 60), st.integers(0, 40)), min_size=1, max_size=6)
twists = st.sampled_from([AHEAD, ARC, SPIN, Twist(-0.3, 0.2), Twist(1.0, 1.5), Twist(0.2, 0.0)])
wrongs = st.sampled_from([scaled(0.0, 0.0), scaled(0.5, 0.5), scaled(-1.0, -1.0)])


def lost(messages: list[OdometryMessage], pattern: list[str], runs: list[tuple[int, int]]) -> list[OdometryMessage]:
    """Return the messages that are received: by a pattern that repeats, and by runs of (sent, lost) that repeat."""
    period, found = sum(sent + gone for sent, gone in runs), []
    for number, message in enumerate(messages):
        what, place = pattern[number % len(pattern)], number % period
        for sent, gone in runs:
            if place < sent + gone:
                what = "lost" if place >= sent else what
                break
            place -= sent + gone
        if what != "lost" or number == 0:
            found.append(replace(message, pose=None) if what == "no pose" and number else message)
    return found


@settings(max_examples=60, deadline=None)
@given(twists, st.lists(st.tuples(twists, st.floats(0.3, 3.0)), max_size=3), periods, patterns, bursts)
def test_a_right_odometry_is_never_blamed_for_lost_messages(
    first: Twist,
    more: list[tuple[Twist, float]],
    period_ms: int,
    pattern: list[str],
    runs: list[tuple[int, int]],
) -> None:
    messages = list(course([(first, 4.0), *more, (STOP, 1.0), (first, 4.0)], 1000.0 / period_ms))
    state = fed(iter(lost(messages, pattern, runs)))
    assert (state.agreement.contradiction, state.jumps) == ("", 0)


@settings(max_examples=60, deadline=None)
@given(twists, periods, patterns, bursts, wrongs)
@example(AHEAD, 100, ["sent", "sent", "lost", "lost"], [(5, 0)], scaled(0.5, 0.5))
@example(AHEAD, 100, ["sent", "sent", "sent", "lost", "no pose"], [(5, 5)], scaled(0.0, 0.0))
def test_a_wrong_twist_is_found_by_a_window_of_what_was_received(
    twist: Twist, period_ms: int, pattern: list[str], runs: list[tuple[int, int]], change: Change
) -> None:
    """Within 1.5 m or 130 deg of the path, without intervals between poses that are longer than `SURE_S`."""
    messages = lost([change(one) for one in course([(twist, 40.0)], 1000.0 / period_ms)], pattern, runs)
    assume(sum(message.pose is not None for message in messages) > len(messages) / 4)
    state, seen_s, waited_s = OdometryState(), 0.0, 0.0
    for before, one in pairwise([messages[0], *messages]):
        known = state.base_pose is not None
        with patch.object(odometry, "MAX_GAP_S", 0.2):
            state = advance(state, one, OdometrySection())
        waited_s += (one.stamp_ns - before.stamp_ns) / NS_PER_S
        if one.pose is not None:
            seen_s, waited_s = seen_s + (waited_s if known and waited_s <= SURE_S else 0.0), 0.0
        if abs(twist.v_mps) * (seen_s - 1.0) > 1.5 or abs(twist.w_radps) * (seen_s - 1.0) > radians(130.0):
            break
        if state.agreement.contradiction:
            break
    else:
        assume(False)
    assert state.agreement.contradiction


@pytest.mark.parametrize("rate_hz", [10.0, 30.0, 50.0])
@pytest.mark.parametrize("speed_mps", [0.3, 0.5, 0.7])
def test_a_scale_error_is_found_in_the_window_in_which_the_base_starts(speed_mps: float, rate_hz: float) -> None:
    """The allowance for a lag of the twist does not grow with the way, as the error does."""
    state = fed(drive(Twist(speed_mps, 0.0), 12.0, rate_hz), change=scaled(0.72, 1.0))
    assert state.agreement.contradiction
    assert distance(START, state.base_pose or START) < 1.3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(twists, st.floats(0.3, 3.0)), min_size=1, max_size=8), st.sampled_from([(20, 7), (50, 3)]))
@example([(Twist(1.0, 1.5), 1.5), (Twist(-0.3, 0.2), 3.0), (Twist(1.0, 1.5), 1.0)], (20, 7))
def test_a_twist_that_lags_is_never_blamed(legs: list[tuple[Twist, float]], late: tuple[int, int]) -> None:
    period_ms, count = late
    messages = list(course(legs, 1000.0 / period_ms))
    lagged = [replace(message, twist=messages[max(0, k - count)].twist) for k, message in enumerate(messages)]
    assert fed(iter(lagged)).agreement.contradiction == ""


#   moved while messages were lost    after [ms]    jump
UNSEEN = [
    (Pose(0.27, 0.0, 0.0), 370, False),
    (Pose(0.2, 0.1, 0.6), 450, False),
    (Pose(0.27, 0.0, 0.0), 33, True),
    (Pose(0.9, 0.0, 0.0), 370, True),
    (Pose(0.1, 0.0, 1.5), 370, True),
]


@pytest.mark.parametrize(("step", "after_ms", "jump"), UNSEEN)
def test_driving_while_messages_were_lost_is_no_jump_and_the_odom_frame_follows_all_the_same(
    step: Pose, after_ms: int, jump: bool
) -> None:
    before = OdometryMessage(CLOCK_NS, MS, START, STOP)
    later = OdometryMessage(CLOCK_NS + after_ms * MS, (1 + after_ms) * MS, compose(START, step), STOP)
    state = fed(iter([before, later]))
    assert state.reanchored == jump
    assert distance(state.own.pose, pose_of(later)) < 1e-9


@pytest.mark.parametrize("change", [scaled(0.0, 0.0), in_the_odom_frame, scaled(1.0, -1.0)])
def test_by_pose_a_wrong_twist_is_replaced_by_that_of_the_pose(change: Change) -> None:
    messages = list(drive(ARC, 8.0))
    state = fed(iter(messages[:230]), POSE, change)
    assert state.agreement.contradiction == ""
    assert state.twist.v_mps == pytest.approx(ARC.v_mps, abs=0.02)
    assert state.twist.w_radps == pytest.approx(ARC.w_radps, abs=0.02)
    assert distance(state.pose, pose_of(messages[229])) < 1e-6


@pytest.mark.parametrize("pose", [START, IDENTITY])
def test_by_pose_a_pose_that_does_not_move_stops(pose: Pose) -> None:
    state = fed(drive(AHEAD, 8.0), POSE, frozen_at(pose))
    assert state.agreement.contradiction.endswith('if the twist is right, set odometry.source = "twist"')


#   what             new pose of the base after its reset, section
RESETS = [("to zero", IDENTITY, TWIST), ("elsewhere", Pose(-4.0, 9.0, 2.0), TWIST), ("by pose", IDENTITY, POSE)]


@pytest.mark.parametrize(("what", "there", "section"), RESETS, ids=[row[0] for row in RESETS])
def test_a_base_that_resets_its_pose_moves_the_odom_frame_and_not_the_robot(
    what: str, there: Pose, section: OdometrySection
) -> None:
    before = fed(drive(ARC, 3.0), section)
    state, from_ns = before, (before.stamp_ns or 0) + 33 * MS
    for one in drive(AHEAD, 3.0, start=there):
        at_ns = one.stamp_ns - CLOCK_NS + from_ns
        state = advance(state, replace(one, stamp_ns=at_ns, arrival_ns=at_ns - CLOCK_NS), section)
    assert state.reanchored == 1
    assert distance(state.own.pose, state.base_pose or IDENTITY) < 0.02
    moved = compose(inverse(before.pose), state.pose)
    assert distance(moved, compose(inverse(there), state.base_pose or IDENTITY)) < 0.02
    assert state.agreement.contradiction == ""
    ended = state.jumps if section is TWIST else state.refused
    assert ended == 1
