"""The values of the batched world's kernels: what a lane keeps, what all lanes read, and random numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.drive.fast.tick_state import NEVER
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.values.geometry import TURN_RAD
from onboard.values.kernel import kernel
from onboard.values.messages import Twist

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Gaps = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Records = npt.NDArray[np.void]

TURN_ACTION, BACK = ACTIONS.index(Twist(0.0, 1.0)), len(ACTIONS)
"""The turn in place of a held stop (A5), and the row of `Site.ways` for backing off."""
REACHED, STOPPED, TIME, STUCK, CONTACT, GAVE_UP, SPEED = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0
"""Ends of a drive: at the goal by a stop, by a stop elsewhere, by either timeout, by a contact, blocked, or refused."""
LIMITS, REAR = 1, 2
"""What a lane asks of the obstacles near by: the speed that the limits allow; the space behind, and the speed there."""
ENDS = ("reached", "stopped", "time", "stuck", "contact", "gave_up", "speed")


class LaneState(NamedTuple):
    """Values of a lane beside `TickState` and `TickTable`. Ticks may be `NEVER`.

    goal:       index of the goal; began: tick in which it came
    action:     the set point, as an index of the actions
    pending, due: the action of the newest decision, and the tick in which it acts
    command_v, command_w: the command in force, after the limits
    asked:      row of `ways` for which the limits ran last
    asks:       what the next look at the near obstacles must find: `LIMITS`, `REAR`, both or nothing
    sensed:     tick of the newest decision; end: how the drive ended since then, 0 if it goes on
    delay:      ticks from sensing to acting
    stops:      stop actions in a row; held: tick of the first held arrival
    next_fix:   tick of the next fix; fix_low_s, fix_high_s: limits of the time between fixes
    backing, backing_m: tick and path length at which a backing off began
    rested:     tick in which the last try ended or was refused; resumed: in which the last backing off ended
    waits:      whether the recovery waits for the space behind by the newest scan
    rear_m, back_mps: the space behind by the newest scan, and the speed that the limits allow there
    fresh:      whether the memory is reset before the next decision
    left_m:     path length left; length_m: of the whole drive
    steps:      0 or 1: the row of the slow zone's rings
    drift, noise, holes: of this drive, as in `DomainSection`
    """

    goal: float = 0.0
    began: float = NEVER
    action: float = float(STOP_ACTION)
    pending: float = float(STOP_ACTION)
    due: float = NEVER
    command_v: float = 0.0
    command_w: float = 0.0
    asked: float = NEVER
    asks: float = 0.0
    sensed: float = 0.0
    end: float = 0.0
    delay: float = 3.0
    stops: float = 0.0
    held: float = NEVER
    next_fix: float = NEVER
    fix_low_s: float = 1.0
    fix_high_s: float = 2.0
    backing: float = NEVER
    backing_m: float = 0.0
    rested: float = -math.inf
    resumed: float = NEVER
    waits: float = 0.0
    rear_m: float = 0.0
    back_mps: float = 0.0
    fresh: float = 1.0
    left_m: float = 0.0
    length_m: float = 0.0
    steps: float = 0.0
    drift: float = 1.0
    noise: float = 0.0
    holes: float = 0.0


class Rules(NamedTuple):
    """Numbers that all lanes share. Times in ticks have the suffix _ticks.

    A drive's plant, delay, drift, fixes and scan faults are drawn as `domain_randomization.draw_sample` draws them.
    """

    cell_m: float
    far_m: float
    every: int
    settled_ticks: float
    swept_m: float
    braking_mps2: float
    reaction_s: float
    contact_s: float
    tolerance_m: float
    reached_m: float
    confidence: float
    wait_ticks: float
    rest_mps: float
    rest_radps: float
    rest_decisions: float
    most_ticks: float
    stuck_ticks: float
    blocked_ticks: float
    held_ticks: float
    backward_mps: float
    backward_ticks: float
    window_ticks: float
    cool_ticks: float
    clearance_m: float
    way_m: float
    sd_x: float
    sd_yaw: float
    success: float
    step: float
    contact: float
    wrong: float
    plant_spread: float
    delay_low: float
    delay_high: float
    drift_low: float
    drift_high: float
    drift_paper: float
    no_fixes: float
    often: float
    often_low_s: float
    often_high_s: float
    seldom_low_s: float
    seldom_high_s: float
    scan_noise: float
    scan_holes: float
    graded: float


class Site(NamedTuple):
    """Arrays that all lanes read: the atlas (`atlas.py`), goals, and the limits of the robot.

    goals:   (goals, 2) x, y [m]; windows: (goals, 5) first row and column, rows, columns, first value in `fields`
    fields:  distance fields in half resolution, one after the other [`atlas.UNIT_M`]
    starts:  (goals, n, 3) x, y, path length [m]
    costs:   costs to go, one after the other [`atlas.PRICED_M`]; cost_windows: (goals, 5) x, y of the corner [m], cells
             along x and y, first value in `costs`; empty without a teacher
    twists:  (29, 2) the actions, and backing off; ways: (2, 29, 9) `limits_kernel.CommandSpace`, zeros where nothing
             can bind
    ring_m, ring_mps: (2, rings) of the slow zone, one step and graded; radius 0 for no ring
    seen:    (180,) bins in view
    linear, angular: (8,) the configured plant
    fix_noise: (3, 3) of a fix
    """

    gap: Gaps
    by_column: Words
    by_row: Words
    blocked: Bools
    blocked_gap: Gaps
    goals: Floats
    windows: npt.NDArray[np.int64]
    fields: npt.NDArray[np.uint16]
    starts: Floats
    costs: npt.NDArray[np.uint16]
    cost_windows: Floats
    twists: Floats
    ways: Floats
    ring_m: Floats
    ring_mps: Floats
    seen: Bools
    linear: Floats
    angular: Floats
    fix_noise: Floats


class Lanes(NamedTuple):
    """Arrays of the lanes. states, tables, more: `TickState`, `TickTable`, `LaneState`; covariance: (n, 5, 5).

    work:  (n, 16, 5) as in `kalman.correct`
    tries: (n, tries) ticks in which the newest tries began, the oldest first; -inf for none
    near:  (n, 3) what the obstacles near by allow: the highest speed [m/s], the space behind [m], and the highest speed
           of backing off [m/s]
    """

    states: Records
    tables: Records
    more: Records
    covariance: Floats
    work: Floats
    tries: Floats
    near: Floats
    random: Words
    linear: Floats
    angular: Floats


class Views(NamedTuple):
    """What a call returns for each lane.

    state:   (n, 13) as in `policy.py`; critic: (n, 6) what only the critic sees
    reward, ended: (n,) of the step; ended: a value of `ENDS`, from 1, or 0
    spent_s, length_m, path_m: (n,) of the drive that ended
    """

    state: npt.NDArray[np.float32]
    critic: npt.NDArray[np.float32]
    reward: npt.NDArray[np.float32]
    fresh: npt.NDArray[np.float32]
    ended: npt.NDArray[np.float32]
    spent_s: npt.NDArray[np.float32]
    length_m: npt.NDArray[np.float32]
    path_m: npt.NDArray[np.float32]


# ---- Random numbers: splitmix64 (Steele et al., 2014), a generator for each lane

GOLDEN, MIX_A, MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@kernel
def mixed(value: np.uint64) -> np.uint64:
    """Return a hash of 64 bits."""
    value = (value ^ (value >> S30)) * MIX_A
    value = (value ^ (value >> S27)) * MIX_B
    last: np.uint64 = value ^ (value >> S31)
    return last


@kernel
def fraction_of(value: np.uint64) -> float:
    """Return the upper 53 bits as a number in [0, 1)."""
    return float(value >> S11) * (1.0 / 9007199254740992.0)


@kernel
def uniform(random: Words, lane: int, low: float, high: float) -> float:
    """Return a number drawn from [low, high)."""
    random[lane] += GOLDEN
    return low + (high - low) * fraction_of(mixed(random[lane]))


@kernel
def normal(random: Words, lane: int) -> float:
    """Return a number drawn from the standard normal distribution."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(random, lane, 0.0, 1.0)))
    return radius * math.cos(uniform(random, lane, 0.0, TURN_RAD))
