"""Goals as somebody asks for them: one begins an episode, or is refused with the reason. Pure."""

from __future__ import annotations

from dataclasses import replace

from onboard import mission, pilot, start
from onboard.config import Config
from onboard.errors import InputError
from onboard.messages import GoalRequest, Inputs
from onboard.recovery import RecoveryState
from onboard.robot import RobotState


def judge(state: RobotState, request: GoalRequest, inputs: Inputs, config: Config) -> tuple[RobotState, str]:
    """Return the state at the start of an episode and "", or that after a refusal and its reason."""
    try:
        return begin(state, request, inputs, config), ""
    except InputError as error:
        return replace(state, mission=mission.refuse(state.mission, str(error), inputs.now_ns)), str(error)


def begin(state: RobotState, request: GoalRequest, inputs: Inputs, config: Config) -> RobotState:
    """Return the state at the start of an episode, which replaces one under way. Raises InputError: why not."""
    if inputs.e_stop:
        raise InputError("the e-stop is pressed")
    if state.wheels.stamp_ns is None:
        raise InputError("there is no odometry yet")
    began = start.begin(state.wheels, state.localization)
    goal = start.goal_in_start(request, began, state.wheels, state.localization, config.goal, config.dds)
    return replace(
        state,
        mission=mission.accept(state.mission, goal, inputs.now_ns),
        start=began,
        pilot=pilot.begin(state.pilot),
        recovery=RecoveryState(),
    )
