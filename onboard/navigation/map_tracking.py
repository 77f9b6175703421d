"""The robot's place in the map by its own scan: corrects the filter, and notices where map and scan disagree. Pure.

M1   the tracker runs in the slots of decisions, also while the robot stands or an operator drives
M2   with `map.tracker`, each message on `/initialpose` starts the filter there; there is no other localisation
M3   each scan is fitted to the map (`map_fit.py`), from the filter's pose and covariance; the filter takes the result
     behind its gate, as any fix
M4   map and scan disagree in a slot if too many rays go on behind obstacles of the map, or too few points of the scan
     lie on them. Points where the map has no obstacle in range are not counted: in a hall the scan shows furniture only
M5   the doubt grows by the time of disagreement and falls by that of agreement, between 0 and LOST_S. At LOST_S the
     robot is lost, until the doubt is 0 again
M6   lost with the tracker: the filter takes no fix and counts as contradicted, so goals in the map are refused, and a
     drive stands until the robot is found
M7   lost with another localisation: policies drive as without a map, and the diagnostics say so
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from onboard.config.config import OdometrySection
from onboard.navigation import ekf
from onboard.navigation.ekf import OUTLIERS_TO_DOUBT, LocalizationState
from onboard.navigation.odometry import OdometryState
from onboard.navigation.scan_odometry import AGE_NS, wheels_at
from onboard.perception.building import map_fit
from onboard.perception.building.map_fit import Agreement
from onboard.perception.building.reach import Reach
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import between, compose
from onboard.values.messages import Fix, Scan
from onboard.values.reasons import NO_REASON, Said

LOST_S = 3.0
LONGEST_NS = NS_PER_S
"""A longer time between two scans counts as this."""
LEAST_EXPLAINED, MOST_THROUGH = 0.2, 0.2
"""The least share of the expected points that is explained, and the most rays that go through, by the square of the
share of all points: walls at right angles explain half of the points at many wrong places. Chosen on furnished floors
with their bare plan as the map, and with half of the furniture moved since (docs/building.md)."""
LEAST_COUNTED = 20
"""Points or rays; fewer say nothing."""
SD = (0.01, 0.01, 0.004)
"""Least standard deviation of a fit: x, y [m], yaw [rad]."""
SPREAD = np.diag(np.square([0.02, 0.02, 0.01]))
"""Covariance that is added to the filter's, for the guess: it may be too sure."""


@dataclass(frozen=True, slots=True)
class MapTracking:
    """What the tracker knows.

    lost:      see M5; tracks: whether the tracker runs, or another localisation
    doubt_ns:  see M5
    stamp_ns:  of the newest scan that was compared
    fits, misses: scans that were fitted, and that were not
    """

    lost: bool = False
    tracks: bool = False
    doubt_ns: int = 0
    newest: Agreement = field(default_factory=Agreement)
    stamp_ns: int = 0
    fits: int = 0
    misses: int = 0


def begin(
    state: MapTracking,
    localization: LocalizationState,
    fixes: Iterable[Fix],
    wheels: OdometryState,
    section: OdometrySection,
) -> tuple[MapTracking, LocalizationState]:
    """Return both with the filter started at the newest initial pose (M2). Never raises: see `refusal`."""
    for fix in fixes:
        started = ekf.correct(LocalizationState(systematic=localization.systematic), fix, wheels, section)
        if started.refusal:
            return state, replace(localization, refusal=started.refusal, refused=localization.refused + 1)
        state, localization = MapTracking(fits=state.fits, misses=state.misses), started
    return state, localization


def advance(
    state: MapTracking,
    localization: LocalizationState,
    scan: Scan,
    wheels: OdometryState,
    reach: Reach,
    section: OdometrySection,
    *,
    tracks: bool,
    registered: bool = False,
) -> tuple[MapTracking, LocalizationState]:
    """Return state and filter, which is already predicted to `wheels`, after the scan of a slot.

    tracks: `map.tracker`; registered: as of `scan_odometry.advance`
    """
    then = wheels_at(scan, wheels, registered)
    late = scan.arrival_ns is not None and scan.arrival_ns - scan.stamp_ns > AGE_NS
    if then is None or late or scan.stamp_ns <= state.stamp_ns:
        return state, localization
    if localization.map_from_base is None or localization.covariance is None:
        return replace(state, tracks=tracks, lost=False, doubt_ns=0, stamp_ns=scan.stamp_ns), localization
    guess = compose(localization.map_from_base, between(wheels.pose, then.motion.pose))
    covariance = localization.covariance[:3, :3] + SPREAD
    found = map_fit.fit(scan, reach, guess, covariance) if tracks else None
    newest = map_fit.agreement(scan, reach, guess if found is None else found.likely)
    state = _judged(replace(state, newest=newest, tracks=tracks), scan.stamp_ns)
    if not tracks:
        return state, localization
    if state.lost:
        doubted = replace(localization, rejected_in_row=OUTLIERS_TO_DOUBT, refusal=reasons.LOST.say(**_shares(newest)))
        return state, doubted
    if found is None:
        return replace(state, misses=state.misses + 1), localization
    fix = Fix(then.stamp_ns, wheels.arrival_ns or 0, found.measured, found.covariance)
    exact = section.model_copy(update={"localization_sd": SD})
    return replace(state, fits=state.fits + 1), ekf.correct(localization, fix, wheels, exact)


def disagrees(newest: Agreement) -> bool:
    """Return whether map and scan disagree (M4)."""
    if newest.points < LEAST_COUNTED:
        return False
    through = newest.rays >= LEAST_COUNTED and newest.through > MOST_THROUGH * newest.explained**2
    few = newest.explained * newest.points < LEAST_EXPLAINED * newest.expected
    return through or (newest.expected >= LEAST_COUNTED and few)


def _judged(state: MapTracking, stamp_ns: int) -> MapTracking:
    """Return the state after a slot (M5). stamp_ns: of its scan"""
    passed_ns = min(stamp_ns - state.stamp_ns, LONGEST_NS)
    doubt_ns = state.doubt_ns + (passed_ns if disagrees(state.newest) else -passed_ns)
    doubt_ns = min(max(doubt_ns, 0), round(LOST_S * NS_PER_S))
    lost = doubt_ns > 0 if state.lost else doubt_ns >= LOST_S * NS_PER_S
    return replace(state, lost=lost, doubt_ns=doubt_ns, stamp_ns=stamp_ns)


def _shares(newest: Agreement) -> dict[str, float]:
    return {"explained": 100.0 * newest.explained, "through": 100.0 * newest.through}


def to_do(state: MapTracking, localization: LocalizationState) -> Said:
    """Return what a robot with a tracker needs before it drives in the map, "" for nothing. It stays the same."""
    if not state.tracks:
        return NO_REASON
    if localization.map_from_base is None:
        return reasons.NOT_LOCATED.say()
    return reasons.LOST_STANDS.say() if state.lost else NO_REASON


def lost_text(state: MapTracking) -> Said:
    """Return what the diagnostics say of a lost robot, "" if it is not."""
    if not state.lost:
        return NO_REASON
    return (reasons.LOST if state.tracks else reasons.MAP_DISAGREES).say(**_shares(state.newest))
