"""Drives with the simulator's wheels and fixes, and the filter's estimate after each tick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hil.drive.robot import TICK_HZ
from hil.physics import odometry_noise
from onboard.config.config import OdometrySection
from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between
from onboard.values.messages import STOP, Fix, OdometryMessage, Pose, Twist

SECTION = OdometrySection()
STANDS_S = 2
DRIVEN_S = 24
RESTS_S = 3
FIRST_JUDGED_S = 6
"""By then the filter has had a few fixes."""
HOLD_TICKS = 30
SPEEDS_MPS = (1.0, 1.0, 0.6, 0.3, 0.0, -0.2)
"""Fast, slow, turning in place and backing off."""

Course = Callable[[float, np.random.Generator], Twist]
Alteration = Callable[[float, Pose, Pose], Pose]
"""Time [s], true pose, honest fix -> the fix that comes."""


@dataclass(frozen=True)
class Moment:
    """State after a tick. error_m: forward, lateral; squared: normalised by the covariance; moving: it counts."""

    time_s: float
    error_m: tuple[float, float]
    squared: float
    moving: bool
    state: LocalizationState

    @property
    def off_m(self) -> float:
        return math.hypot(*self.error_m)


def about(time_s: float, generator: np.random.Generator) -> Twist:
    """Another twist every second."""
    return Twist(float(generator.choice(SPEEDS_MPS)), float(generator.uniform(-1.0, 1.0)))


def ahead(time_s: float, generator: np.random.Generator) -> Twist:
    return Twist(1.0, 0.0)


def at_rest(time_s: float, generator: np.random.Generator) -> Twist:
    return STOP


def honest(time_s: float, true: Pose, fix: Pose) -> Pose:
    return fix


def filtered_drive(
    seed: int,
    drift_scale: float = 1.0,
    period_s: tuple[float, float] = odometry_noise.FIX_PERIOD_S,
    course: Course = about,
    altered: Alteration = honest,
    rests_s: int = RESTS_S,
) -> list[Moment]:
    """Return the filter's estimate after each tick from the first fix on: the robot stands, drives and stands again."""
    generator = np.random.default_rng(seed)
    true, twist, drift, due_ns, moments = Pose(5.0, -3.0, 1.0), STOP, odometry_noise.Drift(IDENTITY), 0, []
    wheels, state = OdometryState(), LocalizationState()
    for tick in range((DRIVEN_S + rests_s) * TICK_HZ):
        moving = STANDS_S * TICK_HZ <= tick < DRIVEN_S * TICK_HZ
        if not moving:
            twist = STOP
        elif tick % HOLD_TICKS == 0:
            twist = course(tick / TICK_HZ, generator)
        true = odometry.integrate(true, twist, 1.0 / TICK_HZ)
        drift, reported = odometry_noise.drift_step(drift, twist, drift_scale, generator)
        stamp_ns = round((tick + 1) * NS_PER_S / TICK_HZ)
        wheels = odometry.advance(wheels, OdometryMessage(stamp_ns, stamp_ns, drift.pose, reported), SECTION)
        fixes = []
        if stamp_ns >= due_ns:
            due_ns = odometry_noise.next_fix_ns(stamp_ns, generator, period_s)
            pose = altered(tick / TICK_HZ, true, odometry_noise.noisy_fix(true, 1.0, generator))
            fixes = [Fix(stamp_ns, stamp_ns, pose)]
        state = ekf.advance(state, fixes, wheels, SECTION)
        moments.append(_moment(tick, true, state, moving and tick >= FIRST_JUDGED_S * TICK_HZ))
    return moments


def _moment(tick: int, true: Pose, state: LocalizationState, moving: bool) -> Moment:
    assert state.map_from_base is not None
    assert state.covariance is not None
    seen = between(true, state.map_from_base)
    strayed = np.array([state.map_from_base.x_m - true.x_m, state.map_from_base.y_m - true.y_m, seen.yaw_rad])
    squared = float(strayed @ np.linalg.solve(state.covariance[:3, :3], strayed))
    return Moment(tick / TICK_HZ, (seen.x_m, seen.y_m), squared, moving, state)
