"""Episodes: an accepted goal begins an episode; a rejected goal gets a reason. Pure functions.

A goal within `SAME_M` of the current goal, with its heading and sequence, is a repetition: the drive continues with its
timeouts and recovery tries. A sender may therefore repeat its goal every second. The tolerance covers the drift of a
goal that is fixed in another frame, while the pose estimate changes.

The runtime refuses a goal with a latency above `LATE_NS`, because it may be obsolete. The latency is relative to the
sender's fastest message (`onboard/drivers/dds/sender_clock.py`). So the runtime always accepts the first goal of a
sender, and the first goal after a silence. A clock that was set back looks like latency, so the refusal names both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onboard.config.config import Config
from onboard.navigation import mission as mission_rules
from onboard.navigation import start_frame
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import Mission, accept, refuse
from onboard.navigation.odometry import OdometryState
from onboard.navigation.start_frame import GoalRefusedError, Start
from onboard.perception.building.reach import Reach
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, wrap
from onboard.values.messages import GoalRequest, Pose
from onboard.values.reasons import Said, of_topic

SAME_M, SAME_RAD = 0.05, 0.05
MOST_POSES = 100
"""Of one sequence."""
LATE_NS = 5 * NS_PER_S
"""Maximum latency of a goal. Retransmissions of a radio take less."""


GOAL_ACCEPTED = "goal_accepted"
Answer = tuple[GoalRequest, str, Said]
"""A goal, the verdict (goal_accepted, goal_repeated, goal_refused), and the reason of a refusal, or "none"."""


@dataclass(frozen=True, slots=True)
class Situation:
    """State against which the runtime checks goals in this tick.

    was_pressed: e-stop pressed in the previous tick; reach: the map of the building
    """

    now_ns: int
    e_stop: bool
    was_pressed: bool
    wheels: OdometryState
    localization: LocalizationState
    battery: float | None = None
    reach: Reach | None = None


def judge(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> tuple[Mission, Start | None, Answer]:
    """Return mission and start frame after a goal, and the answer. An accepted goal replaces the current goal."""
    wheels, localization = situation.wheels, situation.localization
    try:
        check(request, situation, config)
        if is_repeated(mission, start, request, situation, config):
            return replace(mission, asked_ns=request.stamp_ns), start, (request, "goal_repeated", reasons.NONE.named)
        new_start = start_frame.begin(wheels, localization)
        (first, *rest), heading_rad = _route(request, new_start, situation, config)
    except GoalRefusedError as error:
        refused = refuse(mission, error.said, situation.now_ns, request.stamp_ns)
        return refused, start, (request, "goal_refused", error.said)
    accepted = accept(
        mission,
        first,
        situation.now_ns,
        heading_rad=heading_rad,
        then_xy_m=tuple(rest),
        asked_ns=request.stamp_ns,
    )
    return accepted, new_start, (request, GOAL_ACCEPTED, reasons.NONE.named)


def onward(mission: Mission, pose: Pose, situation: Situation) -> tuple[Mission, Start]:
    """Return mission and start frame where a goal of a sequence was passed. pose: in the previous start frame"""
    following = mission_rules.onward(mission, pose, situation.now_ns)
    return following, start_frame.begin(situation.wheels, situation.localization)


def _route(
    request: GoalRequest, start: Start, situation: Situation, config: Config
) -> tuple[list[tuple[float, float]], float | None]:
    """Return the goals of a request in the start frame [m], and the last one's heading. Raises GoalRefusedError."""
    if len(request.through) >= MOST_POSES:
        raise GoalRefusedError(reasons.GOAL_TOO_MANY.say(count=len(request.through) + 1, most=MOST_POSES))
    known = start, situation.wheels, situation.localization, config.goal, config.dds
    asked = *request.through, (request.frame_id, request.pose)
    poses = [start_frame.pose_in_start(frame_id, pose, *known) for frame_id, pose in asked]
    places = [(pose.x_m, pose.y_m) for pose in poses]
    check_in_map(places, start, situation, config.goal.tolerance_m)
    return places, poses[-1].yaw_rad if request.heading else None


def check_in_map(
    goals_xy_m: Sequence[tuple[float, float]], start: Start, situation: Situation, tolerance_m: float
) -> None:
    """Raise GoalRefusedError for a goal that the map shows to be out of reach. Without localisation nothing is checked.

    goals_xy_m: in the start frame
    """
    reach, base = situation.reach, situation.localization.map_from_base
    to_map = start_frame.map_from_start(start, situation.localization)
    if reach is None or to_map is None or base is None:
        return
    part = reach.part_at((base.x_m, base.y_m))
    if not part:
        raise GoalRefusedError(reasons.MAP_WITHOUT_ROBOT.say(x_m=base.x_m, y_m=base.y_m))
    for x_m, y_m in (apply(to_map, goal) for goal in goals_xy_m):
        found = reach.obstruction((x_m, y_m), part, tolerance_m)
        if found is not None:
            what, (near_x_m, near_y_m) = found
            raise GoalRefusedError(
                reasons.GOAL_OUT_OF_REACH.say(x_m=x_m, y_m=y_m, what=what, near_x_m=near_x_m, near_y_m=near_y_m)
            )


def check(request: GoalRequest, situation: Situation, config: Config) -> None:
    """Raise GoalRefusedError if the runtime accepts no goal now, or if this goal is too late."""
    late_ns = situation.now_ns - request.arrival_ns
    if late_ns > LATE_NS:
        raise GoalRefusedError(reasons.GOAL_LATE.say(late_s=late_ns / NS_PER_S, limit_s=LATE_NS // NS_PER_S))
    if situation.e_stop:
        raise GoalRefusedError(reasons.GOAL_AT_E_STOP.say())
    if situation.was_pressed:
        raise GoalRefusedError(reasons.GOAL_AT_RELEASE.say())
    least = config.limits.battery_min[0]
    if situation.battery is not None and situation.battery < least:
        raise GoalRefusedError(reasons.GOAL_BATTERY_LOW.say(percent=100.0 * situation.battery, limit=100.0 * least))
    if situation.wheels.stamp_ns is None:
        raise GoalRefusedError(situation.wheels.refusal or reasons.GOAL_WITHOUT_ODOMETRY.say())
    if situation.wheels.agreement.contradiction:
        raise GoalRefusedError(of_topic(config.dds.odometry_topic, situation.wheels.agreement.contradiction))


def is_repeated(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> bool:
    """Return whether a goal repeats the current goal. Raises GoalRefusedError for an invalid goal."""
    known = mission.goal_xy_m
    if not mission.driving or start is None or known is None:
        return False
    requested, heading_rad = _route(request, start, situation, config)
    driven = (known, *mission.then_xy_m)
    if heading_rad is None or mission.heading_rad is None:
        same_heading = heading_rad is mission.heading_rad
    else:
        same_heading = abs(wrap(heading_rad - mission.heading_rad)) <= SAME_RAD
    return (
        len(requested) == len(driven)
        and same_heading
        and all(math.dist(a, b) <= SAME_M for a, b in zip(requested, driven, strict=True))
    )
