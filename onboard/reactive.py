"""`reactive`: a dynamic-window choice among the 28 actions, for driving without a trained network.

Every decision rolls the 28 actions forward with the motion model, from where the robot will be when the decision takes
effect, each followed by braking and by each of the 28 once more. Actions that cannot stop clear of the scan are out;
the others are ranked by the time to the goal that is left at the end of their best sequel, read from the cost to go in
a 24 m window of obstacles remembered for at most two minutes (`onboard/local_map.py`). So it is reactive with a short
memory: what it never saw counts as free, and it turns back when that proves wrong.

What it is not: it has no map of the building, does not explore with a purpose, sees no colour and does not learn. It
may wander where the way in leads away from the goal for long, or where a dead end is larger than the window. Moving
obstacles stand still for it. The scan is taken as of now: 70 ms of its age are within the distances kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard.config import GoalSection, RatesSection, RobotSection
from onboard.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.local_map import (
    CELL_M,
    HIDDEN_M,
    SIDE,
    LocalMap,
    cost_to_go,
    empty_map,
    observed,
    obstacles,
    recentred,
    sample,
)
from onboard.messages import BINS, Decision, Memory, Motion, Observation, Twist
from onboard.motion import Plant
from onboard.rollout import clearances, roll_out

Floats = npt.NDArray[np.float64]

COMMANDS: Floats = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
BIN_CENTERS_RAD: Floats = np.deg2rad(-180.0 + (np.arange(BINS) + 0.5) * 360.0 / BINS)

TAIL_S = 0.43
"""How long the action after this one is looked at."""
STRIDE = 3
"""States of a path between two that are held against the obstacles: 10 cm at 1 m/s."""
STILL_MPS = 0.02
BRAKE_MAX_S = 3.0
"""Braking is rolled out until the base is this slow, from its top speed, or so long."""

KEEP_M = 0.07
"""An action is safe when it and the braking after it stay this far beyond the footprint from what is seen."""
REMEMBERED_KEEP_M = 0.03
"""The same from what is only remembered, and hangs too near to be seen or stands where no camera looks."""
COMFORT_M = 0.30
COMFORT_FROM_M = 1.0
"""Paths nearer to obstacles than the first beyond the footprint pay for it; less and less so from the second to the
goal, which may itself lie beside a wall."""
LOOK_M = 2.5
"""Obstacles farther away cannot be met by any sequel."""
BLIND_M = 0.10
"""Where no camera looks, something may stand at this distance beyond the footprint: nothing drives into it."""
AHEAD_RAD = 0.35
"""With no camera looking within this angle of straight ahead it stands and waits."""
SLACK_M = 0.005
"""Where stopping already comes nearer than an action may, others may come nearer than that by so much."""

SPEED_MPS = 0.8
TURN_S_PER_RAD = 0.4
TURN_LEAD_S = 0.12
COMFORT_S = 1.5
OVERSHOOT_S_PER_M = 6.0
NEAR_M = 0.3
SOON = 0.15
LINGER_S = 0.3
STEER_S_PER_RADPS = 0.03
"""How time is counted: the way left at SPEED_MPS, the turn towards it, discomfort, and what braking would overshoot.
Within NEAR_M of the goal its direction counts less and less. SOON weighs the time left after the action itself, so that
what helps is done first; standing still elsewhere than at the goal costs LINGER_S; of two actions as good,
STEER_S_PER_RADPS takes the straighter."""

ARRIVE_M = 0.07
SETTLE_M = 0.10
LEAVE_M = 0.14
NEARER_M = 0.02
REST_MPS = 0.05
"""Stops when it would come to rest within ARRIVE_M (already standing: within SETTLE_M) of the goal, and the best action
would come to rest no nearer by NEARER_M. Then it stays stopped while within LEAVE_M. Scaled down for a tolerance below
TOLERANCE_M."""
TOLERANCE_M = 0.2

UNSAFE = -1e6
ARRIVED = 1e6
"""Scores beyond any time."""

HEADER = 7
RATE_MATCH = (0.15, 0.6)
"""The rates of speed foretold by the last decision are believed while the speeds [m/s, rad/s] come out this near."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """What the memory holds: the window, whether it stands at the goal, and (v, w, dv, dw) foretold for now."""

    window: LocalMap
    arrived: bool
    foretold: tuple[float, float, float, float]


def pack(recollection: Recollection) -> Memory:
    """Return (HEADER + SIDE * SIDE,) float32."""
    window = recollection.window
    header = [*window.corner, float(recollection.arrived), *recollection.foretold]
    return np.concatenate([np.asarray(header, np.float32), window.evidence.ravel()])


def unpack(memory: Memory) -> Recollection:
    """Return what `pack` packed."""
    header = [float(part) for part in memory[:HEADER]]
    window = LocalMap((int(header[0]), int(header[1])), memory[HEADER:].reshape(SIDE, SIDE))
    return Recollection(window, header[2] > 0.0, (header[3], header[4], header[5], header[6]))


class ReactivePolicy:
    """Drives to the goal by the scan and a short memory; implements `interfaces.Policy`.

    memory_reset_s: None, its memory ages by itself and needs no reset from outside
    """

    name = "reactive"
    memory_reset_s: float | None = None

    def __init__(
        self,
        plant: Plant,
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
    ) -> None:
        robot, rates, goal = robot or RobotSection(), rates or RatesSection(), goal or GoalSection()
        self._linear, self._angular = plant.linear.as_array(), plant.angular.as_array()
        self._radius_m = robot.footprint_radius_m
        self._dt_s = 1.0 / rates.control_hz
        self._ticks = rates.ticks_per_decision
        self._delay = rates.delay_ticks + round(plant.base.command_delay_s * rates.control_hz)
        self._tail = max(1, round(TAIL_S * rates.control_hz))
        self._brake, self._brake_s = self._braking(plant.linear.speed_max, round(BRAKE_MAX_S * rates.control_hz))
        scale = min(1.0, goal.tolerance_m / TOLERANCE_M)
        self._arrive_m, self._settle_m, self._leave_m = scale * ARRIVE_M, scale * SETTLE_M, scale * LEAVE_M

    def initial_memory(self) -> Memory:
        """Return the memory of one who has seen nothing."""
        return pack(Recollection(empty_map(), False, (0.0, 0.0, 0.0, 0.0)))

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action and the memory with this scan in it. Logits are minus the time left [s], roughly."""
        past = unpack(memory)
        pose = observation.filtered.pose
        window = observed(recentred(past.window, pose), pose, observation.scan, self._radius_m)
        start = _present(observation.filtered, past)
        held = STOP_ACTION if observation.previous_action == NO_ACTION else observation.previous_action
        if self._delay > 0:
            start = self._roll(start[None], COMMANDS[[held]], self._delay)[0, -1]
        first = self._roll(np.tile(start, (len(COMMANDS), 1)), COMMANDS, self._ticks)
        brake = self._roll(first[:, -1], np.zeros_like(COMMANDS), self._brake)
        scores = self._scores(observation, window, first, brake)
        left_m = np.hypot(*(brake[:, -1, :2] - observation.goal_xy_m).T)
        arrived = self._arrives(left_m, int(np.argmax(scores)), past.arrived, observation.filtered.twist)
        if arrived or not observation.scan.seen[np.abs(BIN_CENTERS_RAD) < AHEAD_RAD].any():
            scores[STOP_ACTION] = ARRIVED
        action = int(np.argmax(scores))
        v, w, dv, dw = (float(part) for part in first[action, max(0, self._ticks - self._delay - 1), 3:])
        kept = Recollection(window, arrived, (v, w, dv, dw))
        return Decision(action, scores.astype(np.float32)), pack(kept)

    def close(self) -> None:
        """Nothing to release."""

    def _roll(self, starts: Floats, commands: Floats, ticks: int) -> Floats:
        return np.asarray(roll_out(starts, commands, self._linear, self._angular, ticks, self._dt_s))

    def _braking(self, speed_mps: float, ticks: int) -> tuple[int, float]:
        """Return the ticks to come to rest from a speed, and the way of that in seconds at that speed."""
        start = np.array([[0.0, 0.0, 0.0, speed_mps, 0.0, 0.0, 0.0]])
        path = self._roll(start, COMMANDS[[STOP_ACTION]], ticks)[0]
        moving = np.flatnonzero(np.abs(path[:, 3]) > STILL_MPS)
        return int(moving[-1]) + 2 if len(moving) else 1, float(path[-1, 0]) / max(speed_mps, STILL_MPS)

    def _arrives(self, left_m: Floats, best: int, arrived: bool, twist: Twist) -> bool:
        """Return whether to stop for good, from the distance to the goal at which each action would come to rest."""
        if arrived:
            return bool(left_m[STOP_ACTION] <= self._leave_m)
        near_m = self._settle_m if abs(twist.v_mps) < REST_MPS else self._arrive_m
        return bool(left_m[STOP_ACTION] <= min(near_m, left_m[best] + NEARER_M))

    def _scores(self, observation: Observation, window: LocalMap, first: Floats, brake: Floats) -> Floats:
        """Return (28,): minus the time left after each action's best sequel; twice UNSAFE where it cannot stop."""
        seen, unseen = _obstacle_points(observation, window, self._radius_m + BLIND_M)
        path = np.concatenate([first, brake], axis=1)
        seen_m, unseen_m = clearances(path, seen, STRIDE), clearances(path, unseen, STRIDE)
        keep_m = _at_least(self._radius_m + KEEP_M, seen_m)
        unseen_keep_m = _at_least(self._radius_m + REMEMBERED_KEEP_M, unseen_m)
        safe = (seen_m >= keep_m) & (unseen_m >= unseen_keep_m)

        count = len(COMMANDS)
        tails = self._roll(np.repeat(first[:, -1], count, axis=0), np.tile(COMMANDS, (count, 1)), self._tail)
        tail_m = np.minimum(clearances(tails, seen, STRIDE), np.repeat(clearances(first, seen, STRIDE), count))
        discomfort = np.clip((self._radius_m + COMFORT_M - tail_m) / COMFORT_M, 0.0, 1.0)
        cost = cost_to_go(window, observation.goal_xy_m, self._radius_m)
        corner, goal = np.array(window.corner, dtype=np.float64), np.array(observation.goal_xy_m)
        weight_s = COMFORT_S * min(1.0, float(np.hypot(*(first[STOP_ACTION, 0, :2] - goal))) / COMFORT_FROM_M)
        time_s = _time_left(tails[:, -1], cost, corner, goal, self._brake_s) + weight_s * discomfort**2
        time_s[(tail_m < keep_m) | (clearances(tails, unseen, STRIDE) < unseen_keep_m)] = -UNSAFE

        best_s = time_s.reshape(count, count).min(axis=1)
        best_s += SOON * _time_left(first[:, -1], cost, corner, goal, self._brake_s)
        best_s += STEER_S_PER_RADPS * np.abs(COMMANDS[:, 1])
        best_s[STOP_ACTION] += LINGER_S
        return np.where(safe, -best_s, 2.0 * UNSAFE)


def _present(filtered: Motion, past: Recollection) -> Floats:
    """Return the state now; the rates of speed, which nobody measures, as the last decision foretold them."""
    v, w = filtered.twist.v_mps, filtered.twist.w_radps
    foretold_v, foretold_w, dv, dw = past.foretold
    dv = dv if abs(v - foretold_v) < RATE_MATCH[0] else 0.0
    dw = dw if abs(w - foretold_w) < RATE_MATCH[1] else 0.0
    pose = filtered.pose
    return np.array([pose.x_m, pose.y_m, pose.yaw_rad, v, w, dv, dw])


def _at_least(keep_m: float, clear_m: Floats) -> float:
    """Return the distance to keep: as asked, or, where even stopping comes nearer, no nearer than stopping does."""
    return min(keep_m, float(clear_m[STOP_ACTION]) - SLACK_M)


def _obstacle_points(observation: Observation, window: LocalMap, blind_m: float) -> tuple[Floats, Floats]:
    """Return what the scan sees, and what may stand where it does not look, as points (k, 2) in the start frame."""
    scan, pose = observation.scan, observation.filtered.pose
    ranges = scan.ranges_m.astype(np.float64)
    looked = scan.seen & (ranges < LOOK_M)
    seen = _points(observation, BIN_CENTERS_RAD[looked], ranges[looked])
    guarded = _points(observation, BIN_CENTERS_RAD[~scan.seen], np.full(int((~scan.seen).sum()), blind_m))
    remembered = obstacles(window, pose, LOOK_M)
    azimuth = np.arctan2(remembered[:, 1] - pose.y_m, remembered[:, 0] - pose.x_m) - pose.yaw_rad
    bins = np.floor((azimuth + math.pi) / (2.0 * math.pi / BINS)).astype(int) % BINS
    near = np.hypot(remembered[:, 0] - pose.x_m, remembered[:, 1] - pose.y_m) < HIDDEN_M
    return seen, np.concatenate([guarded, remembered[near | ~scan.seen[bins]]])


def _points(observation: Observation, azimuth_rad: Floats, range_m: Floats) -> Floats:
    pose = observation.filtered.pose
    angle = azimuth_rad + pose.yaw_rad
    return np.stack([pose.x_m + range_m * np.cos(angle), pose.y_m + range_m * np.sin(angle)], axis=1)


@njit(cache=True, nogil=True)
def _time_left(
    ends: Floats, cost: Floats, corner: Floats, goal: Floats, brake_s: float
) -> Floats:  # pragma: no cover - compiled
    """Return (n,): seconds from each end state to the goal, by its cost to go, heading and speed."""
    time_s = np.empty(ends.shape[0])
    for n in range(ends.shape[0]):
        x, y, yaw, v, w = ends[n, 0], ends[n, 1], ends[n, 2], ends[n, 3], ends[n, 4]
        way_m, di, dj = sample(cost, x / CELL_M - corner[0] - 0.5, y / CELL_M - corner[1] - 0.5)
        goal_m = math.hypot(goal[0] - x, goal[1] - y)
        if goal_m < NEAR_M:
            way_m, di, dj = goal_m, x - goal[0], y - goal[1]
        heading = yaw + w * TURN_LEAD_S
        turn = abs((math.atan2(-dj, -di) - heading + math.pi) % (2.0 * math.pi) - math.pi)
        overshoot_m = max(0.0, v * brake_s - way_m)
        time_s[n] = (
            way_m / SPEED_MPS + TURN_S_PER_RAD * turn * min(1.0, way_m / NEAR_M) ** 2 + OVERSHOOT_S_PER_M * overshoot_m
        )
    return time_s
