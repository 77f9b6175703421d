"""Goals as somebody asks for them: one begins an episode, or is refused with the reason. Pure.

The goal that is being driven to, asked for again, is no new one: the drive goes on, with its times and its tries. So
who repeats a goal every second gets what who gives it once gets. One that is nearer to it than `SAME_M` is the same: by
so little the estimate of the robot's place moves a goal that stays where it is in another frame.

One that was long under way is refused: nobody may want it any more. How long, the quickest message of the same sender
tells (`onboard/drivers/dds/sender_clock.py`), so the first goal of a sender is always taken, and the first after a
silence of it. A
clock that was set back meanwhile looks the same, so the refusal names both.
"""

from __future__ import annotations

from dataclasses import replace

from onboard.config.config import Config
from onboard.navigation import mission, start_frame
from onboard.policy import decision
from onboard.safety import recovery
from onboard.state import RobotState
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import distance
from onboard.values.messages import GoalRequest, Inputs, Pose

SAME_M = 0.05
LATE_NS = 5 * NS_PER_S
"""A goal that came later than this is refused: longer than a radio takes to send again what it lost."""


def judge(state: RobotState, request: GoalRequest, inputs: Inputs, config: Config) -> tuple[RobotState, str]:
    """Return the state at the start of an episode and "", or that after a refusal and its reason."""
    try:
        return begin(state, request, inputs, config), ""
    except InputError as error:
        return replace(state, mission=mission.refuse(state.mission, str(error), inputs.now_ns)), str(error)


def begin(state: RobotState, request: GoalRequest, inputs: Inputs, config: Config) -> RobotState:
    """Return the state at the start of an episode, which replaces one under way. Raises InputError: why not."""
    late_ns = inputs.now_ns - request.arrival_ns
    if late_ns > LATE_NS:
        late = f"it came {late_ns / NS_PER_S:.1f} s late, or its clock was set back"
        raise InputError(f"{late}; at most {LATE_NS // NS_PER_S} s are taken")
    if inputs.e_stop:
        raise InputError("the e-stop is pressed")
    if state.limits.pressed:
        raise InputError("the e-stop has only just been released")
    if state.wheels.stamp_ns is None:
        raise InputError("there is no odometry yet")
    if is_repeated(state, request, config):
        return state
    began = start_frame.begin(state.wheels, state.localization)
    goal = start_frame.goal_in_start(request, began, state.wheels, state.localization, config.goal, config.dds)
    return replace(
        state,
        mission=mission.accept(state.mission, goal, inputs.now_ns),
        start=began,
        pilot=decision.begin(state.pilot),
        recovery=recovery.renewed(state.recovery),
    )


def is_repeated(state: RobotState, request: GoalRequest, config: Config) -> bool:
    """Return whether a goal is the one under way. Raises InputError: it is no goal."""
    known = state.mission.goal_xy_m
    if not state.mission.driving or state.start is None or known is None:
        return False
    asked = start_frame.goal_in_start(request, state.start, state.wheels, state.localization, config.goal, config.dds)
    return distance(Pose(*asked, 0.0), Pose(*known, 0.0)) <= SAME_M
