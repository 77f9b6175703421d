"""Whether the pose and the twist of a base's odometry agree. Pure: only recorded messages, so a replay is exact.

A window lasts until pose or twist has moved `WINDOW_M` or turned `WINDOW_RAD`, at most `WINDOW_S`. At its end both must
agree within `APART_M` and `APART_RAD`. A twist may lag by `LAG_S`, because many drivers filter it: that much of its
change since the window began is allowed too. A jump of the pose is excused once in `CALM_S`, as of a fused odometry.

A pose that has always been exactly zero is not filled. While `odometry.source` is twist, it is not compared. Nor is a
position that is not filled, where only the heading comes from a gyroscope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onboard.values.geometry import IDENTITY, between, compose, distance
from onboard.values.messages import STOP, Pose, Twist

WINDOW_M = 1.0
WINDOW_RAD = math.pi / 2
WINDOW_S = 30.0
APART_M = 0.2
APART_RAD = math.radians(15.0)
LAG_S = 0.15

JUMP_M = 0.1
JUMP_RAD = 0.2
"""Least difference of pose and twist in one interval that is a jump; see `is_jump`."""
CALM_S = 1.0
SPEED_ERROR = 0.25
"""An interval's twist may be wrong by this part without a jump."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The window, and what the last windows found.

    began:         the base's own pose at the begin of the window; None without one
    from_twist:    twist at the begin of the window
    twist_step:    motion since then by the twist, in the frame of `began`; a jump is excused
    pose_rad, twist_rad: turn since then by the pose and by the twist, not wrapped
    elapsed_s:     length of the window
    calm_s:        time since the newest jump
    placed, headed, twisted: whether position, heading and twist were ever filled
    contradiction: reason why the robot must stand, until a window agrees or the base starts anew; "" without one
    doubt:         why the twist is not used, as `odometry.source` is pose; "" while it is used
    """

    began: Pose | None = None
    from_twist: Twist = STOP
    twist_step: Pose = IDENTITY
    pose_rad: float = 0.0
    twist_rad: float = 0.0
    elapsed_s: float = 0.0
    calm_s: float = CALM_S
    placed: bool = False
    headed: bool = False
    twisted: bool = False
    contradiction: str = ""
    doubt: str = ""


def restarted(state: Agreement, pose: Pose | None, twist: Twist) -> Agreement:
    """Return the state with a new window, after a gap or a new clock: the base may have started anew."""
    return replace(_opened(_noted(state, pose, twist), pose, twist), contradiction="", doubt="")


def is_jump(pose_step: Pose, twist_step: Pose, before: Twist, twist: Twist, elapsed_s: float) -> bool:
    """Return whether pose and twist differ in one interval by more than stamps, lost messages and slip explain."""
    speed = SPEED_ERROR * abs(twist.v_mps) + abs(twist.v_mps - before.v_mps)
    turning = SPEED_ERROR * abs(twist.w_radps) + abs(twist.w_radps - before.w_radps)
    apart_m, apart_rad = distance(pose_step, twist_step), abs(between(twist_step, pose_step).yaw_rad)
    return apart_m > JUMP_M + speed * elapsed_s or apart_rad > JUMP_RAD + turning * elapsed_s


def advance(
    state: Agreement,
    before: Pose,
    pose: Pose,
    twist: Twist,
    pose_step: Pose,
    twist_step: Pose,
    elapsed_s: float,
    jump: bool,
    source: str,
) -> Agreement:
    """Return the state after one interval.

    before, pose: the base's own pose at its begin and end; pose_step, twist_step: the motion by each
    jump:   of `is_jump`; source: `odometry.source`
    """
    state = _noted(state, pose, twist)
    if state.began is None:
        state = _opened(state, before, twist)
    excused = jump and state.calm_s >= CALM_S
    state = replace(
        state,
        twist_step=compose(state.twist_step, pose_step if excused else twist_step),
        pose_rad=state.pose_rad + pose_step.yaw_rad,
        twist_rad=state.twist_rad + (pose_step.yaw_rad if excused else twist.w_radps * elapsed_s),
        elapsed_s=state.elapsed_s + elapsed_s,
        calm_s=0.0 if jump else state.calm_s + elapsed_s,
    )
    by_pose, by_twist = between(state.began or before, pose), state.twist_step
    way_m = max(distance(IDENTITY, by_pose), distance(IDENTITY, by_twist))
    turn_rad = max(abs(state.pose_rad), abs(state.twist_rad))
    moved = way_m >= WINDOW_M or turn_rad >= WINDOW_RAD
    if not moved and state.elapsed_s < WINDOW_S:
        return state
    return _opened(_judged(state, by_pose, way_m, moved, twist, elapsed_s, source), pose, twist)


def _judged(
    state: Agreement, by_pose: Pose, way_m: float, moved: bool, twist: Twist, elapsed_s: float, source: str
) -> Agreement:
    """Return the state after a comparison at the end of a window. moved: False after `WINDOW_S` with less motion,
    which refutes no contradiction
    """
    filled = source == "pose" or state.placed
    if not (filled or state.headed):
        return state
    lag_s = LAG_S + elapsed_s
    turning = lag_s * abs(twist.w_radps - state.from_twist.w_radps)
    apart_m = distance(by_pose, state.twist_step) if filled else 0.0
    allowed_m = APART_M + lag_s * abs(twist.v_mps - state.from_twist.v_mps) + turning * way_m
    if apart_m <= allowed_m and abs(state.pose_rad - state.twist_rad) <= APART_RAD + turning:
        return replace(state, contradiction="", doubt="") if moved else state
    still = distance(IDENTITY, by_pose) < APART_M and abs(state.pose_rad) < APART_RAD
    found = (
        f"contradicts itself: in {state.elapsed_s:.1f} s its pose moved {distance(IDENTITY, by_pose):.2f} m and turned "
        f"{math.degrees(state.pose_rad):.0f} deg, its twist says {distance(IDENTITY, state.twist_step):.2f} m and "
        f"{math.degrees(state.twist_rad):.0f} deg: "
    )
    if source == "pose" and not still:
        return replace(state, contradiction="", doubt=f"{found}the twist is not used (odometry.source is pose)")
    if source == "pose":
        return replace(state, contradiction=f'{found}if the twist is right, set odometry.source = "twist"', doubt="")
    key = "correct the pose in the base's driver"
    if not still:
        key = 'if the pose is right, set odometry.source = "pose"; the twist must be in base_link, in m/s and rad/s'
    return replace(state, contradiction=f"{found}{key}", doubt="")


def _opened(state: Agreement, pose: Pose | None, twist: Twist) -> Agreement:
    return replace(
        state, began=pose, from_twist=twist, twist_step=IDENTITY, pose_rad=0.0, twist_rad=0.0, elapsed_s=0.0,
    )  # fmt: skip


def _noted(state: Agreement, pose: Pose | None, twist: Twist) -> Agreement:
    """Return the state with what a message shows to be filled."""
    placed = pose is not None and (pose.x_m != 0.0 or pose.y_m != 0.0)
    headed = pose is not None and pose.yaw_rad != 0.0
    return replace(
        state,
        placed=state.placed or placed,
        headed=state.headed or headed,
        twisted=state.twisted or twist != STOP,
    )


NEW = Agreement()
"""Before the first message."""
