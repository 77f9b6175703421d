"""Episodes: an accepted goal begins an episode; a rejected goal gets a reason. Pure functions.

A goal within `SAME_M` of the current goal is a repetition: the drive continues with its timeouts and recovery tries.
A sender may therefore repeat its goal every second. The tolerance covers the drift of a goal that is fixed in another
frame, while the pose estimate changes.

The runtime refuses a goal with a latency above `LATE_NS`, because it may be obsolete. The latency is relative to the
sender's fastest message (`onboard/drivers/dds/sender_clock.py`). So the runtime always accepts the first goal of a
sender, and the first goal after a silence. A clock that was set back looks like latency, so the refusal names both.
"""

from __future__ import annotations

from dataclasses import dataclass

from onboard.config.config import Config
from onboard.navigation import start_frame
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import Mission, accept, refuse
from onboard.navigation.odometry import OdometryState
from onboard.navigation.start_frame import Start
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import distance
from onboard.values.messages import GoalRequest, Pose

SAME_M = 0.05
LATE_NS = 5 * NS_PER_S
"""Maximum latency of a goal. Retransmissions of a radio take less."""


Answer = tuple[GoalRequest, str, str]
"""A goal, the verdict (goal_accepted, goal_repeated, goal_refused), and the reason of a refusal, or "none"."""


@dataclass(frozen=True, slots=True)
class Situation:
    """State against which the runtime checks goals in this tick. was_pressed: e-stop pressed in the previous tick."""

    now_ns: int
    e_stop: bool
    was_pressed: bool
    wheels: OdometryState
    localization: LocalizationState


def judge(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> tuple[Mission, Start | None, Answer]:
    """Return mission and start frame after a goal, and the answer. An accepted goal replaces the current goal."""
    wheels, localization = situation.wheels, situation.localization
    try:
        check(request, situation, config)
        if is_repeated(mission, start, request, situation, config):
            return mission, start, (request, "goal_repeated", "none")
        new_start = start_frame.begin(wheels, localization)
        goal_xy_m = start_frame.goal_in_start(request, new_start, wheels, localization, config.goal, config.dds)
    except InputError as error:
        refused = refuse(mission, str(error), situation.now_ns)
        return refused, start, (request, "goal_refused", str(error))
    return accept(mission, goal_xy_m, situation.now_ns), new_start, (request, "goal_accepted", "none")


def check(request: GoalRequest, situation: Situation, config: Config) -> None:
    """Raise InputError if the runtime accepts no goal now, or if this goal is too late."""
    late_ns = situation.now_ns - request.arrival_ns
    if late_ns > LATE_NS:
        late = f"it came {late_ns / NS_PER_S:.1f} s late, or its clock was set back"
        raise InputError(f"{late}; at most {LATE_NS // NS_PER_S} s are taken")
    if situation.e_stop:
        raise InputError("the e-stop is pressed")
    if situation.was_pressed:
        raise InputError("the e-stop has only just been released")
    if situation.wheels.stamp_ns is None:
        raise InputError(situation.wheels.refusal or "there is no odometry yet")
    if situation.wheels.agreement.contradiction:
        raise InputError(f"{config.dds.odometry_topic} {situation.wheels.agreement.contradiction}")


def is_repeated(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> bool:
    """Return whether a goal repeats the current goal. Raises InputError for an invalid goal."""
    known = mission.goal_xy_m
    if not mission.driving or start is None or known is None:
        return False
    wheels, localization = situation.wheels, situation.localization
    requested = start_frame.goal_in_start(request, start, wheels, localization, config.goal, config.dds)
    return distance(Pose(*requested, 0.0), Pose(*known, 0.0)) <= SAME_M
