"""The state machine of one goal: idle, navigating, recovering, reached, stopped(reason). Pure; time is an argument.

    idle / reached / stopped --goal accepted--> navigating
    navigating <--recovery begins / ends--> recovering
    navigating --own stop, at rest, within tolerance--> reached
    navigating / recovering --fault, time-out, gave up--> stopped(reason)
    navigating / recovering --cancel--> idle
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from onboard.config import GoalSection
from onboard.contract import NO_ACTION, STOP_ACTION
from onboard.messages import Pose, Twist
from onboard.scheduler import NS_PER_S


class State(str, Enum):
    """What the robot is doing."""

    IDLE = "idle"
    NAVIGATING = "navigating"
    RECOVERING = "recovering"
    REACHED = "reached"
    STOPPED = "stopped"


DRIVING = (State.NAVIGATING, State.RECOVERING)


@dataclass(frozen=True, slots=True)
class Mission:
    """Where the current goal stands.

    reason:      why the state is what it is; shown after the state
    goal_xy_m:   the static goal in the start frame; None when idle from the start
    episode:     counts accepted goals
    started_ns:  when the goal was accepted, monotonic
    stops:       stop actions in a row
    stopped_since_ns: when the robot came to rest by its own stop, None while it has not
    """

    state: State = State.IDLE
    reason: str = ""
    goal_xy_m: tuple[float, float] | None = None
    episode: int = 0
    started_ns: int = 0
    stops: int = 0
    stopped_since_ns: int | None = None

    @property
    def driving(self) -> bool:
        """True while a goal is being driven to."""
        return self.state in DRIVING

    def text(self) -> str:
        """Return the state as `/onboard/state` shows it: "navigating" or "stopped: e_stop"."""
        return f"{self.state.value}: {self.reason}" if self.reason else self.state.value


def accept(mission: Mission, goal_xy_m: tuple[float, float], now_ns: int) -> Mission:
    """Return the mission with a new goal, which replaces an older one."""
    return Mission(State.NAVIGATING, "", goal_xy_m, mission.episode + 1, now_ns)


def refuse(mission: Mission, reason: str) -> Mission:
    """Return the mission after a goal was refused: the old goal goes on; otherwise the refusal is the reason."""
    if mission.driving:
        return replace(mission, reason=f"goal refused: {reason}")
    return replace(mission, state=State.STOPPED, reason=f"goal refused: {reason}")


def cancel(mission: Mission) -> Mission:
    """Return the mission after `/onboard/cancel`."""
    return replace(mission, state=State.IDLE, reason="cancelled") if mission.driving else mission


def stop(mission: Mission, reason: str) -> Mission:
    """Return the mission ended with a reason; one that does not drive keeps its own end."""
    return replace(mission, state=State.STOPPED, reason=reason) if mission.driving else mission


def recovering(mission: Mission, active: bool) -> Mission:
    """Return the mission with the recovery begun or ended."""
    if mission.driving and active != (mission.state is State.RECOVERING):
        return replace(mission, state=State.RECOVERING if active else State.NAVIGATING, stops=0, stopped_since_ns=None)
    return mission


def note_action(mission: Mission, action: int) -> Mission:
    """Return the mission after a decision took effect: stop actions in a row are counted."""
    if action == NO_ACTION:
        return mission
    return replace(mission, stops=mission.stops + 1 if action == STOP_ACTION else 0)


def judge(mission: Mission, filtered: Pose, measured: Twist, section: GoalSection, now_ns: int) -> Mission:
    """Return the mission after looking whether it has ended by the robot's own stop or by time.

    Reached: the stop action held `rest_decisions` times, at rest, within tolerance of the goal by the filtered pose
    in the start frame. Stopped elsewhere for `stop_short_s`: the policy gave up, and the distance is the reason.
    """
    if mission.state is not State.NAVIGATING or mission.goal_xy_m is None:
        return mission
    if now_ns - mission.started_ns > section.timeout_s * NS_PER_S:
        return stop(mission, f"goal not reached within {section.timeout_s:g} s")
    at_rest = abs(measured.v_mps) <= section.rest_mps and abs(measured.w_radps) <= section.rest_radps
    if mission.stops < section.rest_decisions or not at_rest:
        return replace(mission, stopped_since_ns=None)
    distance_m = math.hypot(mission.goal_xy_m[0] - filtered.x_m, mission.goal_xy_m[1] - filtered.y_m)
    if distance_m <= section.tolerance_m:
        return replace(mission, state=State.REACHED, reason="")
    since_ns = now_ns if mission.stopped_since_ns is None else mission.stopped_since_ns
    if now_ns - since_ns > section.stop_short_s * NS_PER_S:
        return stop(mission, f"the policy stopped {distance_m:.2f} m from the goal")
    return replace(mission, stopped_since_ns=since_ns)
