"""Wheel odometry, and perfect fixes of it."""

from __future__ import annotations

from onboard.config.config import OdometrySection
from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import compose, distance, wrap
from onboard.values.messages import STOP, Fix, OdometryMessage, Pose, Twist

SECTION = OdometrySection()
MS = 1_000_000
PERIOD_NS = 20 * MS
LAG_NS = 5 * MS
CLOCK_NS = 1_700_000_000 * NS_PER_S
MAP_FROM_ODOM = Pose(10.0, -4.0, 2.0)
TURNING = Twist(1.0, 0.5)


def near(got: Pose | None, expected: Pose, tolerance: float = 1e-9) -> bool:
    assert got is not None
    return distance(got, expected) <= tolerance and abs(wrap(got.yaw_rad - expected.yaw_rad)) <= tolerance


def wheels_after(count: int, twist: Twist = TURNING, state: OdometryState | None = None) -> OdometryState:
    """Return odometry after `count` more messages of one twist."""
    state = state or odometry.advance(OdometryState(), OdometryMessage(CLOCK_NS, LAG_NS, None, STOP), SECTION)
    assert state.stamp_ns is not None
    for _ in range(count):
        stamp_ns = (state.stamp_ns or 0) + PERIOD_NS
        message = OdometryMessage(stamp_ns, stamp_ns - CLOCK_NS + LAG_NS, None, twist)
        state = odometry.advance(state, message, SECTION)
    return state


def fix_at(wheels: OdometryState, ago_ns: int, map_from_odom_pose: Pose = MAP_FROM_ODOM, **other: object) -> Fix:
    """Return a perfect fix of the pose `ago_ns` before the newest odometry message, arrived just now."""
    stamp_ns = (wheels.stamp_ns or 0) - ago_ns
    sample = odometry.at(wheels, stamp_ns)
    assert sample is not None
    values = {
        "stamp_ns": stamp_ns,
        "arrival_ns": wheels.arrival_ns or 0,
        "pose": compose(map_from_odom_pose, sample.motion.pose),
    } | other
    return Fix(**values)  # type: ignore[arg-type]


def after(wheels: OdometryState, *fixes: Fix, state: LocalizationState | None = None) -> LocalizationState:
    return ekf.advance(state or LocalizationState(), fixes, wheels, SECTION)


def jumped(x_m: float) -> Pose:
    return Pose(MAP_FROM_ODOM.x_m + x_m, MAP_FROM_ODOM.y_m, MAP_FROM_ODOM.yaw_rad)
