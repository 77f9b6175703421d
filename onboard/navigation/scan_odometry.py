"""Scan odometry: scan matching corrects the wheels from one key scan to the next. Pure. `odometry.scan_matching` is on.

S1   each decision of the policy brings its scan here, before the robot's pose is taken for the decision
S2   the first scan of a drive is the key scan
S3   once the wheels have moved by KEY_M or KEY_RAD since the key scan, the scan is matched with it; the wheels guess
S4   the filter takes the measured motion, behind its gate, which may doubt the wheels; then the scan is the key scan
S5   where the filter has no place in the map, the odometry itself takes the most likely motion
S6   without a match, because too few points agree, the wheels went far or slipped badly, the wheels alone count. The
     key scan stays for another decision's scan, until the wheels have moved by AGAIN times as much

The limits, the watch on stale odometry and the published `odom` keep to the wheels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import SYSTEMATIC_VARIANCE, LocalizationState
from onboard.navigation.fix_gating import DOUBT, passes_gate
from onboard.navigation.odometry import Covariance, OdometryState, Sample
from onboard.perception import scan_matching
from onboard.perception.scan_matching import Ranges
from onboard.values.geometry import IDENTITY, between, compose, distance, wrap
from onboard.values.messages import Pose, Scan

KEY_M, KEY_RAD = 0.25, 0.25
"""Motion between two key scans: the scans still show the same walls, and matching errors add up seldom."""
AGAIN = 3.0
FAR_M, FAR_RAD = 2.0, 2.0
"""Beyond this the wheels' guess is too uncertain to match."""
FLOOR = np.diag(np.square([0.005, 0.005, 0.002]))
"""Covariance of the wheels' guess at rest."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key scan. ranges_m: (180,) [m]; wheels, moving_s: the wheels' odometry when it was taken"""

    stamp_ns: int
    ranges_m: Ranges
    wheels: Pose
    moving_s: float


@dataclass(frozen=True, slots=True)
class ScanOdometry:
    """The corrected odometry.

    key:     None before the first scan of a drive
    pose:    of the base at the key scan, in the odom frame as corrected
    matched, missed, rejected: scans that were used, that did not match, that the filter's gate rejected
    """

    key: Key | None = None
    pose: Pose = IDENTITY
    matched: int = 0
    missed: int = 0
    rejected: int = 0


def begin(state: ScanOdometry) -> ScanOdometry:
    """Return the state of a new drive: the odometry goes on from the wheels."""
    return replace(state, key=None)


def corrected(state: ScanOdometry, wheels: Pose) -> Pose:
    """Return the base's pose in the odom frame as corrected. wheels: the same by the wheels alone"""
    return wheels if state.key is None else compose(state.pose, between(state.key.wheels, wheels))


def advance(
    state: ScanOdometry, localization: LocalizationState, scan: Scan, wheels: OdometryState
) -> tuple[ScanOdometry, LocalizationState]:
    """Return odometry and filter, which is already predicted to `wheels`, after the scan of a decision."""
    then = _wheels_at(scan, wheels)
    if then is None:
        return state, localization
    key, back = state.key, between(wheels.pose, then.motion.pose)
    if key is None:
        return _at_key(state, localization, scan, then, then.motion.pose, back)
    motion = between(key.wheels, then.motion.pose)
    away_m, turned = distance(IDENTITY, motion), abs(motion.yaw_rad)
    if scan.stamp_ns <= key.stamp_ns or (away_m < KEY_M and turned < KEY_RAD):
        return state, localization
    spread = _spread(motion, max(0.0, then.moving_s - key.moving_s))
    far = away_m > FAR_M or turned > FAR_RAD
    found = None if far else scan_matching.match(key.ranges_m, scan.ranges_m, motion, spread)
    if found is None or not _explains(found, motion, spread):
        state = replace(state, missed=state.missed + 1)
        if away_m < AGAIN * KEY_M and turned < AGAIN * KEY_RAD:
            return state, localization
        return _at_key(state, localization, scan, then, compose(state.pose, motion), back)
    localization, passed = ekf.moved(localization, back, found.measured, found.covariance, spread)
    state = replace(state, matched=state.matched + int(passed), rejected=state.rejected + int(not passed))
    return _at_key(state, localization, scan, then, compose(state.pose, found.likely), back)


def _at_key(
    state: ScanOdometry, localization: LocalizationState, scan: Scan, then: Sample, pose: Pose, back: Pose
) -> tuple[ScanOdometry, LocalizationState]:
    """Return both with a new key scan."""
    key = Key(scan.stamp_ns, scan.ranges_m, then.motion.pose, then.moving_s)
    return replace(state, key=key, pose=pose), ekf.keyed(localization, back)


def _wheels_at(scan: Scan, wheels: OdometryState) -> Sample | None:
    """Return the odometry when the scan was taken, by its age; None without odometry of that time."""
    if wheels.stamp_ns is None or wheels.arrival_ns is None:
        return None
    return odometry.at(wheels, wheels.stamp_ns + scan.stamp_ns - wheels.arrival_ns)


def _spread(motion: Pose, moving_s: float) -> Covariance:
    """Return the (3, 3) covariance of the wheels' motion, with their systematic errors, in the first base frame."""
    spread = odometry.noise_along(IDENTITY, motion, moving_s) + FLOOR
    half = 0.5 * motion.yaw_rad
    ahead = moving_s * np.array([math.cos(half), math.sin(half), 0.0])
    along = np.array([motion.x_m, motion.y_m, 0.0])
    scale, creep = SYSTEMATIC_VARIANCE[0, 0], SYSTEMATIC_VARIANCE[1, 1]
    total: Covariance = spread + scale * np.outer(along, along) + creep * np.outer(ahead, ahead)
    return total


def _explains(found: scan_matching.Match, motion: Pose, spread: Covariance) -> bool:
    """Return whether the match fits wheels with `DOUBT` times their assumed noise."""
    off_x_m, off_y_m = found.likely.x_m - motion.x_m, found.likely.y_m - motion.y_m
    off = np.array([off_x_m, off_y_m, wrap(found.likely.yaw_rad - motion.yaw_rad)])
    return passes_gate(off, DOUBT**2 * spread)
