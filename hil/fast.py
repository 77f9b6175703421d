"""A drive without processes or wire: truth, direct scan and a choice in one loop. For tests and tuning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.fast_drive import drive_fast
from hil.maps import World
from hil.render import cast_scan
from hil.routes import Episode
from hil.world import Body, SimState, Simulation
from onboard import scan
from onboard.config import ScanSection
from onboard.contract import ACTIONS, STOP_ACTION
from onboard.geometry import apply, between, inverse
from onboard.messages import Motion, Scan, Twist
from onboard.motion import Plant
from onboard.mounts import Mounts

__all__ = ["drive", "drive_fast"]

REACHED_M = 0.2
TICKS_PER_DECISION = 10
REST_DECISIONS = 2
"""So many decisions in a row must be a stop, with the body at rest, to end a drive."""
REST_MPS = 0.02
REST_RADPS = 0.05
DEFAULT_SCAN = ScanSection()
DEFAULT_BODY = Body()

Choose = Callable[[Scan, Motion, tuple[float, float]], int]
"""(scan, true motion in the start frame, goal in the start frame) -> action."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a drive ended.

    reached:    at rest by its own stop, truly within `REACHED_M` of the goal
    ended:      "stop", "contact" or "time"
    distance_m: true distance to the goal at the end
    trace:      (ticks + 1, 6) time [s], x, y, yaw in the map frame, v, w
    """

    reached: bool
    ended: str
    contacts: int
    time_s: float
    path_m: float
    distance_m: float
    trace: npt.NDArray[np.float64]


def looked_at(mounts: Mounts, section: ScanSection = DEFAULT_SCAN) -> npt.NDArray[np.bool_]:
    """Return (180,) bool: bins in which some depth camera looks, as the fusion judges it."""
    return np.asarray(np.logical_or.reduce([scan.looked_at(mount, section) for mount in mounts.depth.values()]))


def sense(world: World, state: SimState, seen: npt.NDArray[np.bool_]) -> Scan:
    """Return the direct scan at the true pose, blind where no camera looks."""
    ranges = cast_scan(world, state.pose)
    ranges[~seen] = np.inf
    return Scan(state.time_ns, ranges, seen)


def drive(
    world: World,
    episode: Episode,
    choose: Choose,
    plant: Plant,
    seen: npt.NDArray[np.bool_],
    body: Body = DEFAULT_BODY,
    delay_ticks: int = 3,
    max_s: float = 100.0,
    end_at_contact: bool = False,
) -> Outcome:
    """Return how a drive went: sense every tenth tick, act `delay_ticks` later, the command repeated at every tick.

    seen: bins that cameras look at, of `looked_at`
    """
    simulation = Simulation(world, plant, body)
    state = simulation.start(episode.start)
    goal_start = apply(inverse(episode.start), episode.goal_xy_m)
    trace = [_row(state)]
    command, chosen, stops = ACTIONS[STOP_ACTION], STOP_ACTION, 0
    ended, tick, sensed_tick = "", 0, 0
    max_ns = round(max_s * 1e9)
    while not ended:
        if tick % TICKS_PER_DECISION == 0:
            sensed_tick = tick
            motion = Motion(between(episode.start, state.pose), state.twist)
            chosen = choose(sense(world, state, seen), motion, goal_start)
            stops = stops + 1 if chosen == STOP_ACTION else 0
        if tick == sensed_tick + delay_ticks:
            command = ACTIONS[chosen]
        state = simulation.step(simulation.command(state, command))
        trace.append(_row(state))
        tick += 1
        if stops >= REST_DECISIONS and command == ACTIONS[STOP_ACTION] and _at_rest(state.twist):
            ended = "stop"
        elif end_at_contact and state.contacts:
            ended = "contact"
        elif state.time_ns >= max_ns:
            ended = "time"
    distance_m = math.hypot(state.pose.x_m - episode.goal_xy_m[0], state.pose.y_m - episode.goal_xy_m[1])
    reached = ended == "stop" and distance_m <= REACHED_M
    time_s = state.time_ns / 1e9
    return Outcome(reached, ended, state.contacts, time_s, state.path_m, distance_m, np.array(trace))


def _at_rest(twist: Twist) -> bool:
    return abs(twist.v_mps) < REST_MPS and abs(twist.w_radps) < REST_RADPS


def _row(state: SimState) -> tuple[float, float, float, float, float, float]:
    pose, twist = state.pose, state.twist
    return state.time_ns / 1e9, pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps
