"""The start frame: the robot's pose when the goal came. Everything that the policy sees is expressed in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from onboard.config.config import DdsSection, GoalSection
from onboard.navigation.ekf import LocalizationState, deviations, localised
from onboard.navigation.kalman import axes
from onboard.navigation.odometry import OdometryState
from onboard.navigation.wheel_motion import carry
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import apply, compose, distance, inverse, wrap
from onboard.values.messages import GoalRequest, Motion, Pose
from onboard.values.reasons import Said

LOCALIZATION_MAX_AGE_S = 8.0
"""An older fix of the localisation is not shown to the policy."""


class GoalRefusedError(InputError):
    """A goal that the runtime refuses. said: why"""

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self.said = said


@dataclass(frozen=True, slots=True)
class Start:
    """The start frame of one episode.

    start_from_map: known at once if localised; otherwise from the first fix and the odometry until then
    covariance:     of the odometry at the start, (3, 3) row by row; () in old recordings: unknown
    """

    start_from_odom: Pose
    start_from_map: Pose | None
    covariance: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StartFrameMotion:
    """Motion of the robot in the start frame.

    raw:        by odometry alone
    fix:        newest external fix as received, with the wheels' v and w at its time. None before the first fix and
                when it is older than `LOCALIZATION_MAX_AGE_S` (absent in the contract's sense)
    fix_age_ns: its age; None when absent
    filtered:   by the EKF; odometry alone, as corrected by scan matching, until the start frame is known in the map
    deviations: `ekf.deviations` of `filtered`; None while it is odometry alone
    drift_m:    standard deviation of the position by odometry alone, in its worst direction; None otherwise
    """

    raw: Motion
    fix: Motion | None
    fix_age_ns: int | None
    filtered: Motion
    deviations: tuple[float, float] | None = None
    drift_m: float | None = None

    @property
    def uncertain_m(self) -> float | None:
        """Return two standard deviations of the position in its worst direction [m]; None if they are unknown."""
        sd_m = self.drift_m if self.deviations is None else self.deviations[0]
        return None if sd_m is None else 2.0 * sd_m


def begin(wheels: OdometryState, localization: LocalizationState) -> Start:
    """Return the start frame of an episode that begins now."""
    start_from_map = None
    if localised(localization) and localization.map_from_base is not None:
        start_from_map = inverse(localization.map_from_base)
    return Start(inverse(wheels.pose), start_from_map, tuple(wheels.covariance.ravel().tolist()))


def drift_m(start: Start, wheels: OdometryState) -> float | None:
    """Return the standard deviation of the position by odometry since the start, in its worst direction [m]; None if
    the start does not state its covariance."""
    if not start.covariance:
        return None
    at, before = inverse(start.start_from_odom), np.array(start.covariance).reshape(3, 3)
    carry(before, ((at.y_m - wheels.pose.y_m,), (wheels.pose.x_m - at.x_m,)))
    since = wheels.covariance - before
    return math.sqrt(max(0.0, axes(float(since[0, 0]), float(since[0, 1]), float(since[1, 1]))[0]))


def anchor(
    start: Start, wheels: OdometryState, localization: LocalizationState, corrected: Pose | None = None
) -> Start:
    """Return the start frame, placed in the map as soon as the robot is localised; later it does not move.

    corrected: odom_from_base as corrected by scan matching, None without it
    """
    if start.start_from_map is not None or not localised(localization) or localization.map_from_base is None:
        return start
    start_from_base = compose(start.start_from_odom, corrected or wheels.pose)
    return replace(start, start_from_map=compose(start_from_base, inverse(localization.map_from_base)))


def locate(
    start: Start,
    wheels: OdometryState,
    localization: LocalizationState,
    now_ns: int,
    corrected: Pose | None = None,
) -> StartFrameMotion:
    """Return the robot's motion in the start frame. corrected: as in `anchor`"""
    raw = Motion(compose(start.start_from_odom, wheels.pose), wheels.twist)
    start_from_map, received = start.start_from_map, localization.received
    if start_from_map is None or localization.map_from_base is None:
        return StartFrameMotion(
            raw,
            None,
            None,
            Motion(compose(start.start_from_odom, corrected or wheels.pose), wheels.twist),
            drift_m=drift_m(start, wheels),
        )
    filtered = Motion(compose(start_from_map, localization.map_from_base), wheels.twist)
    sd = deviations(localization)
    if received is None:
        return StartFrameMotion(raw, None, None, filtered, sd)
    age_ns = max(0, now_ns - received.taken_ns)
    if age_ns > LOCALIZATION_MAX_AGE_S * NS_PER_S:
        return StartFrameMotion(raw, None, None, filtered, sd)
    return StartFrameMotion(raw, Motion(compose(start_from_map, received.pose), received.twist), age_ns, filtered, sd)


def map_from_start(start: Start | None, localization: LocalizationState) -> Pose | None:
    """Return the pose of the start frame in the map, None while the robot is not localised."""
    if start is None or start.start_from_map is None or not localised(localization):
        return None
    return inverse(start.start_from_map)


def goal_in_start(
    request: GoalRequest,
    start: Start,
    wheels: OdometryState,
    localization: LocalizationState,
    goal: GoalSection,
    dds: DdsSection,
) -> tuple[float, float]:
    """Return the position of the request's pose in the start frame [m]. Raises GoalRefusedError."""
    at = pose_in_start(request.frame_id, request.pose, start, wheels, localization, goal, dds)
    return at.x_m, at.y_m


def pose_in_start(
    frame_id: str,
    pose: Pose,
    start: Start,
    wheels: OdometryState,
    localization: LocalizationState,
    goal: GoalSection,
    dds: DdsSection,
) -> Pose:
    """Return a goal's pose in the start frame. Raises GoalRefusedError.

    A goal in the odom frame refers to that of the base's own pose (`OdometryState.own_from_odom`). A goal in the base
    frame refers to the robot's current pose, as the request's stamp may come from another clock.
    Whether a goal lies in or behind a wall is unknown here: it is accepted, and `mission.py` ends the drive.
    """
    for name, value in (("x", pose.x_m), ("y", pose.y_m)):
        if not math.isfinite(value):
            raise GoalRefusedError(reasons.GOAL_NOT_FINITE.say(axis=name, value=value))
    if not math.isfinite(pose.yaw_rad):
        raise GoalRefusedError(reasons.GOAL_NO_ORIENTATION.say())
    start_from_base = compose(start.start_from_odom, wheels.pose)
    frame = frame_id.strip("/")
    if frame == dds.odom_frame.strip("/"):
        start_from_frame = compose(start.start_from_odom, inverse(wheels.own_from_odom))
    elif frame == dds.base_frame.strip("/"):
        start_from_frame = start_from_base
    elif frame == dds.map_frame.strip("/"):
        if start.start_from_map is None or not localised(localization):
            why = localization.refusal or "there is no trusted localisation"
            raise GoalRefusedError(reasons.GOAL_NOT_LOCALISED.say(frame=frame, why=why))
        start_from_frame = start.start_from_map
    else:
        known = ", ".join((dds.odom_frame, dds.base_frame, dds.map_frame))
        raise GoalRefusedError(reasons.GOAL_FRAME.say(frame=frame_id, known=known))
    x_m, y_m = apply(start_from_frame, (pose.x_m, pose.y_m))
    away_m = distance(start_from_base, Pose(x_m, y_m, 0.0))
    if not away_m <= goal.max_distance_m:  # also true for NaN, from an overflow
        raise GoalRefusedError(reasons.GOAL_TOO_FAR.say(away_m=away_m, limit_m=goal.max_distance_m))
    return Pose(x_m, y_m, wrap(start_from_frame.yaw_rad + pose.yaw_rad))
