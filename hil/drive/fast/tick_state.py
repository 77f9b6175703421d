"""The values that the compiled ticks of `hil/drive/fast/tick_kernels.py` change and read."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]

NEVER = -1.0
"""Value of a tick that has not come yet."""


class TickState(NamedTuple):
    """Values that change from tick to tick. Counts and flags are whole numbers; `NEVER` is a tick that has not come.

    tick:       number of the newest tick
    x_m .. dw:  the base in the map frame: pose, twist, rates
    path_m, contacts, bumps, bumping: as in `SimState`
    touching:   whether a contact lasts; the contact began at the pose touch_*
    drift_*:    `odometry_noise.Drift`
    owing:      whether the tick has reached the drift stage and waits for the next drift sample
    wheel_*:    `OdometryState`: pose, twist; likewise travelled_m, moving_s
    has_odometry: whether a wheel message has come yet
    filter_*:   `LocalizationState`: pose in the map; scale, creep: its systematic errors
    filtering:  whether a fix has come yet
    blocked:    tick since which the robot is blocked (`RecoveryState.blocked_ns`)
    place:      tick since which the robot is at its place (`RecoveryState.place_ns`), at (place_x_m, place_y_m)
    best_m, best: distance to the goal at the last progress of at least `IMPROVEMENT_M`, and the tick of this progress
    seen_*:     tick and true pose of the newest scan, and the odometry's pose and moving_s then
    halt:       whether the limits may bind the command by the newest scan, or a contact began or ended
    reported_touching: `touching` as of the last tick
    clear_m:    least clearance so far
    near_m:     lower bound of the clearance to the building when the path was near_path_m long
    refused:    whether a wheel message exceeded max_v or max_w of `TickTable`
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
    touch_yaw: float = 0.0
    bumps: float = 0.0
    bumping: float = 0.0
    drift_x_m: float = 0.0
    drift_y_m: float = 0.0
    drift_yaw: float = 0.0
    drift_eps_m: float = 0.0
    drift_eps_rad: float = 0.0
    drift_left: float = 0.0
    owing: float = 0.0
    has_odometry: float = 0.0
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
    place: float = NEVER
    place_x_m: float = 0.0
    place_y_m: float = 0.0
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
    seen_wheel_x_m: float = 0.0
    seen_wheel_y_m: float = 0.0
    seen_wheel_yaw: float = 0.0
    seen_moving_s: float = 0.0
    halt: float = 0.0
    reported_touching: float = 0.0


class TickTable(NamedTuple):
    """Constants of a drive, and values that Python changes between two calls.

    grid_*:     pose of the map in the grid frame
    cell_m:     cell size of the world; radius_m, height_m: size of the body
    driven_s:   time for which odometry integrates the twist of one wheel message
    own_pose:   whether odometry uses the base's own pose instead of the twist
    corrects:   whether odometry corrects the wheels, by speed_factor, turn_factor and turn_per_m
    max_v, max_w: the wheels are not believed above these speeds
    moving_*, commanded_*: thresholds of `config.RecoverySection`
    depth_every: ticks between two scans
    slip:       factor by which the wheels report more than the base moves
    wanted_*:   the policy's current set point
    goal_*:     goal in the start frame
    start_*:    `Start.start_from_map` if anchored, otherwise `Start.start_from_odom`
    driving:    tick of the goal, `NEVER` before; clearance, progress and blocks count from this tick on
    """

    grid_x_m: float
    grid_y_m: float
    grid_yaw: float
    cell_m: float
    radius_m: float
    height_m: float
    driven_s: float
    own_pose: float
    corrects: float
    speed_factor: float
    turn_factor: float
    turn_per_m: float
    max_v: float
    max_w: float
    moving_mps: float
    moving_radps: float
    commanded_mps: float
    commanded_radps: float
    depth_every: float
    slip: float = 1.0
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
    """Return the values as a (1,) record array for the kernels."""
    return np.array([tuple(values)], np.dtype([(name, np.float64) for name in values._fields]))


def state_of(records: Records) -> TickState:
    """Return the values of a (1,) record array."""
    return TickState._make(records[0].item())
