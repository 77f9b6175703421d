"""`reactive`: a dynamic-window choice among the 28 actions, for driving without a trained network.

Each of the 28 actions is rolled out from the robot's pose at the time when the decision takes effect
(`onboard/policy/dwa/trajectories.py`). Braking follows, and in a second rollout each action again (the sequels).
Actions that cannot stop clear of obstacles are unsafe. The others are ranked by the time to the goal after their best
sequel. All share one frame. `DynamicWindow` gets its cost to go from the caller; for `reactive` it comes from a
40 m costmap of obstacles remembered for at most two minutes (`onboard/policy/dwa/costmap.py`). Unknown space counts as
free, and the policy turns back when that proves wrong.

A polygon chooses only actions that lead where a camera looks, as the limits leave the turn of others (R12), and the
corners of a polygon need room to turn. Where it can only stand, it asks for the turn to its path.

Limits: the policy has no map, does not explore, sees no colour and does not learn. It may wander if the path leads away
from the goal for long, or if a dead end is larger than the window. It treats moving obstacles as static. It takes the
scan as current: the clearances cover 70 ms of age.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import GoalSection, RatesSection, RobotSection
from onboard.config.plant_model import Plant
from onboard.perception import collision
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.policy.dwa.cost_to_go import STEEP, CostField, downhill, sample
from onboard.policy.dwa.costmap import (
    CAPACITY,
    EMPTY,
    LocalMap,
    WayFinder,
    blind_ahead,
    observed,
    obstacle_points,
    seen_or_known,
)
from onboard.policy.dwa.failed_gaps import NUMBERS, failures_of, patience_of
from onboard.policy.dwa.trajectories import COMMANDS, COUNT, Fan, Horizon, Margins, look_ahead, rim_of, roll_out
from onboard.values.kernel import kernel
from onboard.values.messages import STOP, Decision, Memory, Motion, Observation, Scan, Twist

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

TURN_RADPS = 1.0
"""A polygon turns in place at most this fast: the limits slow it in narrow places and beside blind sectors (R25)."""
LEFT, RIGHT = (ACTIONS.index(Twist(0.0, w_radps)) for w_radps in (TURN_RADPS, -TURN_RADPS))
TAIL_S = 0.43
"""Duration of a sequel."""
STILL_MPS = 0.02
BRAKE_MAX_S = 3.0
"""Braking is rolled out from the top speed until the base is this slow, or for this long."""

KEEP_M = 0.055
"""Clearance beyond the footprint that a safe action and its braking keep from visible obstacles."""
REMEMBERED_KEEP_M = 0.03
"""The same for remembered or known obstacles that are not visible now."""
COMFORT_M = 0.30
COMFORT_FROM_M = 1.0
"""A clearance below the first costs time. Nearer to the goal than the second this cost falls to zero, as a goal may lie
beside a wall."""

SPEED_MPS = 0.8
TURN_S_PER_RAD = 0.4
TURN_LEAD_S = 0.12
COMFORT_S = 1.5
OVERSHOOT_S_PER_M = 6.0
NEAR_M = 0.3
SOON = 0.15
LINGER_S = 0.3
STEER_S_PER_RADPS = 0.03
"""Terms of the score, in seconds: the remaining path at SPEED_MPS, the turn towards it, discomfort, and overshoot of
braking. Within NEAR_M of the goal the turn counts less and less. SOON weighs the time left after the action itself, to
prefer early progress. Standing away from the goal costs LINGER_S. STEER_S_PER_RADPS prefers the straighter of two
equal actions."""

ARRIVE_M = 0.07
SETTLE_M = 0.10
LEAVE_M = 0.14
NEARER_M = 0.02
REST_MPS = 0.05
"""The policy stops if it comes to rest within ARRIVE_M of the goal (at rest: SETTLE_M) and no action gets NEARER_M
nearer. It stays stopped within LEAVE_M. All are scaled down for a tolerance below TOLERANCE_M."""
TOLERANCE_M = 0.2
MOST_TURNS, ABOUT = 9, 1.25
"""After so many decisions in place about the goal, half a turn, nothing gets nearer: the policy stops within the
tolerance. About it is within ABOUT tolerances: by noisy fixes a robot at the tolerance leaves it again and again."""
KEEP_TURN_S = 0.3
"""A polygon's turn in place goes on unless the other side is better by this."""

UNSAFE = -1e6
"""A score below any remaining time."""
STAND = 10.0
"""The score of a forced stop; all other scores are below 0."""
HELD = 0.0
"""The score of the turn of a polygon that no action brings on."""
RATE_MATCH = (0.15, 0.6)
"""Predicted accelerations are used while measured and predicted speeds [m/s, rad/s] differ by less than this."""


@dataclass(frozen=True, slots=True)
class Course:
    """State between decisions.

    arrived:   whether the robot stands at the goal
    predicted: v, w, dv, dw for the next decision
    turns:     decisions in place about the goal, since the robot last got nearer or left it
    """

    arrived: bool = False
    predicted: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    turns: int = 0

    def numbers(self) -> tuple[float, ...]:
        """Return the course as `COURSE_NUMBERS` numbers, for a policy's memory: turns are negative until arrival."""
        return (float(1 + self.turns if self.arrived else -self.turns), *self.predicted)


COURSE_NUMBERS = 5


def course_of(numbers: Memory) -> Course:
    """Return the course in a policy's memory."""
    first, v, w, dv, dw = numbers.tolist()
    return Course(first > 0.0, (v, w, dv, dw), round(first - 1.0 if first > 0.0 else -first))


class DynamicWindow:
    """The dynamic window of one robot: its plant, footprint, rates and goal tolerance.

    tolerance_m: of the goal
    inner_m, reach_m: radii about the base's origin of a circle in the footprint, and of a circle that holds it
    half_width_m:     of the narrowest passage through which it can drive
    """

    def __init__(
        self,
        plant: Plant,
        robot: RobotSection | None = None,
        rates: RatesSection | None = None,
        goal: GoalSection | None = None,
    ) -> None:
        robot, rates, goal = robot or RobotSection(), rates or RatesSection(), goal or GoalSection()
        footprint = robot.footprint
        self.inner_m, self.reach_m, self._rim = footprint.inner_m, footprint.reach_m, rim_of(footprint)
        self.half_width_m = footprint.half_width_m
        self._linear, self._angular = plant.linear.as_array(), plant.angular.as_array()
        self._dt_s = 1.0 / rates.control_hz
        self.patience = patience_of(rates.ticks_per_decision / rates.control_hz, plant.linear.speed_max)
        delay = rates.delay_ticks + round(plant.base.command_delay_s * rates.control_hz)
        top_mps = plant.linear.speed_max
        brake, way_m = self._braking(top_mps, round(BRAKE_MAX_S * rates.control_hz))
        self._brake_s = way_m / max(top_mps, STILL_MPS)
        self._delay_m = top_mps * delay * self._dt_s
        action, sequel = rates.ticks_per_decision, max(1, round(TAIL_S * rates.control_hz))
        reach_m = top_mps * action * self._dt_s + max(way_m, top_mps * sequel * self._dt_s)
        self._horizon = Horizon(delay, action, brake, sequel, max(0, action - delay - 1), self._dt_s, reach_m)
        radius_m = footprint.radius_m
        self._margins = Margins(radius_m + KEEP_M, radius_m + REMEMBERED_KEEP_M, radius_m + COMFORT_M)
        self._zone = footprint.grown(KEEP_M)
        spins = [not footprint.is_round and one.v_mps == 0.0 and abs(one.w_radps) > TURN_RADPS for one in ACTIONS]
        self._allowed, self._round, self.tolerance_m = ~np.array(spins), footprint.is_round, goal.tolerance_m
        scale = min(1.0, goal.tolerance_m / TOLERANCE_M)
        self._arrive_m, self._settle_m, self._leave_m = scale * ARRIVE_M, scale * SETTLE_M, scale * LEAVE_M

    @property
    def look_m(self) -> float:
        """Return the range in which obstacles matter [m]: no sequel reaches farther ones."""
        return self._delay_m + self._horizon.reach_m + self._margins.comfort + self._rim.reach_m

    def allowed(self, scan: Scan) -> Flags:
        """Return (28,) bool, the actions that the limits let through.

        Standing in the stop zone of an obstacle, the robot gets no nearer, however little (R9, R20). A polygon has no
        blind sector ahead (R12).
        """
        allowed = self._allowed & ~self._held(scan)
        if self._round:
            return allowed
        known = replace(scan, seen=seen_or_known(scan, self.reach_m))
        blind = [
            collision.view_sector(known, action, self.reach_m) is collision.SectorView.AHEAD_BLIND for action in ACTIONS
        ]
        seen: Flags = allowed & ~np.array(blind)
        return seen

    def _held(self, scan: Scan) -> Flags:
        """Return (28,) bool, the actions that lead nearer to an obstacle in whose stop zone the robot is."""
        within = scan.seen & (scan.ranges_m < self.reach_m + KEEP_M)
        if not within.any():
            return np.zeros(COUNT, np.bool_)
        points = collision.UNIT[within] * scan.ranges_m[within, np.newaxis].astype(np.float64)
        return np.array([collision.travel_m(points, action, self._zone) == 0.0 for action in ACTIONS])

    def look_ahead(
        self,
        motion: Motion,
        course: Course,
        previous_action: int,
        seen: Floats,
        known: Floats,
        allowed: Flags | None = None,
    ) -> Fan:
        """Return the rollouts of the actions from the current motion.

        allowed:     (28,) bool, the actions to choose from; None for all
        seen, known: (k, 2) visible obstacles, and known obstacles that are not visible now [m]
        """
        held = STOP_ACTION if previous_action == NO_ACTION else previous_action
        chosen = self._allowed if allowed is None else allowed
        axes, present = (self._linear, self._angular), _present(motion, course)
        fan: Fan = look_ahead(present, held, *axes, self._horizon, self._margins, self._rim, chosen, seen, known)
        return fan

    def decide(
        self,
        fan: Fan,
        field: CostField,
        goal_xy_m: tuple[float, float],
        motion: Motion,
        course: Course,
        wait: bool = False,
        previous_action: int = NO_ACTION,
    ) -> tuple[Decision, Course]:
        """Return the best action and the course for the next decision. Logits are about minus the remaining seconds.

        Actions that cannot stop clear have twice UNSAFE, actions without a clear sequel UNSAFE. The stop action has
        STAND at the goal, or with `wait`. A polygon that no action brings on asks for the turn to its path, with HELD:
        the limits hold it, and the recovery backs off along its path. Its turn in place keeps the side of
        `previous_action`.
        """
        x, y = goal_xy_m
        away_m = math.hypot(fan.places_m[0, 0] - x, fan.places_m[0, 1] - y)
        comfort_s = COMFORT_S * min(1.0, away_m / COMFORT_FROM_M)
        scores, left_m = _scores(
            fan, field.cost, field.corner_xy_m, field.cell_m, field.most_m,
            goal_xy_m, self._brake_s, self._margins.comfort, comfort_s,
        )  # fmt: skip
        action = int(np.argmax(scores)) if self._round else _kept_turn(scores, previous_action)
        about = away_m <= ABOUT * self.tolerance_m
        turns = course.turns if ACTIONS[action].v_mps == 0.0 and about else 0
        arrived = self._arrives(left_m[STOP_ACTION], left_m[action], course, turns, motion.twist.v_mps)
        if arrived or wait:
            action = STOP_ACTION
            scores[action] = STAND
        elif action == STOP_ACTION and not self._round and away_m > self.tolerance_m:
            action = _turn_towards(field, fan.places_m[0], motion.pose.yaw_rad)
            scores[action] = HELD
        v, w, dv, dw = fan.predicted[action].tolist()
        in_place = ACTIONS[action].v_mps == 0.0 and about
        return Decision(action, scores), Course(
            arrived, (v, w, dv, dw), turns + 1 if in_place and not arrived else turns
        )

    def _braking(self, speed_mps: float, ticks: int) -> tuple[int, float]:
        """Return ticks and distance [m] of braking to rest from a speed."""
        start = np.array([[0.0, 0.0, 0.0, speed_mps, 0.0, 0.0, 0.0]])
        path = roll_out(start, COMMANDS[[STOP_ACTION]], self._linear, self._angular, ticks, self._dt_s)[0]
        moving = np.flatnonzero(np.abs(path[:, 3]) > STILL_MPS)
        return int(moving[-1]) + 2 if len(moving) else 1, float(path[-1, 0])

    def _arrives(self, stopping_m: float, best_m: float, course: Course, turns: int, v_mps: float) -> bool:
        """Return whether to stop at the goal, by the distances at rest after a stop and after the best action."""
        if turns >= MOST_TURNS:
            return bool(stopping_m <= self.tolerance_m)
        if course.arrived:
            return bool(stopping_m <= self._leave_m)
        near_m = self._settle_m if abs(v_mps) < REST_MPS else self._arrive_m
        return bool(stopping_m <= min(near_m, best_m + NEARER_M))


def _kept_turn(scores: Floats32, previous_action: int) -> int:
    """Return the best action. A turn in place after one to the other side gives way to a turn that is hardly worse."""
    best = int(np.argmax(scores))
    before, chosen = STOP if previous_action == NO_ACTION else ACTIONS[previous_action], ACTIONS[best]
    if before.v_mps != 0.0 or chosen.v_mps != 0.0 or before.w_radps * chosen.w_radps >= 0.0:
        return best
    same = [n for n, one in enumerate(ACTIONS) if one.v_mps == 0.0 and one.w_radps * before.w_radps > 0.0]
    kept = max(same, key=lambda n: scores[n])
    return kept if scores[kept] > max(UNSAFE, scores[best] - KEEP_TURN_S) else best


def _turn_towards(field: CostField, place_m: Floats, yaw_rad: float) -> int:
    """Return the action that turns in place towards the path, at the rate that a polygon may have."""
    i, j = ((place_m[axis] - field.corner_xy_m[axis]) / field.cell_m - 0.5 for axis in (0, 1))
    _, di, dj = sample(field.cost, i, j, field.most_m)
    return LEFT if math.sin(math.atan2(-dj, -di) - yaw_rad) > 0.0 else RIGHT


def _present(motion: Motion, course: Course) -> Floats:
    """Return (7,) the current state; accelerations are not measured and come from the last prediction."""
    v, w = motion.twist.v_mps, motion.twist.w_radps
    predicted_v, predicted_w, dv, dw = course.predicted
    dv = dv if abs(v - predicted_v) < RATE_MATCH[0] else 0.0
    dw = dw if abs(w - predicted_w) < RATE_MATCH[1] else 0.0
    pose = motion.pose
    return np.array([pose.x_m, pose.y_m, pose.yaw_rad, v, w, dv, dw])


@kernel
def _scores(
    fan: Fan, cost: Floats32, corner: tuple[float, float], cell_m: float, most_m: float,
    goal: tuple[float, float], brake_s: float, comfort_m: float, comfort_s: float,
) -> tuple[Floats32, Floats]:  # fmt: skip  # pragma: no cover - compiled
    """Return (28,) minus the time left after each action's best sequel, and (28,) the distance left after braking.

    Unsafe actions have a score of twice UNSAFE.
    """
    best_s = np.full(COUNT, -UNSAFE)
    for n in range(len(fan.firsts)):
        first = fan.firsts[n]
        discomfort = min(max((comfort_m - fan.near_m[n]) / COMFORT_M, 0.0), 1.0)
        paid_s = comfort_s * discomfort * discomfort
        enough_s = best_s[first] - paid_s
        time_s = _time_left(fan.sequels, n, cost, corner, cell_m, most_m, goal, brake_s, enough_s)
        best_s[first] = min(best_s[first], paid_s + time_s)
    for action in range(COUNT):
        if fan.safe[action]:
            time_s = _time_left(fan.ends, action, cost, corner, cell_m, most_m, goal, brake_s, math.inf)
            best_s[action] += SOON * time_s + STEER_S_PER_RADPS * abs(COMMANDS[action, 1])
        else:
            best_s[action] = -2.0 * UNSAFE
    best_s[STOP_ACTION] += LINGER_S
    left_m = np.hypot(fan.rest_m[:, 0] - goal[0], fan.rest_m[:, 1] - goal[1])
    return (-best_s).astype(np.float32), left_m


@kernel
def _time_left(
    ends: Floats, n: int, cost: Floats32, corner: tuple[float, float], cell_m: float, most_m: float,
    goal: tuple[float, float], brake_s: float, enough_s: float,
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Return the time from an end state to the goal [s] by cost to go, heading and speed; inf above `enough_s`."""
    x, y, yaw, v, w = ends[n, 0], ends[n, 1], ends[n, 2], ends[n, 3], ends[n, 4]
    way_m, di, dj = downhill(
        cost, (x - corner[0]) / cell_m - 0.5, (y - corner[1]) / cell_m - 0.5, most_m, STEEP * cell_m
    )
    goal_m = math.sqrt((goal[0] - x) ** 2 + (goal[1] - y) ** 2)
    if goal_m < NEAR_M:
        way_m, di, dj = goal_m, x - goal[0], y - goal[1]
    time_s = way_m / SPEED_MPS + OVERSHOOT_S_PER_M * max(0.0, v * brake_s - way_m)
    if time_s > enough_s:
        return math.inf
    turn = math.atan2(-dj, -di) - yaw - w * TURN_LEAD_S
    turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
    near = min(1.0, way_m / NEAR_M)
    return float(time_s + TURN_S_PER_RAD * abs(turn) * near * near)


# ---- The policy's memory, packed into the array that the runtime keeps

HEADER = 1 + COURSE_NUMBERS
"""Numbers before the cells: their count, and the course."""
CELL = 3
FAILED = HEADER + CELL * CAPACITY
"""The failures are behind the cells; memories in older recordings have none."""


def pack(known: LocalMap, course: Course) -> Memory:
    """Return (FAILED + NUMBERS,) float32."""
    memory = np.zeros(FAILED + NUMBERS, np.float32)
    count = len(known.cells)
    memory[0], memory[1:HEADER], memory[FAILED:] = count, course.numbers(), known.failures.numbers()
    memory[HEADER : HEADER + CELL * count] = known.cells.ravel()
    return memory


def unpack(memory: Memory) -> tuple[LocalMap, Course]:
    """Return what `pack` packed."""
    cells = memory[HEADER : HEADER + CELL * int(memory[0])].reshape(-1, CELL)
    return LocalMap(cells, failures_of(memory[FAILED:])), course_of(memory[1:HEADER])


class ReactivePolicy:
    """Drives to the goal by the scan and a short memory; implements `interfaces.Policy`.

    memory_reset_s: None, as the memory ages by itself and needs no reset
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
        self._window = DynamicWindow(plant, robot, rates, goal)
        self._way = WayFinder(self._window.half_width_m)

    def initial_memory(self) -> Memory:
        """Return an empty memory."""
        return pack(EMPTY, Course())

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the best action and the memory with this scan. Logits are about minus the remaining time [s]."""
        window, motion, goal = self._window, observation.filtered, observation.goal_xy_m
        scan, pose = observation.scan, motion.pose
        past, course = unpack(memory)
        known = observed(past, pose, scan, window.inner_m)
        seen, unseen = obstacle_points(scan, pose, known.centres(), window.look_m, window.reach_m)
        fan = window.look_ahead(motion, course, observation.previous_action, seen, unseen, window.allowed(scan))
        field = self._way.cost_to_go(known, pose, goal, fan.places_m)
        decision, course = window.decide(
            fan, field, goal, motion, course, blind_ahead(scan), observation.previous_action
        )
        failures = known.failures.after(pose, goal, field, window.tolerance_m, window.patience)
        return decision, pack(replace(known, failures=failures), course)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
