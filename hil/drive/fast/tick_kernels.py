"""Compiled ticks of a drive: base, contact, drift, wheels and filter together, for `hil/drive/fast/drive.py`.

Nothing is defined here. What a tick does is defined by `plant.step_base`, `world.Simulation.step` and `clearance_m`,
`noise.drift_step`, `onboard.navigation.odometry.advance`, `onboard.navigation.ekf.predict`,
`onboard.navigation.mission.track_progress` and
`onboard.safety.recovery.blocked`; these lines do the same in one call, and tests/hil/drive/fast/test_tick_kernels.py
holds both against each other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hil.drive.fast.limits_kernel import cells_may_bind
from hil.maps.cell_kernels import circle_overlaps
from hil.physics.collision_world import GROUND_CLEARANCE_M, RELEASE_M
from hil.physics.contact import nearest_blocked, nearest_body, step_into_body
from hil.physics.odometry_noise import REST_MPS, REST_RADPS
from hil.physics.simulated_base import STEP_NS, STEP_S
from onboard.config.plant_model import step_axis
from onboard.navigation.ekf import STATES, SYSTEMATIC_WALK
from onboard.navigation.mission import IMPROVEMENT_M
from onboard.navigation.odometry import NOISE_PER_STEP, STEPS_PER_S
from onboard.navigation.odometry import REST_MPS as WHEELS_REST_MPS
from onboard.navigation.odometry import REST_RADPS as WHEELS_REST_RADPS
from onboard.values.clock import NS_PER_S
from onboard.values.kernel import kernel

# ---- The stages of a compiled tick, on the records of `ticks.TickState` (s) and `ticks.TickTable` (k); see there

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Gaps = npt.NDArray[np.uint8]

TURN = 2.0 * math.pi
SIM_STEP_S = STEP_NS / NS_PER_S
"""A tick as the base, the wheels and the filter count it; the drift counts `plant.STEP_S`, 3e-10 s more."""
FORWARD, BOTH, TURNING = float(NOISE_PER_STEP[0, 0]), float(NOISE_PER_STEP[0, 1]), float(NOISE_PER_STEP[1, 1])
SCALE_WALK, CREEP_WALK = float(SYSTEMATIC_WALK[0, 0]), float(SYSTEMATIC_WALK[1, 1])


@kernel
def turned(yaw: float) -> float:
    """Return `math.remainder(yaw, 2 pi)` of an angle within three half turns; exact, because the difference is."""
    if yaw > math.pi:
        return yaw - TURN
    return yaw + TURN if yaw < -math.pi else yaw


@kernel
def wrapped(yaw: float) -> float:
    """Return `geometry.wrap` of an angle within three half turns."""
    angle = turned(yaw)
    return math.pi if angle == -math.pi else angle


@kernel
def arc(x: float, y: float, yaw: float, v: float, w: float, dt_s: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `odometry.integrate`."""
    half_turn = 0.5 * w * dt_s
    chord = v * dt_s * (math.sin(half_turn) / half_turn if half_turn != 0.0 else 1.0)
    heading = yaw + half_turn
    return x + chord * math.cos(heading), y + chord * math.sin(heading), wrapped(yaw + 2.0 * half_turn)


@kernel
def composed(x: float, y: float, yaw: float, dx: float, dy: float, dyaw: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `geometry.compose`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return x + c * dx - s * dy, y + s * dx + c * dy, wrapped(yaw + dyaw)


@kernel
def seen_from(x: float, y: float, yaw: float, to_x: float, to_y: float, to_yaw: float) -> tuple[float, float, float]:
    """Return (x, y, yaw) of `geometry.between`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return composed(-c * x - s * y, s * x - c * y, wrapped(-yaw), to_x, to_y, to_yaw)


@kernel
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


@kernel
def _hits(x: float, y: float, next_x: float, next_y: float, k: Any, blocked: Bools, gap: Gaps, bodies: Floats) -> bool:
    """Return whether a step ends in the building or leads into a body."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, next_x, next_y, 0.0)
    if circle_overlaps(column / k.cell_m, row / k.cell_m, k.radius_m / k.cell_m, blocked, gap):
        return True
    return len(bodies) > 0 and step_into_body(x, y, next_x, next_y, k.radius_m, GROUND_CLEARANCE_M, k.height_m, bodies)


@kernel
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


@kernel
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


@kernel
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


Records = npt.NDArray[np.void]

LOOKED_AHEAD_M = 0.2
"""So much farther than the least clearance so far is looked for something, so that the next ticks need not look."""
ROUNDING_M = 1e-9
FIRST_TICK = 1
"""In it the first images are taken."""
NEVER = -1.0
"""A tick that has not come."""


class TickState(NamedTuple):
    """What changes from tick to tick. Counts and flags are whole numbers; `NEVER` is a tick that has not come.

    tick:       number of the newest tick
    x_m .. dw:  the base in the map frame: pose, twist, rates; path_m, contacts, bumps, bumping as in `SimState`
    touching:   whether a contact lasts, begun at (touch_x_m, touch_y_m)
    drift_*:    `noise.Drift`; owing: the tick has come as far as the drift and waits for its next sample
    wheel_*:    `OdometryState`: pose, twist, travelled_m, moving_s; heard: whether there was a message yet
    filter_*:   `LocalizationState`: pose in the map, systematic errors; filtering: whether there was a fix yet
    blocked:    tick since which the robot is blocked (`RecoveryState.blocked_ns`)
    best_m, best: the progress, and the tick since which it stands
    seen_*:     tick and true pose of the newest scan; halt: whether by it the limits may bind the command, or what
                touches has changed; told: `touching` as of the last tick
    clear_m:    least clearance so far; when near_path_m of the way were driven, the building was at least near_m away
    refused:    whether a message of the wheels was beyond the limits
    """

    tick: float = 0.0
    x_m: float = 0.0
    y_m: float = 0.0
    yaw: float = 0.0
    v: float = 0.0
    w: float = 0.0
    dv: float = 0.0
    dw: float = 0.0
    path_m: float = 0.0
    contacts: float = 0.0
    touching: float = 0.0
    touch_x_m: float = 0.0
    touch_y_m: float = 0.0
    bumps: float = 0.0
    bumping: float = 0.0
    drift_x_m: float = 0.0
    drift_y_m: float = 0.0
    drift_yaw: float = 0.0
    drift_eps_m: float = 0.0
    drift_eps_rad: float = 0.0
    drift_left: float = 0.0
    owing: float = 0.0
    heard: float = 0.0
    wheel_x_m: float = 0.0
    wheel_y_m: float = 0.0
    wheel_yaw: float = 0.0
    wheel_v: float = 0.0
    wheel_w: float = 0.0
    travelled_m: float = 0.0
    moving_s: float = 0.0
    filtering: float = 0.0
    filter_x_m: float = 0.0
    filter_y_m: float = 0.0
    filter_yaw: float = 0.0
    scale: float = 0.0
    creep: float = 0.0
    blocked: float = NEVER
    best_m: float = math.inf
    best: float = NEVER
    clear_m: float = math.inf
    near_m: float = NEVER
    near_path_m: float = 0.0
    refused: float = 0.0
    seen_tick: float = 0.0
    seen_x_m: float = 0.0
    seen_y_m: float = 0.0
    seen_yaw: float = 0.0
    halt: float = 0.0
    told: float = 0.0


class TickTable(NamedTuple):
    """What holds for a drive, and what Python changes between two calls.

    grid_*:     pose of the map in the grid frame; cell_m of the world; radius_m, height_m of the body
    driven_s:   how long a message's twist is driven through; own_pose: whether the base's pose moves it instead
    max_v, max_w: beyond these the wheels are not believed
    moving_*, commanded_*: of `config.RecoverySection`
    depth_every: ticks between two scans
    wanted_*:   the policy's set point in force
    goal_*:     in the start frame, which stands at start_* as seen from the map, from the odom frame while not anchored
    driving:    the goal's tick, `NEVER` before; before it neither clearance nor progress nor blocks count
    """

    grid_x_m: float
    grid_y_m: float
    grid_yaw: float
    cell_m: float
    radius_m: float
    height_m: float
    driven_s: float
    own_pose: float
    max_v: float
    max_w: float
    moving_mps: float
    moving_radps: float
    commanded_mps: float
    commanded_radps: float
    depth_every: float
    wanted_v: float = 0.0
    wanted_w: float = 0.0
    goal_x_m: float = 0.0
    goal_y_m: float = 0.0
    start_x_m: float = 0.0
    start_y_m: float = 0.0
    start_yaw: float = 0.0
    anchored: float = 0.0
    driving: float = NEVER


def records_of(values: TickState | TickTable) -> Records:
    """Return a record array of one, for the kernel."""
    return np.array([tuple(values)], np.dtype([(name, np.float64) for name in values._fields]))


def state_of(records: Records) -> TickState:
    """Return the values in a record array of one."""
    return TickState._make(records[0].item())


@kernel
def run_ticks(
    states: Records, covariance: Floats, tables: Records, linear: Floats, angular: Floats, ticks: int, v: float,
    w: float, late: Floats, judged: bool, blocked: Bools, gap: Gaps, bodies: Floats, trace: Floats, ways: Floats,
    solid: Bools, solid_gap: Gaps,
) -> int:  # fmt: skip
    """Live so many ticks with one command (v, w); return how many were lived to their end.

    late:   (n, 2) commands still on their way, which the base follows in the first n ticks
    judged: whether the recovery itself has judged the tick that is over

    Fewer where a sample of the drift is needed (`owing`): put it into drift_eps_*, drift_left, and call again for the
    rest. Fewer also where a scan is taken (`seen_tick`) by which the limits may bind the command of `ways` (`halt`),
    where a contact begins or ends (`halt`), and where the wheels report what is beyond belief (`refused`). `states`,
    `covariance` (5, 5) and `trace` (a row a tick since the goal) are changed in place.
    """
    s, k = states[0], tables[0]
    s.halt = 0.0
    for i in range(ticks):
        if s.owing == 0.0:
            if k.driving != NEVER and s.tick >= k.driving:
                _watch(s, k, i > 0 or not judged)
            if i < len(late):
                move(s, k, late[i, 0], late[i, 1], linear, angular, blocked, gap, bodies)
            else:
                move(s, k, v, w, linear, angular, blocked, gap, bodies)
            s.tick += 1.0
            if k.driving != NEVER:
                _note(s, k, blocked, gap, bodies, trace)
        base_x, base_y, base_yaw = s.drift_x_m, s.drift_y_m, s.drift_yaw
        s.owing = 0.0 if report(s, k) else 1.0
        if s.owing != 0.0:
            return i
        if s.refused != 0.0:
            return i + 1
        roll_on(s, k, base_x, base_y, base_yaw, covariance)
        if (int(s.tick) - FIRST_TICK) % int(k.depth_every) == 0:
            s.seen_tick, s.seen_x_m, s.seen_y_m, s.seen_yaw = s.tick, s.x_m, s.y_m, s.yaw
            if len(ways) > 0:
                x, y, yaw = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, s.x_m, s.y_m, s.yaw)
                if cells_may_bind(x, y, yaw, ways, k.cell_m, solid, solid_gap):
                    s.halt = 1.0
        if s.touching != s.told:
            s.told, s.halt = s.touching, 1.0
        if s.halt != 0.0:
            return i + 1
    return ticks


@kernel
def note_tick(states: Records, tables: Records, blocked: Bools, gap: Gaps, bodies: Floats, trace: Floats) -> None:
    """Note the clearance and the row of the tick in which the goal came, in place."""
    _note(states[0], tables[0], blocked, gap, bodies, trace)


@kernel
def _watch(s: Any, k: Any, judge_block: bool) -> None:
    """Judge the tick that is over: since when it is blocked, and whether it came nearer to the goal than before."""
    if judge_block:
        held = s.touching != 0.0 and k.wanted_v > 0.0
        moves = abs(s.wheel_v) > k.moving_mps or (abs(s.wheel_w) > k.moving_radps and not held)
        wants = abs(k.wanted_v) > k.commanded_mps or abs(k.wanted_w) > k.commanded_radps
        if moves or not (s.touching != 0.0 or wants):
            s.blocked = NEVER
        elif s.blocked == NEVER:
            s.blocked = s.tick
    if k.anchored != 0.0:
        x, y, _ = composed(k.start_x_m, k.start_y_m, k.start_yaw, s.filter_x_m, s.filter_y_m, s.filter_yaw)
    else:
        x, y, _ = composed(k.start_x_m, k.start_y_m, k.start_yaw, s.wheel_x_m, s.wheel_y_m, s.wheel_yaw)
    away_m = math.hypot(x - k.goal_x_m, y - k.goal_y_m)
    if away_m <= s.best_m - IMPROVEMENT_M:
        s.best_m, s.best = away_m, s.tick


@kernel
def _note(s: Any, k: Any, blocked: Bools, gap: Gaps, bodies: Floats, trace: Floats) -> None:
    """Keep the least of `Simulation.clearance_m`, and the row of the tick."""
    column, row, _ = composed(k.grid_x_m, k.grid_y_m, k.grid_yaw, s.x_m, s.y_m, 0.0)
    # What was nearest cannot have come nearer than by the way since: mostly there is nothing to look for.
    s.near_m -= s.path_m - s.near_path_m
    s.near_path_m = s.path_m
    if len(bodies) > 0 or s.near_m <= s.clear_m:
        reach_m = s.clear_m + k.radius_m + LOOKED_AHEAD_M
        nearest_m = nearest_blocked(column / k.cell_m, row / k.cell_m, reach_m / k.cell_m, blocked, gap) * k.cell_m
        s.near_m = nearest_m - k.radius_m - ROUNDING_M
        if len(bodies) > 0:
            nearest_m = nearest_body(s.x_m, s.y_m, GROUND_CLEARANCE_M, k.height_m, nearest_m, bodies)
        s.clear_m = min(max(nearest_m - k.radius_m, 0.0), s.clear_m)
    i = int(s.tick - k.driving)
    trace[i, 0], trace[i, 1], trace[i, 2], trace[i, 3] = i * STEP_NS / NS_PER_S, s.x_m, s.y_m, s.yaw
    trace[i, 4], trace[i, 5] = s.v, s.w
