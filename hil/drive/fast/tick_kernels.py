"""Compiled ticks of a drive: base, contact, drift, wheels and filter together, for `hil/drive/fast/drive.py`.

The rules' arithmetic is the runtime's: `wheel_motion.py`, `kalman.py`, `mission.py` and `recovery.py` of `onboard`. The
simulated base is compiled from these definitions:

    base      `hil.physics.simulated_base.step_base`
    contact   `hil.physics.collision_world.Simulation.step` and `clearance_m`
    drift     `hil.physics.odometry_noise.drift_step`

tests/hil/drive/fast/test_tick_kernels.py compares the kernels with the definitions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.fast.limits_kernel import cells_may_bind
from hil.drive.fast.tick_state import NEVER, Records
from hil.maps.cell_kernels import circle_overlaps
from hil.physics.collision_world import GONE_M, GROUND_CLEARANCE_M, RELEASE_M
from hil.physics.collision_world import REST_MPS as BODY_REST_MPS
from hil.physics.contact import nearest_blocked, nearest_body, step_into_body
from hil.physics.motion.motion_model import SECOND_ORDER, MotionModel, advance_motion
from hil.physics.odometry_noise import REST_MPS, REST_RADPS
from hil.physics.polygon_contact import body_distance, placed, polygon_clearance, polygon_into_body, polygon_overlaps
from hil.physics.simulated_base import STEP_NS, STEP_S
from onboard.config.plant_model import step_axis
from onboard.navigation.kalman import STATES, correct, predict
from onboard.navigation.mission import comes_nearer
from onboard.navigation.wheel_motion import arc, is_moving, true_step, true_twist
from onboard.safety.recovery import has_left, is_blocked, rests, wants_motion
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import TURN_RAD, Numbers, composed, seen_from, wrap
from onboard.values.kernel import kernel

# ---- Stages of a compiled tick; they change `TickState` (s) and read `TickTable` (k) of `tick_state.py`

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Gaps = npt.NDArray[np.uint8]

SIM_STEP_S = STEP_NS / NS_PER_S
"""Duration of a tick for base, wheels and filter. The drift uses `simulated_base.STEP_S`, which is 3e-10 s longer."""
FIX_MODEL = np.eye(3, STATES)
"""A fix taken now measures x, y and yaw."""


@kernel
def turned(yaw: float) -> float:
    """Return `math.remainder(yaw, 2 pi)` for |yaw| up to 3 pi. Exact, because the subtraction of 2 pi is exact."""
    if yaw > math.pi:
        return yaw - TURN_RAD
    return yaw + TURN_RAD if yaw < -math.pi else yaw


@kernel
def move(
    s: Any, k: Any, v_command: float, w_command: float, linear: Floats, angular: Floats, blocked: Bools, gap: Gaps,
    bodies: Floats, corners: Floats, motion: MotionModel, memory: Floats,
) -> None:  # fmt: skip
    """Advance the base by one tick, as `Simulation.step` does. Changes `s` and `memory` in place."""
    if motion.kind == SECOND_ORDER:
        v, dv = step_axis(v_command, s.v, s.dv, linear, SIM_STEP_S)
        w, dw = step_axis(w_command, s.w, s.dw, angular, SIM_STEP_S)
        yaw = turned(s.yaw + SIM_STEP_S * w)
        x, y = s.x_m + SIM_STEP_S * v * math.cos(yaw), s.y_m + SIM_STEP_S * v * math.sin(yaw)
    else:
        rates = np.array([s.v, s.w, s.dv, s.dw])
        ahead, aside, turn = advance_motion(motion, memory, rates, v_command, w_command, SIM_STEP_S)
        v, w, dv, dw = rates[0], rates[1], rates[2], rates[3]
        c, n = math.cos(s.yaw), math.sin(s.yaw)
        x, y, yaw = s.x_m + c * ahead - n * aside, s.y_m + n * ahead + c * aside, turned(s.yaw + turn)
    moved_m = math.hypot(s.x_m - x, s.y_m - y)
    turns = len(corners) > 0 and yaw != s.yaw
    if (moved_m > 0.0 or turns) and _hits(s.x_m, s.y_m, s.yaw, x, y, yaw, k, blocked, gap, bodies, corners):
        swept_m = k.radius_m * abs(turned(yaw - s.yaw)) if len(corners) > 0 else 0.0
        moves = max(moved_m, swept_m) > BODY_REST_MPS * SIM_STEP_S
        if s.touching == 0.0 and (moves or _is_inside(x, y, yaw, k, blocked, gap, corners)):
            s.contacts += 1.0
            s.touching, s.touch_x_m, s.touch_y_m, s.touch_yaw = 1.0, s.x_m, s.y_m, s.yaw
        x, y, v, dv, moved_m = s.x_m, s.y_m, 0.0, 0.0, 0.0
        if turns and _hits(s.x_m, s.y_m, s.yaw, x, y, yaw, k, blocked, gap, bodies, corners):
            yaw, w, dw = s.yaw, 0.0, 0.0
    elif s.touching != 0.0:
        swept_m = k.radius_m * abs(turned(yaw - s.touch_yaw)) if len(corners) > 0 else 0.0
        gone = len(bodies) > 0 and _clearance_m(x, y, yaw, k, blocked, gap, bodies, corners, RELEASE_M) > GONE_M
        if gone or max(math.hypot(s.touch_x_m - x, s.touch_y_m - y), swept_m) > RELEASE_M:
            s.touching = 0.0
    s.x_m, s.y_m, s.yaw, s.v, s.w, s.dv, s.dw = x, y, yaw, v, w, dv, dw
    path_m = s.path_m
    s.path_m += moved_m
    bumping = 0.0
    if len(bodies) > 0 and _is_overlapping(x, y, yaw, k, bodies, corners):
        bumping = 1.0
    if bumping != 0.0 and s.bumping == 0.0:
        s.bumps += 1.0
    s.bumping = bumping
    # The twist that the wheels measure: in a step that a contact refuses, the base only turns.
    s.wheel_v, s.wheel_w = (v if s.path_m > path_m else 0.0) * k.slip, w * k.slip


@kernel
def _hits(
    x: float, y: float, yaw: float, next_x: float, next_y: float, next_yaw: float, k: Any, blocked: Bools, gap: Gaps,
    bodies: Floats, corners: Floats,
) -> bool:  # fmt: skip
    """Return whether a step ends in a solid cell of the building or moves into a body."""
    if _is_inside(next_x, next_y, next_yaw, k, blocked, gap, corners):
        return True
    if len(corners) > 0:
        before, after = placed(corners, x, y, yaw, 1.0), placed(corners, next_x, next_y, next_yaw, 1.0)
        return len(bodies) > 0 and bool(polygon_into_body(before, after, GROUND_CLEARANCE_M, k.height_m, bodies))
    return len(bodies) > 0 and step_into_body(x, y, next_x, next_y, k.radius_m, GROUND_CLEARANCE_M, k.height_m, bodies)


@kernel
def _is_inside(x: float, y: float, yaw: float, k: Any, blocked: Bools, gap: Gaps, corners: Floats) -> bool:
    """Return whether the footprint overlaps a solid cell of the building."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, x, y, 0.0)
    if len(corners) > 0:
        at = placed(corners, column / k.cell_m, row / k.cell_m, yaw + k.grid_yaw, k.cell_m)
        return bool(polygon_overlaps(at, blocked, gap))
    return bool(circle_overlaps(column / k.cell_m, row / k.cell_m, k.radius_m / k.cell_m, blocked, gap))


@kernel
def _clearance_m(
    x: float, y: float, yaw: float, k: Any, blocked: Bools, gap: Gaps, bodies: Floats, corners: Floats, at_most_m: float
) -> float:
    """Return the distance from the footprint to cells and bodies, as `Simulation.clearance_m` does."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, x, y, 0.0)
    if len(corners) > 0:
        at = placed(corners, column / k.cell_m, row / k.cell_m, yaw + k.grid_yaw, k.cell_m)
        cells = polygon_clearance(
            at, column / k.cell_m, row / k.cell_m, k.radius_m / k.cell_m, at_most_m / k.cell_m, blocked, gap
        )
        near_m = min(cells * k.cell_m, at_most_m)
        return max(body_distance(placed(corners, x, y, yaw, 1.0), GROUND_CLEARANCE_M, k.height_m, near_m, bodies), 0.0)
    reach_m = at_most_m + k.radius_m
    nearest_m = nearest_blocked(column / k.cell_m, row / k.cell_m, reach_m / k.cell_m, blocked, gap) * k.cell_m
    nearest_m = nearest_body(x, y, GROUND_CLEARANCE_M, k.height_m, nearest_m, bodies)
    clearance_m: float = min(max(nearest_m - k.radius_m, 0.0), at_most_m)
    return clearance_m


@kernel
def _is_overlapping(x: float, y: float, yaw: float, k: Any, bodies: Floats, corners: Floats) -> bool:
    """Return whether a body overlaps the footprint."""
    if len(corners) > 0:
        return body_distance(placed(corners, x, y, yaw, 1.0), GROUND_CLEARANCE_M, k.height_m, 0.0, bodies) < 0.0
    return bool(nearest_body(x, y, GROUND_CLEARANCE_M, k.height_m, k.radius_m, bodies) < k.radius_m)


@kernel
def report(s: Any, k: Any) -> bool:
    """Replace the true twist of the wheels by the reported twist, as `drift_step` does, corrected as by `odometry`.

    Return False, and change nothing, if the drift needs a new sample.
    """
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
    elif k.corrects != 0.0:
        s.wheel_v, s.wheel_w = true_twist(v, w, k.speed_factor, k.turn_factor, k.turn_per_m)
    return True


@kernel
def roll_on(s: Any, k: Any, base_x: float, base_y: float, base_yaw: float, covariance: Floats) -> None:
    """Process the newest wheel message as `odometry.advance` does, then predict the filter as `ekf.predict` does.

    base_*: the base's own odometry pose in the message before
    """
    if s.has_odometry == 0.0:
        s.has_odometry, s.wheel_x_m, s.wheel_y_m, s.wheel_yaw = 1.0, s.drift_x_m, s.drift_y_m, s.drift_yaw
        return
    moved = is_moving(s.wheel_v, s.wheel_w)
    if k.own_pose != 0.0:
        dx, dy, dyaw = seen_from(base_x, base_y, base_yaw, s.drift_x_m, s.drift_y_m, s.drift_yaw)
        if k.corrects != 0.0:
            dx, dy, dyaw = true_step(dx, dy, dyaw, k.speed_factor, k.turn_factor, k.turn_per_m)
        x, y, yaw = composed(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, dx, dy, dyaw)
        way_m = math.hypot(dx, dy)
        moved = moved or way_m > 0.0 or dyaw != 0.0
    else:
        x, y, yaw = arc(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, s.wheel_v, s.wheel_w, k.driven_s)
        way_m = abs(s.wheel_v) * k.driven_s
    moving_s = s.moving_s + (SIM_STEP_S if moved else 0.0)
    if s.filtering != 0.0:
        dx, dy, dyaw = seen_from(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, x, y, yaw)
        s.filter_x_m, s.filter_y_m, s.filter_yaw = predict(
            covariance, s.filter_x_m, s.filter_y_m, s.filter_yaw, dx, dy, dyaw, s.scale, s.creep, moving_s - s.moving_s
        )
    s.wheel_x_m, s.wheel_y_m, s.wheel_yaw, s.moving_s = x, y, yaw, moving_s
    s.travelled_m += way_m


@kernel
def correct_filter(s: Any, covariance: Floats, x: float, y: float, yaw: float, noise: Floats, work: Floats) -> bool:
    """Correct the filter by a fix taken now; return False, and change nothing but `work`, for an outlier.

    x, y, yaw: pose of the fix in the map frame; noise: (3, 3) of the fix; work: as in `kalman.correct`
    """
    residual = (x - s.filter_x_m, y - s.filter_y_m, wrap(yaw - s.filter_yaw))
    if not correct(covariance, FIX_MODEL, residual, noise, work):
        return False
    s.filter_x_m += work[0, 0]
    s.filter_y_m += work[0, 1]
    s.filter_yaw = wrap(s.filter_yaw + work[0, 2])
    s.scale += work[0, 3]
    s.creep += work[0, 4]
    return True


LOOKED_AHEAD_M = 0.2
"""The clearance search goes this much farther than the least clearance so far. Then the next ticks need no search."""
ROUNDING_M = 1e-9
FIRST_TICK = 1
"""The cameras take the first images in this tick."""


@kernel
def run_ticks(
    states: Records, covariance: Floats, tables: Records, linear: Floats, angular: Floats, ticks: int, v: float,
    w: float, late: Floats, judged: bool, blocked: Bools, gap: Gaps, bodies: Floats, corners: Floats, trace: Floats,
    ways: Floats, solid: Bools, solid_gap: Gaps, motion: MotionModel, memory: Floats,
) -> int:  # fmt: skip
    """Simulate `ticks` ticks with one command (v, w); return the number of complete ticks.

    corners: of the body's polygon, as `Body.corners`
    late:   (n, 2) delayed commands; the base follows these commands in the first n ticks
    judged: whether the recovery itself has judged the last tick

    motion, memory: the motion model of the plant and its memory, as `motion_model.advance_motion`

    `states`, `covariance` ((5, 5), or (8, 8) with a key scan), `trace` (one row per tick since the goal) and `memory`
    are changed in place. The call ends early in these cases:

    owing    the drift needs a sample: put the sample into drift_eps_* and drift_left, and call again for the rest
    halt     by a new scan (`seen_tick`) the limits may bind the command of `ways`, or a contact begins or ends
    refused  the wheels report a speed that odometry does not believe
    """
    s, k = states[0], tables[0]
    s.halt = 0.0
    for i in range(ticks):
        if s.owing == 0.0:
            if k.driving != NEVER and s.tick >= k.driving:
                if i > 0 or not judged:
                    note_block(s, k)
                note_progress(s, k)
            if i < len(late):
                move(s, k, late[i, 0], late[i, 1], linear, angular, blocked, gap, bodies, corners, motion, memory)
            else:
                move(s, k, v, w, linear, angular, blocked, gap, bodies, corners, motion, memory)
            s.tick += 1.0
            if k.driving != NEVER:
                _note(s, k, blocked, gap, bodies, corners, trace)
        base_x, base_y, base_yaw = s.drift_x_m, s.drift_y_m, s.drift_yaw
        s.owing = 0.0 if report(s, k) else 1.0
        if s.owing != 0.0:
            return i
        if s.refused != 0.0:
            return i + 1
        roll_on(s, k, base_x, base_y, base_yaw, covariance)
        if (int(s.tick) - FIRST_TICK) % int(k.depth_every) == 0:
            s.seen_tick, s.seen_x_m, s.seen_y_m, s.seen_yaw = s.tick, s.x_m, s.y_m, s.yaw
            s.seen_wheel_x_m, s.seen_wheel_y_m, s.seen_wheel_yaw = s.wheel_x_m, s.wheel_y_m, s.wheel_yaw
            s.seen_moving_s = s.moving_s
            if len(ways) > 0:
                x, y, yaw = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, s.x_m, s.y_m, s.yaw)
                if cells_may_bind(x, y, yaw, ways, k.cell_m, solid, solid_gap):
                    s.halt = 1.0
        if s.touching != s.reported_touching:
            s.reported_touching, s.halt = s.touching, 1.0
        if s.halt != 0.0:
            return i + 1
    return ticks


@kernel
def take_fix(states: Records, covariance: Floats, x: float, y: float, yaw: float, noise: Floats) -> bool:
    """Correct the filter of `states` by a fix taken now, as `correct_filter` does."""
    return correct_filter(states[0], covariance, x, y, yaw, noise, np.empty((6 + 2 * STATES, STATES)))


@kernel
def note_tick(
    states: Records, tables: Records, blocked: Bools, gap: Gaps, bodies: Floats, corners: Floats, trace: Floats
) -> None:
    """Record clearance and trace row of the tick in which the goal came. Changes `states` and `trace` in place."""
    _note(states[0], tables[0], blocked, gap, bodies, corners, trace)


@kernel
def in_start(s: Any, k: Any) -> Numbers:
    """Return the filtered pose in the start frame: x, y, yaw."""
    if k.anchored != 0.0:
        return composed(k.start_x_m, k.start_y_m, k.start_yaw, s.filter_x_m, s.filter_y_m, s.filter_yaw)
    return composed(k.start_x_m, k.start_y_m, k.start_yaw, s.wheel_x_m, s.wheel_y_m, s.wheel_yaw)


@kernel
def note_block(s: Any, k: Any) -> None:
    """Update since when the robot is blocked and at its place, by this tick."""
    notice, ahead = s.touching != 0.0, k.wanted_v > 0.0
    wants = wants_motion(k.wanted_v, k.wanted_w, k.commanded_mps, k.commanded_radps)
    goes, turns = abs(s.wheel_v) > k.moving_mps, abs(s.wheel_w) > k.moving_radps
    if not is_blocked(notice, ahead, wants, goes, turns):
        s.blocked = NEVER
    elif s.blocked == NEVER:
        s.blocked = s.tick
    x, y, _ = in_start(s, k)
    if rests(notice, wants, goes, turns):
        s.place = NEVER
    elif s.place == NEVER or has_left(x, y, s.place_x_m, s.place_y_m):
        s.place, s.place_x_m, s.place_y_m = s.tick, x, y


@kernel
def note_progress(s: Any, k: Any) -> None:
    """Update the progress towards the goal by this tick."""
    x, y, _ = in_start(s, k)
    away_m = math.hypot(x - k.goal_x_m, y - k.goal_y_m)
    if comes_nearer(away_m, s.best_m):
        s.best_m, s.best = away_m, s.tick


@kernel
def _note(s: Any, k: Any, blocked: Bools, gap: Gaps, bodies: Floats, corners: Floats, trace: Floats) -> None:
    """Update the least clearance, as `Simulation.clearance_m` defines it, and write the tick's trace row."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, s.x_m, s.y_m, 0.0)
    # The clearance to the building shrinks at most by the path driven since. So most ticks need no search.
    s.near_m -= s.path_m - s.near_path_m
    s.near_path_m = s.path_m
    if len(corners) > 0:
        s.clear_m = _clearance_m(s.x_m, s.y_m, s.yaw, k, blocked, gap, bodies, corners, s.clear_m)
    elif len(bodies) > 0 or s.near_m <= s.clear_m:
        reach_m = s.clear_m + k.radius_m + LOOKED_AHEAD_M
        nearest_m = nearest_blocked(column / k.cell_m, row / k.cell_m, reach_m / k.cell_m, blocked, gap) * k.cell_m
        s.near_m = nearest_m - k.radius_m - ROUNDING_M
        if len(bodies) > 0:
            nearest_m = nearest_body(s.x_m, s.y_m, GROUND_CLEARANCE_M, k.height_m, nearest_m, bodies)
        s.clear_m = min(max(nearest_m - k.radius_m, 0.0), s.clear_m)
    i = int(s.tick - k.driving)
    trace[i, 0], trace[i, 1], trace[i, 2], trace[i, 3] = i * STEP_NS / NS_PER_S, s.x_m, s.y_m, s.yaw
    trace[i, 4], trace[i, 5] = s.v, s.w
