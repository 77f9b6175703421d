"""Wheel odometry, integrated in the odom frame message by message. Pure: a message and a state in, a new state out.

The first message sets the pose in the odom frame; after that only the wheels move it.

Between two messages the newer twist holds: a base measures over the interval that just ended, and the simulated base
does the same. With `source = "pose"` the motion is the increment of the base's own pose, and the twist is only stored.

    message                         effect
    any, with an `imu`              its yaw rate is joined with the IMU's (`gyro.py`), behind the correction
    any, with a `correction`        its twist, and the increment of its pose, are corrected before they move anything
    gap (> MAX_GAP_S)               counted; moves by at most MAX_GAP_S of the twist, or by the pose's increment; adds
                                    noise for the whole gap. The time is the shorter difference of stamps and arrivals:
                                    a jump of the sender's clock causes no motion
    clock of the sender set         forward or back, by any amount and any number of times (`timed` in
                                    `onboard/values/clock.py`): the time is that between the arrivals. Counted if it is
                                    back, or by `SAID_S` or more
    same stamp again                counted, ignored
    older stamp                     the clock was set back. The state goes on from that stamp without history.
                                    It turns fresh only with the next newer stamp, so that a clock that runs backward
                                    leaves it stale
    late                            integrated, but fresh only as of its arrival without the excess latency
                                    (`onboard/values/clock.py`): the limits must see a late pose as stale
    not finite, or beyond a limit   refused with a reason and counted; no motion. After an impossible jump of the base's
                                    pose, increments count from the new pose. A heading of NaN is an orientation that is
                                    no rotation (`geometry.yaw_from_quaternion`)
    no pose, though there was one   its twist moves the base's own pose on, until the next message with a
                                    pose; after a long or unknown time it is unknown
    pose and twist disagree         over a window: `agreement.py`. With `source = "pose"` the twist is then the pose's
    pose jumps against the twist    the pose here goes on by the source; `own_from_odom` takes the jump, so that goals
                                    in the odom frame and transforms mean the base's own frame. Without a gap and
                                    beyond `CARRIED_M` or `CARRIED_RAD` it ends the drive. No jump where messages
                                    were lost and the base may have driven that far; the frames follow all the same
    states a variance of its twist  where it is more than the paper's noise in the motion since the message before, it
                                    takes its place in the covariances. Not with `source = "pose"`; of the yaw rate not
                                    while an IMU joins
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import OdometrySection
from onboard.navigation import agreement, gyro
from onboard.navigation.agreement import Agreement
from onboard.navigation.gyro import Gyro
from onboard.navigation.wheel_motion import (
    FORWARD_VARIANCE,
    STEPS_PER_S,
    TURN_VARIANCE,
    add_noise,
    arc,
    grow,
    is_moving,
    mean_heading,
    mirror,
    true_step,
    true_twist,
)
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, Sender, timed
from onboard.values.geometry import IDENTITY, between, compose, distance, interpolate, inverse
from onboard.values.messages import STOP, Motion, OdometryMessage, Pose, Twist
from onboard.values.reasons import NO_REASON, Said

NS_PER_MS = 1_000_000

MAX_GAP_S = 0.5
"""Motion is integrated over at most this much of a gap between two messages."""
MAX_SPEED_MPS = 3.0
MAX_YAW_RATE_RADPS = 10.0
"""Faster odometry is refused: no base that stops within what its cameras see is so fast."""
SET_S = 0.2
"""Uncertainty of the time between two messages where the sender's clock was set."""
SAID_S = 0.5
"""A smaller step forward of the sender's clock may be a first message that was late."""
CARRIED_M = 0.5
CARRIED_RAD = 0.5
"""A jump of the base's own pose beyond these ends a drive: the base has reset its odometry, or was carried."""
DERIVED_NS = NS_PER_S // 10
"""Time over which the pose's motion replaces a twist that is not filled or wrong."""
DERIVED_SAMPLES = 20
HISTORY_NS = 10 * NS_PER_S
HISTORY_SAMPLES = 2048
EXTRAPOLATION_NS = NS_PER_S // 5
"""How far past the newest message its twist extrapolates the pose."""

MAX_POSITION_M = 1e7
JUMP_SLACK_M = 0.1
JUMP_SLACK_RAD = 0.2
"""Tolerance on the motion of a base's own pose beyond its maximum speed: stamps jitter."""

Covariance = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """Motion of the base at one message. moving_s: as in `OdometryState`."""

    stamp_ns: int
    motion: Motion
    moving_s: float


@dataclass(frozen=True, slots=True)
class OdometryState:
    """State of the odometry.

    pose:        odom_from_base
    twist:       newest body twist
    stamp_ns:    stamp of the newest accepted message, sender's clock; None before the first
    arrival_ns:  its arrival, monotonic; ignored and refused messages do not change it
    fresh_ns:    arrival of the newest message that was the first or a newer one, less `late_ns`; judges staleness
    late_ns:     its excess latency against the quickest message of the same clock; 0 if that is not judged
    sender:      the sender's clock
    covariance:  (3, 3) of x, y, yaw in the odom frame since the first message [m^2, m rad, rad^2]
    travelled_m: length of the path so far
    moving_s:    time in motion so far, the measure of the noise
    base_pose:   the base's own pose in the newest message with one, moved on by the twist
    history:     the last ten seconds, oldest first
    messages:    accepted messages; with `repeats` and `refused` they make up all messages
    refusal:     reason of the newest refusal; a tick compares `refused` before and after
    refused_ns:  its arrival
    gyro:        the yaw rate of an IMU (`gyro.py`)
    agreement:   whether the base's pose and twist agree
    own_from_odom: the odom frame of the base's own pose, seen from the frame of `pose`, which never jumps
    stated:      variances of forward [m^2] and turn [rad^2] beyond the paper's noise so far, as `/odom` states them
    clock_sets:  how often the sender's clock was set; `clock_set` is the newest
    jumps:       jumps of the base's own pose that end a drive; `reanchored` counts all, `jump` is the newest
    """

    pose: Pose = IDENTITY
    twist: Twist = STOP
    stamp_ns: int | None = None
    arrival_ns: int | None = None
    fresh_ns: int | None = None
    late_ns: int = 0
    sender: Sender | None = None
    covariance: Covariance = field(default_factory=lambda: np.zeros((3, 3)))
    travelled_m: float = 0.0
    moving_s: float = 0.0
    stated: tuple[float, float] = (0.0, 0.0)
    base_pose: Pose | None = None
    history: tuple[Sample, ...] = ()
    messages: int = 0
    gaps: int = 0
    repeats: int = 0
    clock_sets: int = 0
    clock_set: Said = NO_REASON
    refused: int = 0
    refusal: Said = NO_REASON
    refused_ns: int | None = None
    gyro: Gyro = gyro.NEW
    agreement: Agreement = agreement.NEW
    own_from_odom: Pose = IDENTITY
    jumps: int = 0
    reanchored: int = 0
    jump: Said = NO_REASON

    @property
    def motion(self) -> Motion:
        """The newest pose and twist, in the odom frame."""
        return Motion(self.pose, self.twist)

    @property
    def own(self) -> Motion:
        """The newest pose and twist, in the base's own odom frame, as transforms and recordings have it."""
        return Motion(own_pose(self.own_from_odom, self.pose), self.twist)


def own_pose(own_from_odom: Pose, pose: Pose) -> Pose:
    """Return a pose of the odom frame in the base's own odom frame; the same value where the frames are the same."""
    return pose if own_from_odom == IDENTITY else compose(own_from_odom, pose)


def integrate(pose: Pose, twist: Twist, dt_s: float) -> Pose:
    """Return `pose` after a constant body twist for `dt_s`. Exact for an arc, however the interval is split."""
    return Pose(*arc(pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps, dt_s))


def grown(covariance: Covariance, before: Pose, after: Pose, moving_s: float) -> Covariance:
    """Return the (3, 3) covariance of `after`, from the covariance of `before` and the time in motion between them.

    The motion transforms the old error. The paper's noise adds to it, forward along the mean heading and in yaw.
    """
    total = np.array(covariance, np.float64, order="C")
    grow(total, before.x_m, before.y_m, before.yaw_rad, after.x_m, after.y_m, after.yaw_rad, moving_s)
    return total


def add_stated(covariance: Covariance, heading_rad: float, forward_m2: float, turn_rad2: float) -> None:
    """Add variances of forward, along the heading, and of turn to a covariance with x, y, yaw first, in place."""
    c, s = math.cos(heading_rad), math.sin(heading_rad)
    covariance[:2, :2] += forward_m2 * np.array([[c * c, c * s], [c * s, s * s]])
    covariance[2, 2] += turn_rad2


def transition(before: Pose, after: Pose) -> Covariance:
    """Return the (3, 3) derivative of `after` by `before`, for a fixed motion in the body frame."""
    carried = np.eye(3)
    carried[0, 2], carried[1, 2] = before.y_m - after.y_m, after.x_m - before.x_m
    return carried


def noise(before: Pose, after: Pose, moving_s: float) -> Covariance:
    """Return the (3, 3) covariance that the paper's noise adds from `before` to `after`."""
    added = np.zeros((3, 3))
    add_noise(added, mean_heading(before.yaw_rad, after.yaw_rad), moving_s)
    mirror(added)
    return added


def noise_along(before: Pose, after: Pose, moving_s: float) -> Covariance:
    """Return the (3, 3) covariance that the paper's noise adds on a straight line, independent of the step count.

    The rest of the motion carries each added error along: a heading error becomes a lateral error.
    """
    added = noise(before, after, moving_s)
    carried = transition(before, after) - np.eye(3)
    along: Covariance = added + (carried @ added + added @ carried.T) / 2.0 + carried @ added @ carried.T / 3.0
    return along


def advance(state: OdometryState, message: OdometryMessage, section: OdometrySection) -> OdometryState:
    """Return the state after one message. Never raises: see `refused` and `refusal`."""
    reason = _refusal(message, section)
    if reason:
        return _rejected(state, reason, message)
    reported = message.twist
    if section.correction is not None:
        message = replace(message, twist=corrected_twist(message.twist, section.correction))
    if state.stamp_ns is None:
        return _restarted(
            _timed(replace(state, pose=message.pose or IDENTITY, messages=1), message, section)[0], message
        )
    if message.stamp_ns == state.stamp_ns:
        timing, sender = timed(state.sender, message.stamp_ns, message.arrival_ns)  # a step back of one period looks so
        return replace(state, repeats=state.repeats + 1, sender=sender if timing.was_set else state.sender)
    return _forward(state, message, reported, section)


def corrected_twist(twist: Twist, correction: tuple[float, float, float]) -> Twist:
    """Return the true body twist of a base that believes in other wheels. correction: `odometry.correction`."""
    return Twist(*true_twist(twist.v_mps, twist.w_radps, *correction))


def corrected_step(step: Pose, correction: tuple[float, float, float]) -> Pose:
    """Return the true motion in the body frame for a short increment of the base's own pose."""
    return Pose(*true_step(step.x_m, step.y_m, step.yaw_rad, *correction))


def at(state: OdometryState, stamp_ns: int) -> Sample | None:
    """Return the motion at a stamp of the odometry's clock; None if it is too old or too far ahead.

    Between two messages the pose is interpolated, and the twist is the newer message's.
    """
    history = state.history
    if not history or stamp_ns < history[0].stamp_ns:
        return None
    newest = history[-1]
    if stamp_ns > newest.stamp_ns:
        ahead_ns = stamp_ns - newest.stamp_ns
        if ahead_ns > EXTRAPOLATION_NS:
            return None
        pose = integrate(newest.motion.pose, newest.motion.twist, ahead_ns / NS_PER_S)
        return Sample(stamp_ns, Motion(pose, newest.motion.twist), newest.moving_s)
    index = bisect_left(history, stamp_ns, key=lambda sample: sample.stamp_ns)
    after = history[index]
    if after.stamp_ns == stamp_ns:
        return after
    before = history[index - 1]
    fraction = (stamp_ns - before.stamp_ns) / (after.stamp_ns - before.stamp_ns)
    pose = interpolate(before.motion.pose, after.motion.pose, fraction)
    moving_s = before.moving_s + fraction * (after.moving_s - before.moving_s)
    return Sample(stamp_ns, Motion(pose, after.motion.twist), moving_s)


def _refusal(message: OdometryMessage, section: OdometrySection) -> Said:
    """Return the reason to reject the message, or "" if it is valid."""
    for name, value, unit, limit, key in (
        ("v", message.twist.v_mps, "m/s", MAX_SPEED_MPS, "of every base"),
        ("w", message.twist.w_radps, "rad/s", MAX_YAW_RATE_RADPS, "of every base"),
    ):
        if not math.isfinite(value):
            return reasons.ODOMETRY_NOT_FINITE.say(name=name, value=value)
        if abs(value) > limit:
            return reasons.ODOMETRY_TOO_FAST.say(name=name, value=value, unit=unit, limit=limit, key=key)
    if message.pose is None:
        return reasons.ODOMETRY_NO_POSE.say() if section.source == "pose" else NO_REASON
    for name, value in (("x", message.pose.x_m), ("y", message.pose.y_m), ("yaw", message.pose.yaw_rad)):
        if name == "yaw" and math.isnan(value):
            return reasons.ODOMETRY_NO_ORIENTATION.say()
        if not math.isfinite(value):
            return reasons.ODOMETRY_NOT_FINITE.say(name=name, value=value)
        if abs(value) > MAX_POSITION_M:
            return reasons.ODOMETRY_TOO_FAR.say(name=name, value=value, limit=MAX_POSITION_M)
    return NO_REASON


def _rejected(state: OdometryState, reason: Said, message: OdometryMessage) -> OdometryState:
    return replace(state, refused=state.refused + 1, refusal=reason, refused_ns=message.arrival_ns)


def _timed(state: OdometryState, message: OdometryMessage, section: OdometrySection) -> tuple[OdometryState, bool]:
    """Return the state with the message's excess latency, and whether the sender's clock was set before it."""
    timing, sender = timed(state.sender, message.stamp_ns, message.arrival_ns)
    return replace(state, late_ns=timing.late_ns if section.judge_late else 0, sender=sender), timing.was_set


def _restarted(state: OdometryState, message: OdometryMessage) -> OdometryState:
    """Return the state restarted at the message, without motion. Requires the state of `_timed`."""
    started = replace(
        state,
        twist=message.twist,
        stamp_ns=message.stamp_ns,
        arrival_ns=message.arrival_ns,
        fresh_ns=message.arrival_ns - state.late_ns,
        base_pose=message.pose,
        history=(),
        agreement=agreement.noted(state.agreement, message.pose, message.twist),
    )
    if state.base_pose is not None and message.pose is not None:
        step = between(state.base_pose, message.pose)
        if agreement.is_jump(step, IDENTITY, STOP, STOP, 0.0):
            started = _anchored(started, step, IDENTITY, 0.0, ends=False)
    return replace(started, history=(Sample(message.stamp_ns, started.motion, started.moving_s),))


def _forward(
    state: OdometryState, message: OdometryMessage, reported: Twist, section: OdometrySection
) -> OdometryState:
    """Return the state moved to the message's stamp. reported: the message's twist, not corrected"""
    elapsed_ns, arrived_ns = message.stamp_ns - (state.stamp_ns or 0), message.arrival_ns - (state.arrival_ns or 0)
    back, jumped_ns = elapsed_ns < 0, elapsed_ns - arrived_ns
    state, was_set = _timed(state, message, section)
    elapsed_ns = max(0, arrived_ns) if back else elapsed_ns
    gap = elapsed_ns > MAX_GAP_S * NS_PER_S
    if was_set or gap:
        elapsed_ns = max(0, arrived_ns) if was_set else min(elapsed_ns, max(0, arrived_ns))
    driven_s, twist = min(elapsed_ns / NS_PER_S, MAX_GAP_S), message.twist
    if section.imu and section.source == "twist":
        turning, twist = gyro.join(state.gyro, twist, message.yaw_variance, driven_s)
        state = replace(state, gyro=turning)
    pose, travelled_m = integrate(state.pose, twist, driven_s), abs(twist.v_mps) * driven_s
    moved = is_moving(twist.v_mps, twist.w_radps)
    if section.source == "pose" and message.pose is not None and state.base_pose is not None:
        step = between(state.base_pose, message.pose)
        reason = _jump(step, elapsed_ns / NS_PER_S + SET_S * was_set)
        if reason:
            return _restarted(_rejected(state, reason, message), message)
        step = step if section.correction is None else corrected_step(step, section.correction)
        if section.imu and driven_s > 0.0:
            wheels = Twist(step.x_m / driven_s, step.yaw_rad / driven_s)
            turning, joined = gyro.join(state.gyro, wheels, message.yaw_variance, driven_s)
            state = replace(state, gyro=turning)
            if joined != wheels:
                step, twist = replace(step, yaw_rad=joined.w_radps * driven_s), Twist(twist.v_mps, joined.w_radps)
        pose, travelled_m = compose(state.pose, step), distance(IDENTITY, step)
        moved = moved or travelled_m > 0.0 or step.yaw_rad != 0.0
        if state.agreement.doubt or not (state.agreement.twisted or twist != STOP):
            twist = _derived(state, pose, message.stamp_ns, twist)
    moving_s = elapsed_ns / NS_PER_S if moved else 0.0
    stated = _stated(message, moving_s, section, state.gyro.used)
    covariance = grown(state.covariance, state.pose, pose, moving_s)
    if any(stated):
        add_stated(covariance, mean_heading(state.pose.yaw_rad, pose.yaw_rad), *stated)
    if was_set and (back or abs(jumped_ns) >= SAID_S * NS_PER_S):
        line = reasons.ODOMETRY_CLOCK_SET.say(by_s=jumped_ns / NS_PER_S, limit=SAID_S)
        state = replace(state, clock_sets=state.clock_sets + 1, clock_set=line)
    after = replace(
        state,
        pose=pose,
        twist=twist,
        stamp_ns=message.stamp_ns,
        arrival_ns=message.arrival_ns,
        fresh_ns=state.fresh_ns if back else message.arrival_ns - state.late_ns,
        covariance=covariance,
        travelled_m=state.travelled_m + travelled_m,
        moving_s=state.moving_s + moving_s,
        stated=(state.stated[0] + stated[0], state.stated[1] + stated[1]),
        base_pose=message.pose,
        messages=state.messages + 1,
        gaps=state.gaps + int(gap),
        history=() if back else state.history,
    )
    after = _compared(after, state, message, reported, elapsed_ns / NS_PER_S, gap, was_set, section)
    return replace(after, history=_remembered(after, message.stamp_ns))


def _stated(message: OdometryMessage, moving_s: float, section: OdometrySection, with_imu: bool) -> tuple[float, float]:
    """Return by how much the stated variances exceed the paper's noise in a motion: forward [m^2], turn [rad^2]."""
    if section.source == "pose":
        return 0.0, 0.0
    steps, squared = STEPS_PER_S * moving_s, moving_s * moving_s
    forward = (message.speed_variance or 0.0) * squared - FORWARD_VARIANCE * steps
    turn = 0.0 if with_imu else (message.yaw_variance or 0.0) * squared - TURN_VARIANCE * steps
    return max(0.0, forward), max(0.0, turn)


def _derived(state: OdometryState, pose: Pose, stamp_ns: int, reported: Twist) -> Twist:
    """Return the mean twist by the pose over the last `DERIVED_NS`, or the reported one where the pose is at rest."""
    recent = [sample for sample in state.history[-DERIVED_SAMPLES:] if stamp_ns - sample.stamp_ns <= DERIVED_NS]
    then = recent[0] if recent else state.history[-1]
    moved, elapsed_s = between(then.motion.pose, pose), (stamp_ns - then.stamp_ns) / NS_PER_S
    if elapsed_s <= 0.0:
        return reported
    twist = Twist(moved.x_m / elapsed_s, moved.yaw_rad / elapsed_s)
    return twist if is_moving(twist.v_mps, twist.w_radps) else reported


def _compared(
    after: OdometryState,
    before: OdometryState,
    message: OdometryMessage,
    reported: Twist,
    elapsed_s: float,
    gap: bool,
    was_set: bool,
    section: OdometrySection,
) -> OdometryState:
    """Return the state after the base's own pose was compared with its twist: `agreement.py`, and jumps."""
    pose, was, state = message.pose, before.base_pose, after.agreement
    driven_s = min(elapsed_s, MAX_GAP_S)
    twist_step = integrate(IDENTITY, reported, driven_s)
    if pose is None or was is None:
        after = replace(after, agreement=agreement.noted(state, pose, reported))
        if pose is None:
            unknown = was is None or was_set or elapsed_s > agreement.SURE_S
            return replace(after, base_pose=None if was is None or unknown else compose(was, twist_step))
        step = between(after.own.pose, pose)
        apart = agreement.is_jump(step, IDENTITY, STOP, STOP, 0.0)
        return _anchored(after, step, IDENTITY, driven_s, ends=False) if apart else after
    pose_step = between(was, pose)
    jump = agreement.is_jump(pose_step, twist_step, before.twist, reported, driven_s, SET_S * was_set)
    if was_set:
        state = agreement.noted(state, pose, reported)
    else:
        held_step = integrate(IDENTITY, agreement.held(state, reported, elapsed_s), elapsed_s)
        state = agreement.advance(state, pose, reported, pose_step, held_step, elapsed_s, jump, section.source)
    after = replace(after, agreement=state)
    if not (jump and state.placed) or section.source == "pose":
        return after
    unseen = not (gap or was_set) and agreement.is_driven_unseen(pose_step, twist_step, driven_s)
    anchored = _anchored(after, pose_step, twist_step, driven_s, ends=not gap)
    return replace(after, own_from_odom=anchored.own_from_odom) if unseen else anchored


def _anchored(state: OdometryState, pose_step: Pose, twist_step: Pose, elapsed_s: float, ends: bool) -> OdometryState:
    """Return the state with `own_from_odom` after a jump of the base's own pose. ends: whether it may end a drive"""
    if state.base_pose is None:
        return state
    apart_m, apart = distance(pose_step, twist_step), between(twist_step, pose_step)
    ends = ends and (apart_m > CARRIED_M or abs(apart.yaw_rad) > CARRIED_RAD)
    return replace(
        state,
        own_from_odom=compose(state.base_pose, inverse(state.pose)),
        jumps=state.jumps + int(ends),
        reanchored=state.reanchored + 1,
        jump=reasons.ODOMETRY_JUMPED.say(
            moved_m=distance(IDENTITY, pose_step),
            deg=math.degrees(pose_step.yaw_rad),
            ms=elapsed_s * 1e3,
            twist_m=distance(IDENTITY, twist_step),
        ),
    )


def _jump(step: Pose, elapsed_s: float) -> Said:
    """Return the reason to reject an increment of the base's own pose, or "" if it is possible."""
    moved_m = distance(IDENTITY, step)
    if moved_m > MAX_SPEED_MPS * elapsed_s + JUMP_SLACK_M:
        return reasons.ODOMETRY_POSE_JUMPED.say(moved_m=moved_m, ms=elapsed_s * 1e3, limit=MAX_SPEED_MPS)
    if abs(step.yaw_rad) > MAX_YAW_RATE_RADPS * elapsed_s + JUMP_SLACK_RAD:
        turned_rad = abs(step.yaw_rad)
        return reasons.ODOMETRY_POSE_TURNED.say(rad=turned_rad, ms=elapsed_s * 1e3, limit=MAX_YAW_RATE_RADPS)
    return NO_REASON


def _remembered(state: OdometryState, stamp_ns: int) -> tuple[Sample, ...]:
    """Return the history with the newest motion, bounded in time and number."""
    oldest = bisect_left(state.history, stamp_ns - HISTORY_NS, key=lambda sample: sample.stamp_ns)
    oldest = max(oldest, len(state.history) + 1 - HISTORY_SAMPLES)
    return (*state.history[oldest:], Sample(stamp_ns, state.motion, state.moving_s))
