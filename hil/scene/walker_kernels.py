"""The kernel that moves a crowd: along fixed paths, slower behind others, never into them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

TICK_S = 1.0 / 30.0
"""Upper limit of one step; longer times are split into steps."""
SLOW_M = 1.0
"""A character slows down if the gap to an obstacle in front is smaller than this."""
WAIT_M = 0.3
"""A character stops if the gap to an obstacle in front is smaller than this."""
TOUCH_M = 0.05
"""Least gap to another character after a step; only steps that increase the distance may end nearer."""
ROBOT_M = 0.3
"""Least gap to the robot after a step, with the same exception."""
BUMP_M = 0.02
"""A character that heeds nobody walks so far into the robot, which counts as a bump. Then the robot stops it."""
LANE_M = 0.1
"""Lateral margin of the lane in front of a character."""
WAITING = 0.1
"""Fraction of its speed below which a character counts as waiting."""
PATIENCE_S = 3.0
"""Waiting time after which a character reverses its direction."""
X, Y, ALONG, DIRECTION, WAITED = range(5)
STATE_COLUMNS = 5
SHAPE_RADIUS, SHAPE_HEIGHT, SHAPE_MATERIAL, SHAPE_SPEED = range(4)


@kernel
def stride(
    state: npt.NDArray[np.float64], corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64], shape: npt.NDArray[np.float64], dt_s: float,
    robot_x: float, robot_y: float, robot_radius: float, heedless: bool,
) -> None:  # fmt: skip
    """Move every character of `state` in place, sequentially, for `dt_s`; arrays as in `Crowd`.

    A robot at infinity means no robot. heedless: they do not slow down for the robot, and stop only in contact with it
    """
    steps = max(1, math.ceil(dt_s / TICK_S - 1e-9))
    for _ in range(steps):
        for i in range(len(state)):
            _step(i, state, corners, along, first, shape, dt_s / steps, robot_x, robot_y, robot_radius, heedless)


@kernel
def _step(
    i: int, state: npt.NDArray[np.float64], corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64], shape: npt.NDArray[np.float64], dt_s: float,
    robot_x: float, robot_y: float, robot_radius: float, heedless: bool,
) -> None:  # fmt: skip
    x, y, way, direction = state[i, X], state[i, Y], state[i, ALONG], state[i, DIRECTION]
    begin, end = first[i], first[i + 1]
    length = along[end - 1]
    ahead_x, ahead_y = _at(corners, along, begin, end, min(max(way + direction * LANE_M, 0.0), length))
    room = math.inf
    for j in range(len(state) if heedless else len(state) + 1):
        if j != i:
            other_x, other_y, reach = _other(i, j, state, shape, robot_x, robot_y, robot_radius)
            room = min(room, _room_ahead(x, y, ahead_x - x, ahead_y - y, other_x, other_y, reach))
    pace = min(max((room - WAIT_M) / (SLOW_M - WAIT_M), 0.0), 1.0)
    way += direction * pace * shape[i, SHAPE_SPEED] * dt_s
    if (way <= 0.0 and direction < 0.0) or (way >= length and direction > 0.0):
        way, direction = min(max(way, 0.0), length), -direction
    next_x, next_y = _at(corners, along, begin, end, way)
    for j in range(len(state) + 1):
        if j != i:
            other_x, other_y, reach = _other(i, j, state, shape, robot_x, robot_y, robot_radius)
            after = math.hypot(other_x - next_x, other_y - next_y)
            kept = TOUCH_M if j < len(state) else -BUMP_M if heedless else ROBOT_M
            if after < reach + kept and after < math.hypot(other_x - x, other_y - y):
                next_x, next_y, way, direction, pace = x, y, state[i, ALONG], state[i, DIRECTION], 0.0
                break
    waited = state[i, WAITED] + dt_s if pace < WAITING else 0.0
    if waited > PATIENCE_S:
        direction, waited = -direction, 0.0
    state[i, X], state[i, Y], state[i, ALONG], state[i, DIRECTION], state[i, WAITED] = (
        next_x, next_y, way, direction, waited,
    )  # fmt: skip


@kernel
def _other(
    i: int, j: int, state: npt.NDArray[np.float64], shape: npt.NDArray[np.float64],
    robot_x: float, robot_y: float, robot_radius: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return (x, y, sum of both radii) of character j for character i; j = len(state) is the robot."""
    if j == len(state):
        return robot_x, robot_y, shape[i, SHAPE_RADIUS] + robot_radius
    return state[j, X], state[j, Y], shape[i, SHAPE_RADIUS] + shape[j, SHAPE_RADIUS]


@kernel
def _room_ahead(x: float, y: float, dx: float, dy: float, other_x: float, other_y: float, reach: float) -> float:
    """Return the gap between two circles, inf if the other circle is not in the lane along (dx, dy)."""
    length = math.hypot(dx, dy)
    if length == 0.0 or not math.isfinite(other_x):
        return math.inf
    to_x, to_y = other_x - x, other_y - y
    if to_x * dx + to_y * dy <= 0.0 or abs(to_x * dy - to_y * dx) > (reach + LANE_M) * length:
        return math.inf
    return math.hypot(to_x, to_y) - reach


@kernel
def _at(
    corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64], begin: int, end: int, way: float
) -> tuple[float, float]:
    """Return the point of a polyline at the arc length `way`."""
    k = begin
    while k < end - 2 and along[k + 1] < way:
        k += 1
    leg = along[k + 1] - along[k]
    part = (way - along[k]) / leg if leg > 0.0 else 0.0
    return (
        corners[k, 0] + part * (corners[k + 1, 0] - corners[k, 0]),
        corners[k, 1] + part * (corners[k + 1, 1] - corners[k, 1]),
    )
