"""Rollouts of the 28 actions, of the braking after each and of its 28 sequels, with their clearance from obstacles.

Linear and angular speed respond independently (`onboard/config/plant_model.py`). So 4 and 7 speed profiles make up the
28 actions, and 16 and 49 the 784 sequels. Only the positions are summed up for each.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onboard.config.footprint import Footprint
from onboard.config.plant_model import Axis, MotionState, Plant, step, step_axis
from onboard.policy.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS, STOP_ACTION
from onboard.values.kernel import kernel
from onboard.values.messages import Pose, Twist

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

# ---- A distance field: exact distances to obstacles on a fine grid around the robot, interpolated in between. At a
# footprint's distance from an obstacle the error is a millimetre; midway between two it is larger.

GRID_M = 0.05
MARGIN_M = 2.0 * GRID_M
"""Distances are entered this much farther than requested, so that interpolation is not cut off."""


class Clearance(NamedTuple):
    """distance_m[i, j] is the distance from corner + (i, j) * GRID_M to the nearest obstacle [m], at most `most_m`."""

    distance_m: Floats32
    corner_x_m: float
    corner_y_m: float
    most_m: float


RIM_M = 0.02
"""Spacing of the points on a polygon's edges."""
ROUND_STRIDE, CORNER_STRIDE = 3, 1
"""Every so many states of a path are checked: for a circle each 10 cm at 1 m/s. A corner sweeps farther in a turn."""


class Rim(NamedTuple):
    """The points of a footprint from which distances count.

    points_m: (n, 2) in the base frame: the edges of a polygon, or the centre of a circle
    inner_m, reach_m: radii about the centre of a circle inside the points, and of a circle that holds them
    stride:   every so many states of a path are checked
    """

    points_m: Floats
    inner_m: float
    reach_m: float
    stride: int


def rim_of(footprint: Footprint) -> Rim:
    """Return the rim of a footprint."""
    if footprint.is_round:
        return Rim(np.zeros((1, 2)), 0.0, 0.0, ROUND_STRIDE)
    corners = footprint.outline_m()
    points = [
        start + (end - start) * part
        for start, end in pairwise(corners)
        for part in np.linspace(0.0, 1.0, math.ceil(math.dist(start, end) / RIM_M), endpoint=False)
    ]
    return Rim(np.array(points), footprint.inner_m, footprint.reach_m, CORNER_STRIDE)


@kernel
def clearance_about(
    points: Floats, x_m: float, y_m: float, reach_m: float, far_m: float
) -> Clearance:  # pragma: no cover - compiled
    """Return the distances to points (k, 2), valid up to `far_m`, in a square of `reach_m` to all sides of (x, y).

    Each point is entered into the cells around it, row by row.
    """
    far_m += MARGIN_M
    half = math.ceil(reach_m / GRID_M) + 1
    side, corner_x_m, corner_y_m = 2 * half + 1, x_m - half * GRID_M, y_m - half * GRID_M
    squared = np.full((side, side), np.float32(far_m * far_m))
    along = (np.arange(side) * GRID_M).astype(np.float32)
    reach = far_m / GRID_M
    for k in range(len(points)):
        x, y = points[k, 0] - corner_x_m, points[k, 1] - corner_y_m
        i, j = x / GRID_M, y / GRID_M
        first, last = max(0, math.ceil(j - reach)), min(side, math.floor(j + reach) + 1)
        for row in range(max(0, math.ceil(i - reach)), min(side, math.floor(i + reach) + 1)):
            across, middle = np.float32((x - row * GRID_M) ** 2), np.float32(y)
            cells = squared[row]
            for column in range(first, last):
                offset = along[column] - middle
                cells[column] = min(cells[column], across + offset * offset)
    return Clearance(np.sqrt(squared), corner_x_m, corner_y_m, np.sqrt(np.float32(far_m * far_m)))


@kernel
def distance_at(clearance: Clearance, x_m: float, y_m: float) -> float:  # pragma: no cover - compiled
    """Return the distance at a position [m]: bilinear, or `most_m` where the grid's cell has it.

    Outside the square, the distance at the nearest edge.
    """
    most = clearance.distance_m.shape[0] - 1.001
    i = min(max((x_m - clearance.corner_x_m) / GRID_M, 0.0), most)
    j = min(max((y_m - clearance.corner_y_m) / GRID_M, 0.0), most)
    a, b = int(i), int(j)
    if clearance.distance_m[a, b] >= clearance.most_m:
        return float(clearance.most_m)
    p, q = i - a, j - b
    near = (1.0 - q) * clearance.distance_m[a, b] + q * clearance.distance_m[a, b + 1]
    far = (1.0 - q) * clearance.distance_m[a + 1, b] + q * clearance.distance_m[a + 1, b + 1]
    return float((1.0 - p) * near + p * far)


@kernel
def rim_distance(
    clearance: Clearance, x_m: float, y_m: float, cos: float, sin: float, rim: Rim
) -> float:  # pragma: no cover - compiled
    """Return the distance from a rim at a pose to the nearest obstacle [m], at most `most_m`; negative inside.

    The distance changes by at most the way between two points, so far points are skipped.
    """
    middle_m = distance_at(clearance, x_m, y_m)
    points = rim.points_m
    if len(points) == 1 or middle_m >= clearance.most_m:
        return middle_m
    if middle_m < rim.inner_m:
        return middle_m - rim.inner_m
    best_m, i = clearance.most_m, 0
    while i < len(points):
        dx, dy = cos * points[i, 0] - sin * points[i, 1], sin * points[i, 0] + cos * points[i, 1]
        here_m = distance_at(clearance, x_m + dx, y_m + dy)
        best_m = min(best_m, here_m)
        i += max(1, int((here_m - best_m) / RIM_M))
    return float(best_m)


# ---- Rollouts of many commands with the motion model

STATE = 7
"""Numbers in a state."""


@kernel
def roll_out(
    starts: Floats, commands: Floats, linear: Floats, angular: Floats, ticks: int, dt_s: float
) -> Floats:  # pragma: no cover - compiled
    """Return (n, ticks, 7): the state after every tick, command i (v, w) held from start i.

    starts: (n, 7); commands: (n, 2); linear, angular: the plant's axes as `Axis.as_array` gives them.
    """
    count = starts.shape[0]
    paths = np.empty((count, ticks, starts.shape[1]))
    for i in range(count):
        x, y, yaw, v, w, dv, dw = starts[i]
        for k in range(ticks):
            v, dv = step_axis(commands[i, 0], v, dv, linear, dt_s)
            w, dw = step_axis(commands[i, 1], w, dw, angular, dt_s)
            yaw += dt_s * w
            x += dt_s * v * math.cos(yaw)
            y += dt_s * v * math.sin(yaw)
            row = paths[i, k]
            row[0], row[1], row[2], row[3], row[4], row[5], row[6] = x, y, yaw, v, w, dv, dw
    return paths


def roll_out_definition(starts: Floats, commands: Floats, plant: Plant, ticks: int, dt_s: float) -> Floats:
    """Define `roll_out` by `motion.step`; here the yaw is wrapped."""
    paths = np.empty((len(starts), ticks, STATE))
    for i, (start, command) in enumerate(zip(starts, commands, strict=True)):
        x, y, yaw, v, w, dv, dw = (float(part) for part in start)
        state = MotionState(Pose(x, y, yaw), Twist(v, w), dv, dw)
        for k in range(ticks):
            state = step(state, Twist(float(command[0]), float(command[1])), plant, dt_s)
            pose, twist = state.pose, state.twist
            paths[i, k] = (
                pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps, state.dv_mps2, state.dw_radps2,
            )  # fmt: skip
    return paths


@kernel
def roll_axis(
    starts: Floats, commands: Floats, axis: Floats, ticks: int, dt_s: float
) -> Floats:  # pragma: no cover - compiled
    """Return (s, c, ticks, 2): speed and rate of one axis after every tick, each command held from each start.

    starts: (s, 2) speed and rate; commands: (c,) speeds; axis: as `Axis.as_array` gives it
    """
    paths = np.empty((len(starts), len(commands), ticks, 2))
    for i in range(len(starts)):
        for j in range(len(commands)):
            speed, rate = starts[i, 0], starts[i, 1]
            for k in range(ticks):
                speed, rate = step_axis(commands[j], speed, rate, axis, dt_s)
                paths[i, j, k, 0], paths[i, j, k, 1] = speed, rate
    return paths


def roll_axis_definition(starts: Floats, commands: Floats, axis: Axis, ticks: int, dt_s: float) -> Floats:
    """Define `roll_axis` by the plain step of one axis."""
    step: Any = step_axis
    paths = np.empty((len(starts), len(commands), ticks, 2))
    for i, start in enumerate(starts):
        for j, command in enumerate(commands):
            speed, rate = float(start[0]), float(start[1])
            for k in range(ticks):
                speed, rate = step.py_func(float(command), speed, rate, axis.as_array(), dt_s)
                paths[i, j, k] = speed, rate
    return paths


Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COMMANDS: Floats = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
LINEAR: Floats = np.array(LINEAR_MPS)
ANGULAR: Floats = np.array(ANGULAR_RADPS)
ZERO: Floats = np.zeros(1)
COUNT = len(ACTIONS)

SLACK_M = 0.005
"""If even stopping comes too near, other actions may come this much nearer than stopping."""


class Horizon(NamedTuple):
    """Durations of the rollouts, in ticks.

    delay:    of the current command until the decision takes effect
    action, brake, sequel: of an action, the braking after it, and the action after it
    predicted: tick of the action after which the next decision senses
    dt_s:     duration of a tick
    reach_m:  the greatest distance of a path after the delay
    """

    delay: int
    action: int
    brake: int
    sequel: int
    predicted: int
    dt_s: float
    reach_m: float


class Margins(NamedTuple):
    """Distances from the footprint's rim [m].

    keep, keep_known: minimum clearance of an action and its braking from visible and from known obstacles
    comfort:          greatest clearance that matters
    """

    keep: float
    keep_known: float
    comfort: float


class Fan(NamedTuple):
    """Rollouts of the 28 actions, index as in `contract.ACTIONS`, and of their sequels.

    places_m: (1 + 28 + m, 2) the place where the decision takes effect, then the ends of actions and of sequels
    ends:     (28, 5) x, y, yaw, v, w after the action
    safe:     (28,) whether action and braking keep clear
    rest_m:   (28, 2) end of the braking
    predicted: (28, 4) v, w, dv, dw when the next decision senses
    sequels:  (m, 5) x, y, yaw, v, w after each clear sequel of a safe action
    firsts:   (m,) the action before each sequel
    near_m:   (m,) clearance of action and sequel from visible obstacles, valid up to the comfort margin
    """

    places_m: Floats
    ends: Floats
    safe: Flags
    rest_m: Floats
    predicted: Floats
    sequels: Floats
    firsts: Indices
    near_m: Floats


@kernel
def look_ahead(
    present: Floats, held: int, linear: Floats, angular: Floats, horizon: Horizon, margins: Margins, rim: Rim,
    allowed: Flags, seen: Floats, known: Floats,
) -> Fan:  # fmt: skip  # pragma: no cover - compiled
    """Return the rollouts of the actions.

    present:     (7,) the current state, as in `roll_out`
    held:        the action in force until the decision takes effect
    allowed:     (28,) actions to choose from; the stop action is one of them
    seen, known: (k, 2) visible obstacles, and known obstacles that are not visible now [m]
    """
    start = present.copy()
    if horizon.delay > 0:
        command = COMMANDS[held : held + 1]
        start = roll_out(start.reshape(1, -1), command, linear, angular, horizon.delay, horizon.dt_s)[0, -1].copy()
    about_seen = clearance_about(seen, start[0], start[1], horizon.reach_m + rim.reach_m, margins.comfort + rim.reach_m)
    about_known = clearance_about(
        known, start[0], start[1], horizon.reach_m + rim.reach_m, margins.keep_known + rim.reach_m
    )
    v = roll_axis(start[3::2].copy().reshape(1, 2), LINEAR, linear, horizon.action, horizon.dt_s)
    w = roll_axis(start[4::2].copy().reshape(1, 2), ANGULAR, angular, horizon.action, horizon.dt_s)
    after_v, after_w = v[0, :, -1].copy(), w[0, :, -1].copy()
    ends, near_m = _actions(start, v, w, horizon.dt_s, rim, about_seen, about_known)
    brake_v = roll_axis(after_v, ZERO, linear, horizon.brake, horizon.dt_s)
    brake_w = roll_axis(after_w, ZERO, angular, horizon.brake, horizon.dt_s)
    rest_m, safe, keep_m = _braking(
        ends, near_m, brake_v, brake_w, horizon.dt_s, margins, rim, allowed, about_seen, about_known
    )
    next_v = roll_axis(after_v, LINEAR, linear, horizon.sequel, horizon.dt_s)
    next_w = roll_axis(after_w, ANGULAR, angular, horizon.sequel, horizon.dt_s)
    sequels, firsts, sequels_near_m = _sequels(
        ends, safe, near_m, next_v, next_w, horizon.dt_s, keep_m, rim, allowed, about_seen, about_known
    )
    predicted = np.empty((COUNT, 4))
    for n in range(COUNT):
        predicted[n, 0::2] = v[0, n // len(ANGULAR), horizon.predicted]
        predicted[n, 1::2] = w[0, n % len(ANGULAR), horizon.predicted]
    places_m = np.concatenate((start[:2].copy().reshape(1, 2), ends[:, :2], sequels[:, :2]))
    return Fan(places_m, ends, safe, rest_m, predicted, sequels, firsts, sequels_near_m)


@kernel
def _actions(
    start: Floats, v: Floats, w: Floats, dt_s: float, rim: Rim, seen: Clearance, known: Clearance
) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Return (28, 5) the ends of the actions, and (28, 2) their clearances from visible and known obstacles."""
    yaw, facing = _headings(start[2:3], w, dt_s)
    ends, near_m = np.empty((COUNT, 5)), np.empty((COUNT, 2))
    for n in range(COUNT):
        a, b = n // len(ANGULAR), n % len(ANGULAR)
        x, y, near, near_known = _walk(start[0], start[1], v, 0, a, facing, 0, b, dt_s, rim, seen, known)
        ends[n, 0], ends[n, 1], ends[n, 2], ends[n, 3], ends[n, 4] = x, y, yaw[0, b], v[0, a, -1, 0], w[0, b, -1, 0]
        near_m[n, 0], near_m[n, 1] = near, near_known
    return ends, near_m


@kernel
def _braking(
    ends: Floats, near_m: Floats, v: Floats, w: Floats, dt_s: float, margins: Margins, rim: Rim,
    allowed: Flags, seen: Clearance, known: Clearance,
) -> tuple[Floats, Flags, tuple[float, float]]:  # fmt: skip  # pragma: no cover - compiled
    """Return (28, 2) ends of braking, (28,) whether safe, and the minimum clearances from both kinds of obstacles."""
    _, facing = _headings(ends[: len(ANGULAR), 2], w, dt_s)
    rest_m, path_m, safe = np.empty((COUNT, 2)), near_m.copy(), np.empty(COUNT, np.bool_)
    for n in range(COUNT):
        a, b = n // len(ANGULAR), n % len(ANGULAR)
        x, y, near, near_known = _walk(ends[n, 0], ends[n, 1], v, a, 0, facing, b, 0, dt_s, rim, seen, known)
        rest_m[n, 0], rest_m[n, 1] = x, y
        path_m[n, 0], path_m[n, 1] = min(path_m[n, 0], near), min(path_m[n, 1], near_known)
    keep_m = min(margins.keep, path_m[STOP_ACTION, 0] - SLACK_M)
    keep_known_m = min(margins.keep_known, path_m[STOP_ACTION, 1] - SLACK_M)
    for n in range(COUNT):
        safe[n] = path_m[n, 0] >= keep_m and path_m[n, 1] >= keep_known_m and allowed[n]
    return rest_m, safe, (keep_m, keep_known_m)


@kernel
def _sequels(
    starts: Floats, safe: Flags, before_m: Floats, v: Floats, w: Floats, dt_s: float, keep_m: tuple[float, float],
    rim: Rim, allowed: Flags, seen: Clearance, known: Clearance,
) -> tuple[Floats, Indices, Floats]:  # fmt: skip  # pragma: no cover - compiled
    """Return the clear sequels of safe actions: (m, 5) ends, (m,) actions before, (m,) clearances."""
    yaw, facing = _headings(starts[: len(ANGULAR), 2], w, dt_s)
    ends, firsts, near_m = np.empty((COUNT * COUNT, 5)), np.empty(COUNT * COUNT, np.int64), np.empty(COUNT * COUNT)
    count = 0
    for first in range(COUNT):
        if not safe[first]:
            continue
        a, b = first // len(ANGULAR), first % len(ANGULAR)
        for n in range(COUNT):
            if not allowed[n]:
                continue
            c, d = n // len(ANGULAR), n % len(ANGULAR)
            x, y, near, near_known = _walk(
                starts[first, 0], starts[first, 1], v, a, c, facing, b, d, dt_s, rim, seen, known
            )
            near = min(near, before_m[first, 0])
            if near >= keep_m[0] and near_known >= keep_m[1]:
                row = ends[count]
                row[0], row[1], row[2], row[3], row[4] = x, y, yaw[b, d], v[a, c, -1, 0], w[b, d, -1, 0]
                firsts[count], near_m[count] = first, near
                count += 1
    return ends[:count], firsts[:count], near_m[:count]


@kernel
def _headings(yaws_rad: Floats, w: Floats, dt_s: float) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Return (s, c) last yaw and (s, c, ticks, 2) cosine and sine of the yaw, turning with w (s, c, ticks, 2)."""
    last, facing = np.empty(w.shape[:2]), np.empty(w.shape)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            yaw = yaws_rad[i]
            for k in range(w.shape[2]):
                yaw += dt_s * w[i, j, k, 0]
                facing[i, j, k, 0], facing[i, j, k, 1] = math.cos(yaw), math.sin(yaw)
            last[i, j] = yaw
    return last, facing


@kernel
def _walk(
    x: float, y: float, v: Floats, a: int, c: int, facing: Floats, b: int, d: int, dt_s: float,
    rim: Rim, seen: Clearance, known: Clearance,
) -> tuple[float, float, float, float]:  # fmt: skip  # pragma: no cover - compiled
    """Return the end of a path and its clearance from both kinds of obstacles; every `rim.stride`-th state is checked.

    v[a, c]: (ticks, 2) speed and rate after every tick; facing[b, d]: (ticks, 2) cosine and sine of the heading
    """
    near, near_known, last = math.inf, math.inf, v.shape[2] - 1
    for k in range(last + 1):
        way = dt_s * v[a, c, k, 0]
        x += way * facing[b, d, k, 0]
        y += way * facing[b, d, k, 1]
        if k % rim.stride == rim.stride - 1 or k == last:
            c_k, s_k = facing[b, d, k, 0], facing[b, d, k, 1]
            near = min(near, rim_distance(seen, x, y, c_k, s_k, rim))
            near_known = min(near_known, rim_distance(known, x, y, c_k, s_k, rim))
    return x, y, near, near_known
