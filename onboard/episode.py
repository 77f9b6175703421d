"""Episodes: a goal that somebody asks for begins one, or is refused with the reason. Pure.

The goal that is being driven to, asked for again, is no new one: the drive goes on, with its times and its tries. So
who repeats a goal every second gets what who gives it once gets. One that is nearer to it than `SAME_M` is the same: by
so little the estimate of the robot's place moves a goal that stays where it is in another frame.

One that was long under way is refused: nobody may want it any more. How long, the quickest message of the same sender
tells (`onboard/drivers/dds/sender_clock.py`), so the first goal of a sender is always taken, and the first after a
silence of it. A clock that was set back meanwhile looks the same, so the refusal names both.
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
"""A goal that came later than this is refused: longer than a radio takes to send again what it lost."""


Answer = tuple[GoalRequest, str, str]
"""A goal, what became of it (goal_accepted, goal_repeated, goal_refused), and why it was refused, or "none"."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What goals are judged by, this tick. e_stop: pressed now; was_pressed: pressed in the last tick."""

    now_ns: int
    e_stop: bool
    was_pressed: bool
    wheels: OdometryState
    localization: LocalizationState


def judge(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> tuple[Mission, Start | None, Answer]:
    """Return mission and start frame after a goal, which replaces one under way, and what became of it."""
    wheels, localization = situation.wheels, situation.localization
    try:
        check(request, situation)
        if is_repeated(mission, start, request, situation, config):
            return mission, start, (request, "goal_repeated", "none")
        begun = start_frame.begin(wheels, localization)
        goal_xy_m = start_frame.goal_in_start(request, begun, wheels, localization, config.goal, config.dds)
    except InputError as error:
        refused = refuse(mission, str(error), situation.now_ns)
        return refused, start, (request, "goal_refused", str(error))
    return accept(mission, goal_xy_m, situation.now_ns), begun, (request, "goal_accepted", "none")


def check(request: GoalRequest, situation: Situation) -> None:
    """Raise InputError where no goal can be taken now, or not this late."""
    late_ns = situation.now_ns - request.arrival_ns
    if late_ns > LATE_NS:
        late = f"it came {late_ns / NS_PER_S:.1f} s late, or its clock was set back"
        raise InputError(f"{late}; at most {LATE_NS // NS_PER_S} s are taken")
    if situation.e_stop:
        raise InputError("the e-stop is pressed")
    if situation.was_pressed:
        raise InputError("the e-stop has only just been released")
    if situation.wheels.stamp_ns is None:
        raise InputError("there is no odometry yet")


def is_repeated(
    mission: Mission, start: Start | None, request: GoalRequest, situation: Situation, config: Config
) -> bool:
    """Return whether a goal is the one under way. Raises InputError: it is no goal."""
    known = mission.goal_xy_m
    if not mission.driving or start is None or known is None:
        return False
    wheels, localization = situation.wheels, situation.localization
    asked = start_frame.goal_in_start(request, start, wheels, localization, config.goal, config.dds)
    return distance(Pose(*asked, 0.0), Pose(*known, 0.0)) <= SAME_M
