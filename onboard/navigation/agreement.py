"""Whether the pose and the twist of a base's odometry agree. Pure: only recorded messages, so a replay is exact.

A window lasts until pose or twist has moved `WINDOW_M` or turned `WINDOW_RAD`, at most `WINDOW_S`. At its end both must
agree within `APART_M` and `APART_RAD`. A twist may lag by `LAG_S`, because many drivers filter it: that much of its
change within the window is allowed too. A lag does not grow with the way, as a wrong scale does: a window that agrees
only with this allowance goes on to `LONGER` times its way. Only a window that agrees and moved ends a contradiction.

    interval                        how it counts
    at most `SURE_S`                as it is
    longer: messages were lost      with the mean of both twists. A base changes its speed by at most `ACCEL_MPS2` and
                                    `ACCEL_RADPS2`: what that explains is no disagreement. If it explains more than
                                    half, the interval is left out of the window: it would hide what others show
    no pose in the message          its twist counts with the next pose (`odometry.py`)
    the sender's clock was set      left out: its length is not known
    jump of the pose                left out once in `CALM_S`, as of a fused odometry

A pose that has always been exactly zero is not filled. While `odometry.source` is twist, it is not compared. Nor is a
position that is not filled, where only the heading comes from a gyroscope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onboard.values import reasons
from onboard.values.geometry import IDENTITY, between, compose, distance, wrap
from onboard.values.messages import STOP, Pose, Twist
from onboard.values.reasons import NO_REASON, Said

WINDOW_M = 1.0
WINDOW_RAD = math.pi / 2
WINDOW_S = 30.0
LONGER = 1.3
APART_M = 0.2
APART_RAD = math.radians(15.0)
LAG_S = 0.15
SURE_S = 0.25
ACCEL_MPS2 = 2.0
ACCEL_RADPS2 = 8.0

JUMP_M = 0.1
JUMP_RAD = 0.2
"""Least difference of pose and twist in one interval that is a jump; see `is_jump`."""
CALM_S = 1.0
TOP_MPS, TOP_RADPS = 1.0, 2.0
"""What a base may have driven unseen while messages were lost, if its twist says nothing of it."""
SPEED_ERROR = 0.25
"""An interval's twist may be wrong by this part without a jump."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The window, and what the last windows found.

    pose_step, twist_step: motion in the window by the pose and by the twist, without what is left out
    pose_rad, twist_rad: turn in it by the pose and by the twist, not wrapped
    newest:        twist of the newest message
    changed:       change of the twist since the window's start
    swing:         the largest such change in the window, of each axis
    elapsed_s:     length of the window
    calm_s:        time since the newest jump
    placed, headed, twisted: whether position, heading and twist were ever filled
    contradiction: reason why the robot must stand, until a window agrees; "" without one
    doubt:         why the twist is not used, as `odometry.source` is pose; "" while it is used
    """

    pose_step: Pose = IDENTITY
    twist_step: Pose = IDENTITY
    pose_rad: float = 0.0
    twist_rad: float = 0.0
    newest: Twist = STOP
    changed: Twist = STOP
    swing: Twist = STOP
    elapsed_s: float = 0.0
    calm_s: float = CALM_S
    placed: bool = False
    headed: bool = False
    twisted: bool = False
    contradiction: Said = NO_REASON
    doubt: Said = NO_REASON


def noted(state: Agreement, pose: Pose | None, twist: Twist) -> Agreement:
    """Return the state after a message whose interval is left out."""
    placed = pose is not None and (pose.x_m != 0.0 or pose.y_m != 0.0)
    headed = pose is not None and pose.yaw_rad != 0.0
    return replace(
        state,
        newest=twist,
        placed=state.placed or placed,
        headed=state.headed or headed,
        twisted=state.twisted or twist != STOP,
    )


def is_jump(
    pose_step: Pose, twist_step: Pose, before: Twist, twist: Twist, elapsed_s: float, unsure_s: float = 0.0
) -> bool:
    """Return whether pose and twist differ in one interval by more than stamps, lost messages and slip explain.

    unsure_s: uncertainty of elapsed_s
    """
    speed = SPEED_ERROR * abs(twist.v_mps) + abs(twist.v_mps - before.v_mps)
    turning = SPEED_ERROR * abs(twist.w_radps) + abs(twist.w_radps - before.w_radps)
    apart_m, apart_rad = distance(pose_step, twist_step), abs(between(twist_step, pose_step).yaw_rad)
    most_m, most_rad = JUMP_M + unsure_s * abs(twist.v_mps), JUMP_RAD + unsure_s * abs(twist.w_radps)
    return apart_m > most_m + speed * elapsed_s or apart_rad > most_rad + turning * elapsed_s


def is_driven_unseen(pose_step: Pose, twist_step: Pose, elapsed_s: float) -> bool:
    """Return whether driving explains the difference of pose and twist, as messages were lost."""
    turned_rad = abs(between(twist_step, pose_step).yaw_rad)
    return elapsed_s > SURE_S and (
        distance(pose_step, twist_step) <= JUMP_M + TOP_MPS * elapsed_s
        and turned_rad <= JUMP_RAD + TOP_RADPS * elapsed_s
    )


def held(state: Agreement, twist: Twist, elapsed_s: float) -> Twist:
    """Return the twist that holds over an interval: the newer one, in a long one the mean."""
    before = state.newest
    if elapsed_s <= SURE_S:
        return twist
    return Twist(0.5 * (before.v_mps + twist.v_mps), 0.5 * (before.w_radps + twist.w_radps))


def advance(
    state: Agreement,
    pose: Pose,
    twist: Twist,
    pose_step: Pose,
    twist_step: Pose,
    elapsed_s: float,
    jump: bool,
    source: str,
) -> Agreement:
    """Return the state after one interval.

    pose:   the base's own pose at its end; pose_step, twist_step: the motion by each, the latter of `held`
    jump:   of `is_jump`; source: `odometry.source`
    """
    before, state = state, noted(state, pose, twist)
    if jump and state.calm_s >= CALM_S:
        return replace(state, calm_s=0.0)
    turned_rad = held(before, twist, elapsed_s).w_radps * elapsed_s
    if elapsed_s > SURE_S:
        explained = _explained(pose_step, twist_step, turned_rad, elapsed_s)
        if explained is None:
            return state
        twist_step, turned_rad = explained
    changed = _sum(state.changed, twist, before.newest)
    state = replace(
        state,
        pose_step=compose(state.pose_step, pose_step),
        twist_step=compose(state.twist_step, twist_step),
        pose_rad=state.pose_rad + pose_step.yaw_rad,
        twist_rad=state.twist_rad + turned_rad,
        changed=changed,
        swing=Twist(
            max(state.swing.v_mps, abs(changed.v_mps)),
            max(state.swing.w_radps, abs(changed.w_radps)),
        ),
        elapsed_s=state.elapsed_s + elapsed_s,
        calm_s=0.0 if jump else state.calm_s + elapsed_s,
    )
    way_m = max(distance(IDENTITY, state.pose_step), distance(IDENTITY, state.twist_step))
    turn_rad = max(abs(state.pose_rad), abs(state.twist_rad))
    moved = way_m >= WINDOW_M or turn_rad >= WINDOW_RAD
    if not moved and state.elapsed_s < WINDOW_S:
        return state
    judged = _judged(state, way_m, moved, elapsed_s, source)
    longest = way_m >= LONGER * WINDOW_M or turn_rad >= LONGER * WINDOW_RAD or state.elapsed_s >= WINDOW_S
    if judged is None and not longest:
        return state
    judged = judged or replace(state, contradiction=NO_REASON, doubt=NO_REASON)
    return replace(
        judged,
        pose_step=IDENTITY,
        twist_step=IDENTITY,
        pose_rad=0.0,
        twist_rad=0.0,
        changed=STOP,
        swing=STOP,
        elapsed_s=0.0,
    )


def _explained(pose_step: Pose, twist_step: Pose, turned_rad: float, elapsed_s: float) -> tuple[Pose, float] | None:
    """Return motion and turn by the twist, as near those by the pose as changes of speed explain; None if they explain
    more than half of the difference.
    """
    about_rad = ACCEL_RADPS2 * elapsed_s**2 / 4.0
    way_m = max(distance(IDENTITY, pose_step), distance(IDENTITY, twist_step))
    about_m = ACCEL_MPS2 * elapsed_s**2 / 4.0 + way_m * min(about_rad, 2.0)
    apart_m, apart_rad = distance(pose_step, twist_step), wrap(pose_step.yaw_rad - turned_rad)
    if apart_m <= 2.0 * about_m and abs(apart_rad) <= 2.0 * about_rad:
        return None
    part = min(1.0, about_m / apart_m) if apart_m > 0.0 else 1.0
    turned_rad += math.copysign(min(abs(apart_rad), about_rad), apart_rad)
    return Pose(
        twist_step.x_m + part * (pose_step.x_m - twist_step.x_m),
        twist_step.y_m + part * (pose_step.y_m - twist_step.y_m),
        wrap(turned_rad),
    ), turned_rad


def _sum(changed: Twist, twist: Twist, before: Twist) -> Twist:
    return Twist(changed.v_mps + twist.v_mps - before.v_mps, changed.w_radps + twist.w_radps - before.w_radps)


def _judged(state: Agreement, way_m: float, moved: bool, elapsed_s: float, source: str) -> Agreement | None:
    """Return the state after a comparison at the end of a window; None if only the lag's allowance makes it agree.

    moved: False after `WINDOW_S` with less motion, which refutes no contradiction
    """
    filled = source == "pose" or state.placed
    if not (filled or state.headed):
        return state
    lag_s, by_pose = LAG_S + min(elapsed_s, SURE_S), state.pose_step
    turning = lag_s * state.swing.w_radps
    apart_m = distance(by_pose, state.twist_step) if filled else 0.0
    apart_rad = abs(state.pose_rad - state.twist_rad)
    allowed_m = APART_M + lag_s * state.swing.v_mps + turning * way_m
    if apart_m <= allowed_m and apart_rad <= APART_RAD + turning:
        if moved and (apart_m > APART_M or apart_rad > APART_RAD):
            return None
        return replace(state, contradiction=NO_REASON, doubt=NO_REASON) if moved else state
    still = distance(IDENTITY, by_pose) < APART_M and abs(state.pose_rad) < APART_RAD
    how = (
        f"in {state.elapsed_s:.1f} s its pose moved {distance(IDENTITY, by_pose):.2f} m and turned "
        f"{math.degrees(state.pose_rad):.0f} deg, its twist says {distance(IDENTITY, state.twist_step):.2f} m and "
        f"{math.degrees(state.twist_rad):.0f} deg"
    )
    if source == "pose" and not still:
        return replace(state, contradiction=NO_REASON, doubt=reasons.ODOMETRY_DOUBT.say(how=how))
    remedy = "correct the pose in the base's driver; or, if the pose is right, the unit of the twist (m/s and rad/s)"
    if source == "pose":
        remedy = 'if the twist is right, set odometry.source = "twist"'
    elif not still:
        remedy = 'if the pose is right, set odometry.source = "pose"; the twist must be in base_link, in m/s and rad/s'
    return replace(state, contradiction=reasons.ODOMETRY_CONTRADICTS.say(how=how, remedy=remedy), doubt=NO_REASON)


NEW = Agreement()
"""Before the first message."""
