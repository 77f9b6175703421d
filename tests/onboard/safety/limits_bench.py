"""Situations for tests of the limits: free space, obstacles, an operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard.config.config import LimitsSection, load_config
from onboard.config.footprint import Footprint
from onboard.config.plant_model import Plant, load_plant
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.safety.limits import Bounds, LimitedCommand, LimitsState, Situation, bounds_of, limit
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BIN_DEG, BINS, STOP, Scan, Teleop, Twist

CONFIG = load_config(None)
PLANT: Plant = load_plant(CONFIG.robot.plant)
MS = 1_000_000
TICK_NS = round(NS_PER_S / 30)
NOW_NS = 1000 * NS_PER_S
RADIUS_M = 0.25


def bounds_with(**section: object) -> Bounds:
    """Return the limits with a slow zone of one step, unless the section states another."""
    return bounds_of(LimitsSection(**{"slow_steps": 1, **section}), PLANT, Footprint(RADIUS_M), 200.0)  # type: ignore[arg-type]


BOUNDS = bounds_with()


def scan_of(*points: tuple[float, float], stamp_ns: int = NOW_NS, blind: tuple[float, float] | None = None) -> Scan:
    """Return a scan that sees points (x, y); blind where a bin's centre is in the sector [deg]."""
    ranges = np.full(BINS, np.inf, dtype=np.float32)
    for x, y in points:
        index = int(np.floor((np.degrees(np.arctan2(y, x)) + 180.0) / BIN_DEG)) % BINS
        ranges[index] = min(ranges[index], np.hypot(x, y))
    seen = np.ones(BINS, dtype=np.bool_)
    if blind is not None:
        centers = np.degrees(BIN_CENTERS_RAD)
        seen = ~((centers >= blind[0]) & (centers <= blind[1]))
    return Scan(stamp_ns, ranges, seen)


FREE = Situation(NOW_NS, None, False, None, NOW_NS, scan_of())
STARTED = LimitsState(sent=STOP, sent_ns=NOW_NS - TICK_NS)
AHEAD = Twist(1.0, 0.0)


def limited(
    wanted: Twist | None, situation: Situation = FREE, bounds: Bounds = BOUNDS, state: LimitsState = STARTED
) -> LimitedCommand:
    return limit(state, wanted, situation, bounds)[1]


def before(
    *points: tuple[float, float], wanted: Twist = AHEAD, bounds: Bounds = BOUNDS, **other: object
) -> LimitedCommand:
    """Return the limited command before obstacles."""
    return limited(wanted, replace(FREE, scan=scan_of(*points), **other), bounds)  # type: ignore[arg-type]


def operator(twist: Twist, age_ns: int = 0) -> Teleop:
    return Teleop(NOW_NS - age_ns, twist)
