"""Wheel odometry: exact arcs, and late, repeated, backward or invalid messages."""

from __future__ import annotations

from dataclasses import replace
from math import cos, inf, nan, pi, sin

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onboard.config.config import OdometrySection
from onboard.navigation.odometry import (
    HISTORY_NS,
    HISTORY_SAMPLES,
    OdometryState,
    advance,
    at,
    integrate,
    noise_along,
)
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, distance
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist
from onboard.values.reasons import NO_ORIENTATION
from tests.onboard.navigation.fixes import CLOCK_NS, LAG_NS, MS, PERIOD_NS, near

SECTION = OdometrySection()
BY_POSE = OdometrySection(source="pose")


def message(
    at_ns: int, twist: Twist = STOP, pose: Pose | None = None, arrival_ns: int | None = None
) -> OdometryMessage:
    arrival_ns = at_ns + LAG_NS if arrival_ns is None else arrival_ns
    return OdometryMessage(CLOCK_NS + at_ns, arrival_ns, pose, twist)


def fed(*messages: OdometryMessage, section: OdometrySection = SECTION) -> OdometryState:
    state = OdometryState()
    for one in messages:
        state = advance(state, one, section)
    return state


def driven(twist: Twist, count: int, pose: Pose | None = None) -> OdometryState:
    return fed(message(0, STOP, pose), *(message(k * PERIOD_NS, twist) for k in range(1, count + 1)))


#   name              twist                  dt    expected pose
ARCS = [
    ("straight ahead", Twist(0.5, 0.0), 2.0, Pose(1.0, 0.0, 0.0)),
    ("backward", Twist(-0.2, 0.0), 2.0, Pose(-0.4, 0.0, 0.0)),
    ("quarter circle", Twist(pi / 2, pi / 2), 1.0, Pose(1.0, 1.0, pi / 2)),
    ("quarter circle right", Twist(pi / 2, -pi / 2), 1.0, Pose(1.0, -1.0, -pi / 2)),
    ("full circle", Twist(1.0, 2.0), pi, Pose(0.0, 0.0, 0.0)),
    ("in place", Twist(0.0, 1.0), 1.5, Pose(0.0, 0.0, 1.5)),
    ("hardly turning", Twist(1.0, 1e-12), 1.0, Pose(1.0, 5e-13, 1e-12)),
    ("no time", Twist(1.0, 3.0), 0.0, Pose(0.0, 0.0, 0.0)),
]


@pytest.mark.parametrize(("name", "twist", "dt_s", "expected"), ARCS, ids=[row[0] for row in ARCS])
def test_arcs(name: str, twist: Twist, dt_s: float, expected: Pose) -> None:
    assert near(integrate(IDENTITY, twist, dt_s), expected, 1e-12)


speeds = st.floats(-3.0, 3.0)
turns = st.one_of(st.floats(-10.0, 10.0), st.floats(-1e-6, 1e-6))
poses = st.builds(Pose, st.floats(-50, 50), st.floats(-50, 50), st.floats(-pi, pi))


@given(poses, speeds, turns, st.lists(st.floats(0.0, 0.5), min_size=1, max_size=8))
def test_an_arc_is_the_same_however_it_is_split(pose: Pose, v: float, w: float, parts: list[float]) -> None:
    twist, whole = Twist(v, w), pose
    for part in parts:
        whole = integrate(whole, twist, part)
    assert near(whole, integrate(pose, twist, sum(parts)), 1e-9)


def test_first_message_brings_the_bases_own_frame() -> None:
    there = Pose(3.0, -1.0, 2.0)
    assert fed(message(0, STOP, there)).pose == there
    assert fed(message(0, STOP)).pose == IDENTITY


def test_the_newer_twist_holds_over_the_interval() -> None:
    state = fed(message(0, Twist(1.0, 0.0)), message(100 * MS, Twist(0.5, 0.0)))
    assert near(state.pose, Pose(0.05, 0.0, 0.0))
    assert state.travelled_m == pytest.approx(0.05)
    assert state.moving_s == pytest.approx(0.1)


def test_by_pose_the_increments_of_the_base_count() -> None:
    state = fed(
        message(0, STOP, Pose(1.0, 2.0, pi / 2)),
        message(20 * MS, Twist(9.9e-1, 0.0), Pose(1.0, 2.03, pi / 2)),
        message(40 * MS, Twist(0.0, 0.0), Pose(1.0, 2.05, pi / 2 + 0.1)),
        section=BY_POSE,
    )
    assert near(state.pose, Pose(1.0, 2.05, pi / 2 + 0.1))
    assert state.travelled_m == pytest.approx(0.05)
    assert state.twist == STOP


#   what, messages after the first, x [m] at the end, counters
AHEAD = Twist(1.0, 0.0)
ODD = [
    ("regular", [message(20 * MS, AHEAD)], 0.02, {}),
    ("repeat", [message(20 * MS, AHEAD), message(20 * MS, AHEAD)], 0.02, {"repeats": 1}),
    ("backward", [message(20 * MS, AHEAD), message(10 * MS, AHEAD)], 0.02, {"clock_sets": 1}),
    ("longest interval", [message(500 * MS, AHEAD)], 0.5, {"gaps": 0}),
    ("gap", [message(501 * MS, AHEAD)], 0.5, {"gaps": 1}),
    ("long gap", [message(4000 * MS, AHEAD)], 0.5, {"gaps": 1}),
    ("clock forward an hour", [message(3_600_000 * MS, AHEAD, arrival_ns=25 * MS)], 0.02, {"gaps": 1, "clock_sets": 1}),
    ("clock back an hour", [message(-3_600_000 * MS, AHEAD)], 0.0, {"clock_sets": 1}),
    ("third backward", [message(-k * MS, AHEAD) for k in (1, 2, 3)], 0.0, {"clock_sets": 3}),
    ("backward, then on", [message(-1, AHEAD), message(20 * MS, AHEAD)], 0.02, {"clock_sets": 1}),
]


@pytest.mark.parametrize(("what", "messages", "x_m", "counters"), ODD, ids=[row[0] for row in ODD])
def test_odd_stamps(what: str, messages: list[OdometryMessage], x_m: float, counters: dict[str, int]) -> None:
    state = fed(message(0), *messages)
    assert near(state.pose, Pose(x_m, 0.0, 0.0))
    expected = {"gaps": 0, "repeats": 0, "clock_sets": 0, "refused": 0} | counters
    assert {name: getattr(state, name) for name in expected} == expected


def test_after_a_clock_step_the_motion_goes_on() -> None:
    state, next_ns = driven(AHEAD, 50), 51 * PERIOD_NS + LAG_NS
    stepped = advance(state, message(-NS_PER_S * 100, AHEAD, arrival_ns=next_ns), SECTION)
    assert stepped.pose.x_m == pytest.approx(state.pose.x_m + 0.02)
    assert len(stepped.history) == 1
    on = advance(stepped, message(-NS_PER_S * 100 + PERIOD_NS, AHEAD, arrival_ns=next_ns + PERIOD_NS), SECTION)
    assert on.pose.x_m == pytest.approx(state.pose.x_m + 0.04)


def test_ignored_messages_do_not_keep_the_odometry_fresh() -> None:
    state = fed(message(100 * MS))
    for odd in (message(100 * MS, arrival_ns=900 * MS), message(99 * MS, arrival_ns=901 * MS)):
        state = advance(state, odd, SECTION)
    assert state.fresh_ns == 100 * MS + LAG_NS


@pytest.mark.parametrize("section", [SECTION, BY_POSE], ids=["twist", "pose"])
@pytest.mark.parametrize(
    ("twist", "pose", "reason"),
    [
        (Twist(nan, 0.0), IDENTITY, "odometry refused: v is nan"),
        (Twist(0.0, -inf), IDENTITY, "odometry refused: w is -inf"),
        (Twist(3.5, 0.0), IDENTITY, "odometry refused: v is 3.5 m/s, limit 3 (of every base)"),
        (Twist(0.0, -11.0), IDENTITY, "odometry refused: w is -11 rad/s, limit 10 (of every base)"),
        (STOP, Pose(nan, 0.0, 0.0), "odometry refused: x is nan"),
        (STOP, Pose(0.0, 0.0, inf), "odometry refused: yaw is inf"),
        (STOP, Pose(0.0, 0.0, nan), f"odometry refused: {NO_ORIENTATION}"),
        (STOP, Pose(0.0, 1e300, 0.0), "odometry refused: y is 1e+300, limit 1e+07"),
    ],
)
def test_invalid_messages_are_refused_with_a_reason(
    section: OdometrySection, twist: Twist, pose: Pose | None, reason: str
) -> None:
    before = fed(message(0, STOP, IDENTITY), message(PERIOD_NS, AHEAD, Pose(0.02, 0.0, 0.0)), section=section)
    after = advance(before, message(2 * PERIOD_NS, twist, pose), section)
    assert (after.pose, after.stamp_ns, after.refused) == (before.pose, before.stamp_ns, 1)
    assert after.refusal == reason


def test_by_pose_a_message_without_one_is_refused() -> None:
    assert fed(message(0), section=BY_POSE).refusal.endswith("the orientation too (odometry.source is pose)")


JUMPS = [
    ("place", Pose(5.0, 0.0, 0.0), "pose jumped 5.00 m in 20 ms, limit 3 m/s"),
    ("heading", Pose(0.0, 0.0, 2.0), "pose turned 2.00 rad in 20 ms, limit 10 rad/s"),
]


@pytest.mark.parametrize(("what", "pose", "reason"), JUMPS, ids=[row[0] for row in JUMPS])
def test_a_jump_of_the_bases_pose_is_refused_and_then_counted_from(what: str, pose: Pose, reason: str) -> None:
    state = fed(message(0, STOP, IDENTITY), message(PERIOD_NS, STOP, pose), section=BY_POSE)
    assert state.pose == IDENTITY
    assert state.refusal == f"odometry refused: {reason}"
    on = advance(state, message(2 * PERIOD_NS, STOP, integrate(pose, AHEAD, 0.02)), BY_POSE)
    assert near(on.pose, Pose(0.02, 0.0, 0.0))
    assert on.refused == 1


def test_noise_is_the_papers_after_one_environment_step_straight_ahead() -> None:
    state = driven(Twist(0.0, 1e-2), 1)
    for k in range(2, 51):
        state = advance(state, message(k * PERIOD_NS, Twist(0.0, 1e-2)), SECTION)
    assert state.covariance[0, 0] == pytest.approx(3e-4, rel=1e-3)
    assert state.covariance[2, 2] == pytest.approx(3e-3)
    assert state.covariance[0, 2] == pytest.approx(3e-4, rel=1e-3)


@pytest.mark.parametrize("heading", [0.0, 2.0])
def test_noise_along_a_straight_way_is_that_of_its_steps(heading: float) -> None:
    whole = driven(AHEAD, 400, Pose(1.0, 2.0, heading))
    start = driven(AHEAD, 0, Pose(1.0, 2.0, heading))
    along = noise_along(start.pose, whole.pose, whole.moving_s)
    np.testing.assert_allclose(along, whole.covariance, rtol=0.01, atol=1e-9)
    assert along[2, 2] > 0.0


def test_noise_agrees_with_drawing_it() -> None:
    """The covariance against 4000 drives with the paper's noise drawn step by step."""
    generator, steps, twist = np.random.default_rng(1), 15, Twist(0.6, 0.4)
    noise = np.array([[1e-4, 1e-4], [1e-4, 1e-3]])
    ends = np.zeros((4000, 3))
    for forward, turn in generator.multivariate_normal([0, 0], noise, (steps, 4000)).transpose(0, 2, 1):
        heading = ends[:, 2] + 0.5 * twist.w_radps / 3
        length = twist.v_mps / 3 + forward
        ends += np.stack([length * np.cos(heading), length * np.sin(heading), twist.w_radps / 3 + turn], axis=1)
    state = driven(twist, round(steps / 3 * NS_PER_S / PERIOD_NS))
    drawn = np.cov(ends.T)
    np.testing.assert_allclose(np.sqrt(np.diag(state.covariance)), np.sqrt(np.diag(drawn)), rtol=0.12)


def test_no_noise_at_rest() -> None:
    assert not driven(STOP, 100).covariance.any()


@given(st.lists(st.tuples(speeds, turns), min_size=1, max_size=30))
def test_covariance_stays_symmetric_and_positive(twists: list[tuple[float, float]]) -> None:
    state = fed(message(0), *(message((k + 1) * PERIOD_NS, Twist(v, w)) for k, (v, w) in enumerate(twists)))
    np.testing.assert_array_equal(state.covariance, state.covariance.T)
    assert np.linalg.eigvalsh(state.covariance).min() >= -1e-12


def test_history_is_bounded_in_time() -> None:
    state = driven(AHEAD, 700)
    span_ns = state.history[-1].stamp_ns - state.history[0].stamp_ns
    assert span_ns == HISTORY_NS


def test_history_is_bounded_in_number() -> None:
    state = fed(message(0), *(message(k * MS, AHEAD) for k in range(1, HISTORY_SAMPLES + 50)))
    assert len(state.history) == HISTORY_SAMPLES


#   what              stamp [ms]  x [m], or None
LOOKUPS = [
    ("at a message", 40, 0.04),
    ("between two", 50, 0.05),
    ("the first", 0, 0.0),
    ("before the first", -1, None),
    ("the newest", 200, 0.2),
    ("a little ahead", 250, 0.25),
    ("too far ahead", 401, None),
]


@pytest.mark.parametrize(("what", "stamp_ms", "x_m"), LOOKUPS, ids=[row[0] for row in LOOKUPS])
def test_motion_at_a_stamp(what: str, stamp_ms: int, x_m: float | None) -> None:
    sample = at(driven(AHEAD, 10), CLOCK_NS + stamp_ms * MS)
    if x_m is None:
        assert sample is None
    else:
        assert sample is not None
        assert near(sample.motion.pose, Pose(x_m, 0.0, 0.0))
        assert sample.moving_s == pytest.approx(min(x_m, 0.2))


def test_nothing_is_known_before_the_first_message() -> None:
    assert at(OdometryState(), CLOCK_NS) is None


def test_the_twist_between_two_messages_is_the_newer_one() -> None:
    sample = at(fed(message(0), message(PERIOD_NS, AHEAD)), CLOCK_NS + PERIOD_NS // 2)
    assert sample is not None
    assert sample.motion.twist == AHEAD


@given(
    st.lists(
        st.builds(
            OdometryMessage,
            st.integers(-(10**12), 10**12),
            st.integers(0, 10**12),
            st.none() | st.builds(Pose, st.floats(), st.floats(), st.floats()),
            st.builds(Twist, st.floats(), st.floats()),
        ),
        max_size=12,
    ),
    st.sampled_from([SECTION, BY_POSE]),
)
def test_whatever_comes_the_state_stays_finite_and_every_message_is_accounted_for(
    messages: list[OdometryMessage], section: OdometrySection
) -> None:
    state = fed(*messages, section=section)
    assert np.isfinite([state.pose.x_m, state.pose.y_m, state.pose.yaw_rad]).all()
    assert np.isfinite(state.covariance).all()
    assert state.messages + state.repeats + state.refused == len(messages)


def test_a_clock_that_runs_backward_refreshes_nothing() -> None:
    """Every message is a new clock: the limits must see that the odometry is stale."""
    state = advance(OdometryState(), message(1000 * MS, AHEAD, arrival_ns=1000 * MS), SECTION)
    for number in range(1, 13):
        state = advance(state, message((1000 - 33 * number) * MS, AHEAD, arrival_ns=(1000 + 33 * number) * MS), SECTION)
    assert (state.clock_sets, state.fresh_ns) == (12, 1000 * MS)
    assert near(state.pose, Pose(12 * 0.033, 0.0, 0.0)), "the wheels moved all the time"


def test_a_clock_that_was_set_back_is_fresh_with_the_first_message_that_goes_on() -> None:
    state = advance(OdometryState(), message(1000 * MS, arrival_ns=1000 * MS), SECTION)
    fresh = []
    for number in range(1, 5):
        state = advance(state, message((400 + 33 * number) * MS, arrival_ns=(1000 + 33 * number) * MS), SECTION)
        fresh.append(state.fresh_ns)
    assert fresh == [1000 * MS, 1066 * MS, 1099 * MS, 1132 * MS]


#   name, (stamp, arrival) of messages [ms], fresh as of the last [ms], late by the last [ms]
ARRIVALS = [
    ("at an even pace", [(0, 5), (33, 38), (66, 71)], 71, 0),
    ("one that took longer", [(0, 5), (33, 38), (66, 171)], 71, 100),
    ("one that was quicker than all before", [(0, 5), (33, 36)], 36, 0),
    ("a queue that is full", [(n * 33, n * 33 + 5 + 500 * (n > 5)) for n in range(20)], 632, 500),
    ("a queue that empties", [(n * 33, n * 33 + 5 + 500 * (5 < n < 15)) for n in range(40)], 1292, 0),
    ("a queue full through a gap", [(0, 5), (33, 38), (700, 1205)], 705, 500),
    ("a clock set forward", [(0, 5), (5033, 38), (5066, 171)], 71, 100),
    ("a clock set back, then late", [(9000, 5), (0, 38), (33, 71), (66, 204)], 104, 100),
]


@pytest.mark.parametrize(("name", "arrivals", "fresh_ms", "late_ms"), ARRIVALS, ids=[row[0] for row in ARRIVALS])
def test_a_late_message_is_as_old_as_its_stamp(
    name: str, arrivals: list[tuple[int, int]], fresh_ms: float, late_ms: float
) -> None:
    messages = [message(at_ms * MS, AHEAD, arrival_ns=arrival_ms * MS) for at_ms, arrival_ms in arrivals]
    state = fed(*messages)
    assert state.late_ns == pytest.approx(late_ms * MS, abs=0.5 * MS)
    assert state.fresh_ns == pytest.approx(fresh_ms * MS, abs=0.5 * MS)
    assert state.arrival_ns == arrivals[-1][1] * MS
    believed = fed(*messages, section=OdometrySection(judge_late=False))
    assert (believed.fresh_ns, believed.late_ns) == (arrivals[-1][1] * MS, 0)
    assert believed.pose == state.pose, "late or not, the wheels have moved"


def test_an_impossible_jump_keeps_the_quickest_latency() -> None:
    here, there = Pose(0.0, 0.0, 0.0), Pose(5.0, 0.0, 0.0)
    jumped = fed(message(0, STOP, here), message(33 * MS, STOP, there, arrival_ns=538 * MS), section=BY_POSE)
    assert jumped.refused == 1
    assert jumped.late_ns == pytest.approx(500 * MS, abs=0.5 * MS)
    assert jumped.fresh_ns == pytest.approx(38 * MS, abs=0.5 * MS)


@pytest.mark.parametrize("source", ["twist", "pose"])
def test_a_correction_turns_what_a_base_believes_into_what_it_did(source: str) -> None:
    correction = (1.02, 0.97, 0.03)
    section = OdometrySection(source=source, correction=correction)
    believed, true, state = Pose(0.0, 0.0, 0.0), Pose(0.0, 0.0, 0.0), OdometryState()
    for number in range(300):
        twist = Twist(0.5 * sin(0.03 * number), cos(0.02 * number))
        moved = Twist(1.02 * twist.v_mps, 0.97 * twist.w_radps + 0.03 * twist.v_mps)
        if number:
            believed, true = integrate(believed, twist, 0.02), integrate(true, moved, 0.02)
        message = OdometryMessage(number * 20_000_000, number * 20_000_000, believed, twist)
        state = advance(state, message, section)
    assert distance(state.pose, true) < 1e-4
    assert state.pose.yaw_rad == pytest.approx(true.yaw_rad, abs=1e-6)
    assert state.twist == moved


def test_a_neutral_correction_moves_as_none() -> None:
    messages = [OdometryMessage(k * 20_000_000, k * 20_000_000, None, Twist(0.3, 0.7 - 0.01 * k)) for k in range(50)]
    poses = []
    for section in (OdometrySection(), OdometrySection(correction=(1.0, 1.0, 0.0))):
        state = OdometryState()
        for message in messages:
            state = advance(state, message, section)
        poses.append(state.pose)
    assert poses[0] == poses[1]
    assert "correction" not in OdometrySection().model_dump()


def clocked(
    steps: dict[int, float], period_ms: int, duration_s: float = 20.0, section: OdometrySection = SECTION
) -> tuple[OdometryState, float, int]:
    """Drive at 0.5 m/s with a clock that steps by so many ms at so many ms. Arrivals are those of ticks.

    Return the state, the longest age of the odometry at a tick [ms], and how many ms it was stale (200 ms).
    """
    state, off_ms, worst_ms, stale_ms, next_ms = OdometryState(), 0.0, 0.0, 0, 0
    for tick in range(round(duration_s * 30)):
        now_ms = tick * 1000 / 30
        while next_ms <= now_ms:
            off_ms = sum(step for at_ms, step in steps.items() if next_ms >= at_ms)
            one = message(round((next_ms + off_ms) * MS), Twist(0.5, 0.0), arrival_ns=round(now_ms * MS))
            state, next_ms = advance(state, one, section), next_ms + period_ms
        age_ms = now_ms - (state.fresh_ns or 0) / MS
        worst_ms, stale_ms = max(worst_ms, age_ms), stale_ms + (33 if age_ms > 200 else 0)
    return state, worst_ms, stale_ms


STEPS_MS = (-50.0, -90.0, -150.0, -400.0, -5e3, -3.6e6, 150.0, 400.0, 5e3, 3.6e6)


@pytest.mark.parametrize(
    ("step_ms", "period_ms"),
    [(step, period) for step in STEPS_MS for period in (20, 33, 100)] + [(-90.0, 160), (-150.0, 160), (-400.0, 160)],
)
def test_a_clock_that_steps_once_holds_the_robot_for_an_instant_only(step_ms: float, period_ms: int) -> None:
    state, _, stale_ms = clocked({8000: step_ms}, period_ms)
    assert stale_ms < 400
    assert state.pose.x_m == pytest.approx(0.5 * 20.0, abs=0.17)
    assert state.late_ns <= 0.5 * period_ms * MS + 40 * MS


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(150, 3000), st.sampled_from([*STEPS_MS, -40.0, 60.0])), min_size=1, max_size=6),
    st.sampled_from([20, 33, 50, 100]),
)
@example([(150, -50.0), (150, -50.0), (150, -50.0)], 50)
def test_a_clock_that_steps_again_and_again_recovers_each_time(steps: list[tuple[int, float]], period_ms: int) -> None:
    at_ms, found = 3000, {}
    for after_ms, step_ms in steps:
        at_ms += after_ms
        found[at_ms] = step_ms
    state, worst_ms, stale_ms = clocked(found, period_ms, at_ms / 1e3 + 2.0)
    assert worst_ms < 1000
    assert stale_ms < 400 * len(steps)
    assert state.pose.x_m == pytest.approx(0.5 * (at_ms / 1e3 + 2.0), abs=0.1 + 0.04 * len(steps))
    assert state.late_ns <= 0.5 * period_ms * MS + 40 * MS


@pytest.mark.parametrize("period_ms", [20, 33, 100])
@pytest.mark.parametrize("step_ms", [-150.0, -40.0])
def test_a_queue_stays_late_over_a_step_of_the_clock(period_ms: int, step_ms: float) -> None:
    """Latency of 500 ms from 3 s on; the clock is set at 4 s."""
    state = OdometryState()
    for k in range(6000 // period_ms):
        sent_ms = k * period_ms
        arrival_ns = round((sent_ms + 5 + 500 * (sent_ms > 3000)) * MS)
        state = advance(
            state, message(round((sent_ms + step_ms * (sent_ms > 4000)) * MS), AHEAD, arrival_ns=arrival_ns), SECTION
        )
    assert state.late_ns == pytest.approx(500 * MS, abs=0.6 * period_ms * MS)


def test_two_senders_are_no_clock_that_is_set_again_and_again() -> None:
    state = OdometryState()
    for k in range(600):
        state = advance(state, message(k * 33 * MS, AHEAD), SECTION)
        state = advance(state, message((k * 33 - 150) * MS, AHEAD, arrival_ns=k * 33 * MS + LAG_NS), SECTION)
    assert state.clock_sets == 600
    assert state.pose.x_m == pytest.approx(600 * 0.033, abs=0.25), "it moves by the time that passed"


def stating(speed: float | None, yaw: float | None, section: OdometrySection = SECTION) -> OdometryState:
    """30 periods to the left of ahead, by messages that state these variances."""
    messages = (
        replace(
            message(k * PERIOD_NS, Twist(0.5, 0.2), Pose(0.01 * k, 0.0, 0.0)),
            speed_variance=speed,
            yaw_variance=yaw,
        )
        for k in range(31)
    )
    return fed(*messages, section=section)


def test_a_larger_variance_that_odometry_states_takes_the_place_of_the_papers_noise() -> None:
    plain = stating(None, None)
    assert stating(1e-6, 1e-6).covariance == pytest.approx(plain.covariance, abs=0.0)
    wide = stating(0.04, 0.36)
    period_s = PERIOD_NS / NS_PER_S
    took_s = 30 * period_s
    assert wide.stated == pytest.approx(((0.04 * period_s - 3e-4) * took_s, (0.36 * period_s - 3e-3) * took_s))
    assert wide.covariance[2, 2] == pytest.approx(0.36 * period_s * took_s)
    assert wide.covariance[0, 0] > 2.0 * plain.covariance[0, 0]
    assert np.linalg.eigvalsh(wide.covariance).min() > 0.0
    assert stating(0.04, 0.36, BY_POSE).stated == (0.0, 0.0), "the twist is not what moves it"


@pytest.mark.parametrize("by_s", [5.0, -5.0, -0.2])
def test_a_step_of_the_senders_clock_is_said_with_its_size(by_s: float) -> None:
    steady = [message(k * PERIOD_NS, AHEAD) for k in range(30)]
    jumped = [
        message(k * PERIOD_NS + round(by_s * NS_PER_S), AHEAD, arrival_ns=k * PERIOD_NS + LAG_NS) for k in range(30, 60)
    ]
    state = fed(*steady, *jumped)
    assert state.clock_sets == 1
    assert f"{by_s:+.2f} s" in state.clock_set
    assert fed(*steady, *(message((k + 150) * PERIOD_NS, AHEAD) for k in range(30))).clock_sets == 0, "a silent driver"
