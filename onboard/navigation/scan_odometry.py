"""Scan odometry: scan matching corrects the wheels from one key scan to the next. Pure.

The runtime calls it where `odometry.scan_matching` is on.

S1   each decision of the policy brings its scan here, before the robot's pose is taken for the decision
S2   the first scan of a drive is the key scan
S3   once the wheels have moved by KEY_M or KEY_RAD since the key scan, the scan is matched with it; the search begins
     at the motion of the wheels
S4   the filter takes the measured motion, behind its gate, which may doubt the wheels; then the scan is the key scan
S5   the odometry itself takes the most likely motion, also where the gate rejects; it counts while the filter has no
     place in the map
S6   without a match, because too few points agree, the wheels went far or slipped badly, the wheels alone count. The
     key scan stays for later scans, each RETRY further on, until the wheels have moved by AGAIN times as much
S7   a ready-made scan that was older than AGE_NS when it was taken is not matched: a turn in several messages is as old
     as its oldest part, and the robot has moved between the parts

The limits, the watch on stale odometry, the published `odom` and goals in it keep to the wheels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from onboard.navigation import ekf, odometry
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.fix_gating import DOUBT, passes_gate
from onboard.navigation.kalman import CREEP_VARIANCE, SCALE_VARIANCE
from onboard.navigation.odometry import Covariance, OdometryState, Sample
from onboard.perception import scan_matching
from onboard.perception.scan_matching import Ranges
from onboard.values.geometry import IDENTITY, between, compose, distance, wrap
from onboard.values.messages import Pose, Scan

KEY_M, KEY_RAD = 0.25, 0.25
"""Motion between two key scans: the scans still show the same walls, and matching errors add up seldom."""
AGAIN, RETRY = 3.0, 0.05
"""As factor on KEY_M and KEY_RAD, and in m and rad."""
AGE_NS = 50_000_000
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

    key:   None before the first scan of a drive
    pose:  of the base at the key scan, in the odom frame as corrected
    tried: the wheels at the last scan that did not match the key scan; None before
    matched, missed, rejected: key scans that were matched, that never were, whose motion the filter's gate rejected
    """

    key: Key | None = None
    pose: Pose = IDENTITY
    tried: Pose | None = None
    matched: int = 0
    missed: int = 0
    rejected: int = 0


def begin(state: ScanOdometry) -> ScanOdometry:
    """Return the state of a new drive: the odometry continues from the wheels."""
    return replace(state, key=None, tried=None)


def corrected(state: ScanOdometry, wheels: Pose) -> Pose:
    """Return the base's pose in the odom frame as corrected. wheels: the same by the wheels alone"""
    return wheels if state.key is None else compose(state.pose, between(state.key.wheels, wheels))


def advance(
    state: ScanOdometry,
    localization: LocalizationState,
    scan: Scan,
    wheels: OdometryState,
    registered: bool = False,
) -> tuple[ScanOdometry, LocalizationState]:
    """Return odometry and filter, which is already predicted to `wheels`, after the scan of a decision.

    registered: whether the scan is in the base frame of now (`scan.history` above 1), not of its stamp
    """
    then = wheels_at(scan, wheels, registered)
    if then is None or (scan.arrival_ns is not None and scan.arrival_ns - scan.stamp_ns > AGE_NS):
        return state, localization
    key, back = state.key, between(wheels.pose, then.motion.pose)
    if key is None:
        return _at_key(state, localization, scan, then, then.motion.pose, back)
    motion = between(key.wheels, then.motion.pose)
    if scan.stamp_ns <= key.stamp_ns or not _has_moved(motion, KEY_M, KEY_RAD):
        return state, localization
    if state.tried is not None and not _has_moved(between(state.tried, then.motion.pose), RETRY, RETRY):
        return state, localization
    spread = spread_of(motion, max(0.0, then.moving_s - key.moving_s))
    far = _has_moved(motion, FAR_M, FAR_RAD)
    found = None if far else scan_matching.match(key.ranges_m, scan.ranges_m, motion, spread)
    if found is None or not explains(found, motion, spread):
        if not _has_moved(motion, AGAIN * KEY_M, AGAIN * KEY_RAD):
            return replace(state, tried=then.motion.pose), localization
        state = replace(state, missed=state.missed + 1)
        return _at_key(state, localization, scan, then, compose(state.pose, motion), back)
    localization, passed = ekf.moved(localization, back, found.measured, found.covariance, spread)
    state = replace(state, matched=state.matched + int(passed), rejected=state.rejected + int(not passed))
    return _at_key(state, localization, scan, then, compose(state.pose, found.likely), back)


def _at_key(
    state: ScanOdometry, localization: LocalizationState, scan: Scan, then: Sample, pose: Pose, back: Pose
) -> tuple[ScanOdometry, LocalizationState]:
    """Return both with a new key scan."""
    key = Key(scan.stamp_ns, scan.ranges_m, then.motion.pose, then.moving_s)
    return replace(state, key=key, pose=pose, tried=None), ekf.keyed(localization, back)


def wheels_at(scan: Scan, wheels: OdometryState, registered: bool) -> Sample | None:
    """Return the odometry of the scan's base frame, by its age unless it is of now; None without such odometry."""
    if wheels.stamp_ns is None or wheels.arrival_ns is None:
        return None
    if registered:
        return Sample(wheels.stamp_ns, wheels.motion, wheels.moving_s)
    return odometry.at(wheels, wheels.stamp_ns + scan.stamp_ns - wheels.arrival_ns)


def _has_moved(motion: Pose, by_m: float, by_rad: float) -> bool:
    return distance(IDENTITY, motion) >= by_m or abs(motion.yaw_rad) >= by_rad


def spread_of(motion: Pose, moving_s: float) -> Covariance:
    """Return the (3, 3) covariance of the wheels' motion, with their systematic errors, in the first base frame."""
    spread = odometry.noise_along(IDENTITY, motion, moving_s) + FLOOR
    half = 0.5 * motion.yaw_rad
    ahead = moving_s * np.array([math.cos(half), math.sin(half), 0.0])
    along = np.array([motion.x_m, motion.y_m, 0.0])
    scale, creep = SCALE_VARIANCE, CREEP_VARIANCE
    total: Covariance = spread + scale * np.outer(along, along) + creep * np.outer(ahead, ahead)
    return total


def explains(found: scan_matching.Match, motion: Pose, spread: Covariance) -> bool:
    """Return whether the match fits wheels with `DOUBT` times their assumed noise."""
    off_x_m, off_y_m = found.likely.x_m - motion.x_m, found.likely.y_m - motion.y_m
    off = np.array([off_x_m, off_y_m, wrap(found.likely.yaw_rad - motion.yaw_rad)])
    return passes_gate(off, DOUBT**2 * spread)
