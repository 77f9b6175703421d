"""The stages of a compiled tick, on the records of `ticks.TickState` (s) and `ticks.TickTable` (k); see there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.contact import nearest_body, step_into_body
from hil.grids import circle_overlaps
from hil.noise import REST_MPS, REST_RADPS
from hil.plant import STEP_NS, STEP_S
from hil.world import GROUND_CLEARANCE_M, RELEASE_M
from onboard.localization import STATES, SYSTEMATIC_WALK
from onboard.motion import step_axis
from onboard.odometry import NOISE_PER_STEP, STEPS_PER_S
from onboard.odometry import REST_MPS as WHEELS_REST_MPS
from onboard.odometry import REST_RADPS as WHEELS_REST_RADPS
from onboard.scheduler import NS_PER_S

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Gaps = npt.NDArray[np.uint8]

TURN = 2.0 * math.pi
SIM_STEP_S = STEP_NS / NS_PER_S
"""A tick as the base, the wheels and the filter count it; the drift counts `plant.STEP_S`, 3e-10 s more."""
FORWARD, BOTH, TURNING = float(NOISE_PER_STEP[0, 0]), float(NOISE_PER_STEP[0, 1]), float(NOISE_PER_STEP[1, 1])
SCALE_WALK, CREEP_WALK = float(SYSTEMATIC_WALK[0, 0]), float(SYSTEMATIC_WALK[1, 1])


@njit(cache=True, nogil=True)
def turned(yaw: float) -> float:
    """Return `math.remainder(yaw, 2 pi)` of an angle within three half turns; exact, because the difference is."""
    if yaw > math.pi:
        return yaw - TURN
    return yaw + TURN if yaw < -math.pi else yaw


@njit(cache=True, nogil=True)
def wrapped(yaw: float) -> float:
    """Return `geometry.wrap` of an angle within three half turns."""
    angle = turned(yaw)
    return math.pi if angle == -math.pi else angle


@njit(cache=True, nogil=True)
def arc(x: float, y: float, yaw: float, v: float, w: float, dt_s: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `odometry.integrate`."""
    half_turn = 0.5 * w * dt_s
    chord = v * dt_s * (math.sin(half_turn) / half_turn if half_turn != 0.0 else 1.0)
    heading = yaw + half_turn
    return x + chord * math.cos(heading), y + chord * math.sin(heading), wrapped(yaw + 2.0 * half_turn)


@njit(cache=True, nogil=True)
def composed(x: float, y: float, yaw: float, dx: float, dy: float, dyaw: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `geometry.compose`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return x + c * dx - s * dy, y + s * dx + c * dy, wrapped(yaw + dyaw)


@njit(cache=True, nogil=True)
def seen_from(x: float, y: float, yaw: float, to_x: float, to_y: float, to_yaw: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `geometry.between`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return composed(-c * x - s * y, s * x - c * y, wrapped(-yaw), to_x, to_y, to_yaw)


@njit(cache=True, nogil=True)
def move(
    s: Any, k: Any, v_command: float, w_command: float, linear: Floats, angular: Floats, blocked: Bools, gap: Gaps,
    bodies: Floats,
) -> None:  # fmt: skip
    """`Simulation.step`."""
    v, dv = step_axis(v_command, s.v, s.dv, linear, SIM_STEP_S)
    w, dw = step_axis(w_command, s.w, s.dw, angular, SIM_STEP_S)
    yaw = turned(s.yaw + SIM_STEP_S * w)
    x, y = s.x_m + SIM_STEP_S * v * math.cos(yaw), s.y_m + SIM_STEP_S * v * math.sin(yaw)
    moved_m = math.hypot(s.x_m - x, s.y_m - y)
    if moved_m > 0.0 and _hits(s.x_m, s.y_m, x, y, k, blocked, gap, bodies):
        if s.touching == 0.0:
            s.contacts += 1.0
            s.touching, s.touch_x_m, s.touch_y_m = 1.0, s.x_m, s.y_m
        x, y, v, dv, moved_m = s.x_m, s.y_m, 0.0, 0.0, 0.0
    elif s.touching != 0.0 and math.hypot(s.touch_x_m - x, s.touch_y_m - y) > RELEASE_M:
        s.touching = 0.0
    s.x_m, s.y_m, s.yaw, s.v, s.w, s.dv, s.dw = x, y, yaw, v, w, dv, dw
    path_m = s.path_m
    s.path_m += moved_m
    bumping = 0.0
    if len(bodies) > 0 and nearest_body(x, y, GROUND_CLEARANCE_M, k.height_m, k.radius_m, bodies) < k.radius_m:
        bumping = 1.0
    if bumping != 0.0 and s.bumping == 0.0:
        s.bumps += 1.0
    s.bumping = bumping
    # What the wheels turn by: a refused step turns only.
    s.wheel_v, s.wheel_w = (v if s.path_m > path_m else 0.0), w


@njit(cache=True, nogil=True)
def _hits(x: float, y: float, next_x: float, next_y: float, k: Any, blocked: Bools, gap: Gaps, bodies: Floats) -> bool:
    """Return whether a step ends in the building or leads into a body."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, next_x, next_y, 0.0)
    if circle_overlaps(column / k.cell_m, row / k.cell_m, k.radius_m / k.cell_m, blocked, gap):
        return True
    return len(bodies) > 0 and step_into_body(x, y, next_x, next_y, k.radius_m, GROUND_CLEARANCE_M, k.height_m, bodies)


@njit(cache=True, nogil=True)
def report(s: Any, k: Any) -> bool:
    """`drift_step`: turn the true twist of the wheels into the reported one; False where it needs a new sample."""
    v, w = s.wheel_v, s.wheel_w
    if not (abs(v) < REST_MPS and abs(w) < REST_RADPS):
        if s.drift_left == 0.0:
            return False
        v, w = v + s.drift_eps_m / STEP_S, w + s.drift_eps_rad / STEP_S
        s.drift_left -= 1.0
    s.drift_x_m, s.drift_y_m, s.drift_yaw = arc(s.drift_x_m, s.drift_y_m, s.drift_yaw, v, w, STEP_S)
    s.wheel_v, s.wheel_w = v, w
    if abs(v) > k.max_v or abs(w) > k.max_w:
        s.refused = 1.0
    return True


@njit(cache=True, nogil=True)
def roll_on(s: Any, k: Any, base_x: float, base_y: float, base_yaw: float, covariance: Floats) -> None:
    """`odometry.advance` with the newest message, whose pose before was base_*, then `localization.predict`."""
    if s.heard == 0.0:
        s.heard, s.wheel_x_m, s.wheel_y_m, s.wheel_yaw = 1.0, s.drift_x_m, s.drift_y_m, s.drift_yaw
        return
    moved = abs(s.wheel_v) > WHEELS_REST_MPS or abs(s.wheel_w) > WHEELS_REST_RADPS
    if k.own_pose != 0.0:
        dx, dy, dyaw = seen_from(base_x, base_y, base_yaw, s.drift_x_m, s.drift_y_m, s.drift_yaw)
        x, y, yaw = composed(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, dx, dy, dyaw)
        way_m = math.hypot(dx, dy)
        moved = moved or way_m > 0.0 or dyaw != 0.0
    else:
        x, y, yaw = arc(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, s.wheel_v, s.wheel_w, k.driven_s)
        way_m = abs(s.wheel_v) * k.driven_s
    moving_s = s.moving_s + (SIM_STEP_S if moved else 0.0)
    if s.filtering != 0.0:
        step = seen_from(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, x, y, yaw)
        _predict(s, covariance, step, moving_s - s.moving_s)
    s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, s.moving_s = x, y, yaw, moving_s
    s.travelled_m += way_m


@njit(cache=True, nogil=True)
def _predict(s: Any, covariance: Floats, step: tuple[float, float, float], moving_s: float) -> None:
    """`localization.predict` with what the wheels report since."""
    x0, y0, yaw0 = s.filter_x_m, s.filter_y_m, s.filter_yaw
    x, y, yaw = composed(x0, y0, yaw0, step[0], step[1], step[2])
    heading = yaw0 + 0.5 * wrapped(yaw - yaw0)
    c, n = math.cos(heading), math.sin(heading)
    by_scale, by_creep = (x - x0, y - y0), (moving_s * c, moving_s * n)
    x -= by_scale[0] * s.scale + by_creep[0] * s.creep
    y -= by_scale[1] * s.scale + by_creep[1] * s.creep
    s.filter_x_m, s.filter_y_m, s.filter_yaw = x, y, yaw
    by_yaw = (y0 - y, x - x0)
    # carried @ covariance @ carried.T: only the first two rows of `carried` differ from those of the identity.
    for column in range(STATES):
        for row in range(2):
            covariance[row, column] += (
                by_yaw[row] * covariance[2, column]
                - by_scale[row] * covariance[3, column]
                - by_creep[row] * covariance[4, column]
            )
    for row in range(STATES):
        for column in range(2):
            covariance[row, column] += (
                by_yaw[column] * covariance[row, 2]
                - by_scale[column] * covariance[row, 3]
                - by_creep[column] * covariance[row, 4]
            )
    steps = STEPS_PER_S * moving_s
    covariance[0, 0] += c * c * FORWARD * steps
    covariance[1, 1] += n * n * FORWARD * steps
    covariance[2, 2] += TURNING * steps
    covariance[0, 1] += c * n * FORWARD * steps
    covariance[0, 2] += c * BOTH * steps
    covariance[1, 2] += n * BOTH * steps
    covariance[3, 3] += SCALE_WALK * moving_s
    covariance[4, 4] += CREEP_WALK * moving_s
    for row in range(1, STATES):
        for column in range(row):
            covariance[row, column] = covariance[column, row]
