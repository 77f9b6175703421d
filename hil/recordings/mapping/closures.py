"""Loop closures: a keyframe is searched in the local map of keyframes that were driven much earlier.

The search is correlative over a window (`map_fit.search`), then a fit. A closure is kept only if the scan agrees with
that local map: most points lie on its obstacles, hardly a ray goes through them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.recordings.mapping.keyframes import Keyframe, local_map, scan_in
from hil.recordings.mapping.pose_graph import Edge
from hil.recordings.mapping.registration import lines_of, register, turned_by
from onboard.perception.building import map_fit
from onboard.values.geometry import between, distance, wrap
from onboard.values.messages import BINS, Pose

Floats = npt.NDArray[np.float64]

APART_M, EVERY_M = 9.0, 1.5
"""Path between both sides of a loop, at least; one keyframe is searched on every so much path."""
AROUND = 8
"""Keyframes of the local map, to each side."""
REACH_M, DRIFT = 2.0, 0.04
"""A keyframe is searched within this distance of another, and of the drift of the way between them."""
WINDOW_M, WINDOW_RAD = 1.2, 0.5
SEARCH_SD = (0.1, 0.1, 0.06)
"""Standard deviation of what the search finds: x, y [m], yaw [rad]."""
LEAST_EXPLAINED, MOST_THROUGH = 0.6, 0.05
TRUSTED = 0.5
"""Share of the fit's information that counts: the local map has errors of its own."""
SAME_M, SAME_RAD = 0.3, 0.1
"""A search is not repeated where both keyframes are still so near to where it found them, or began without success."""


@dataclass(frozen=True)
class Attempt:
    """A search for a keyframe near an earlier one. expected: motion between both that it found, or began with

    edge: the closure; None where the scan does not agree
    """

    first: int
    expected: Pose
    edge: Edge | None


def find(frames: Sequence[Keyframe], poses: Sequence[Pose], before: Mapping[int, Attempt]) -> dict[int, Attempt]:
    """Return the searches for keyframes at these poses, by number. before: those at earlier poses, none at first"""
    attempts = {}
    xy = np.array([[pose.x_m, pose.y_m] for pose in poses])
    way_m = np.concatenate([[0.0], np.cumsum([distance(Pose(0.0, 0.0, 0.0), frame.motion) for frame in frames[1:]])])
    for second in np.flatnonzero(np.diff(way_m // EVERY_M)) + 1:
        attempt = before.get(int(second))
        if attempt is None or not _holds(attempt, poses, int(second)):
            attempt = _searched(frames, poses, int(second), xy, way_m)
        if attempt is not None:
            attempts[int(second)] = attempt
    return attempts


def _holds(attempt: Attempt, poses: Sequence[Pose], second: int) -> bool:
    motion = between(poses[attempt.first], poses[second])
    turned_rad = abs(wrap(motion.yaw_rad - attempt.expected.yaw_rad))
    return distance(motion, attempt.expected) < SAME_M and turned_rad < SAME_RAD


def _searched(
    frames: Sequence[Keyframe], poses: Sequence[Pose], second: int, xy: Floats, way_m: Floats
) -> Attempt | None:
    """Return a search near the nearest earlier keyframe; None where none is near."""
    earlier = slice(0, int(np.searchsorted(way_m, way_m[second] - APART_M)))
    away_m = np.hypot(*(xy[earlier] - xy[second]).T)
    near = away_m < REACH_M + np.minimum(DRIFT * (way_m[second] - way_m[earlier]), WINDOW_M)
    if not near.any():
        return None
    first = int(np.argmin(np.where(near, away_m, np.inf)))
    edge = _closed(frames, poses, first, second)
    return Attempt(first, between(poses[first], poses[second]) if edge is None else edge.motion, edge)


def _closed(frames: Sequence[Keyframe], poses: Sequence[Pose], first: int, second: int) -> Edge | None:
    """Return the closure of two keyframes, None where the scan does not agree."""
    around = [(frames[k].points, poses[k]) for k in _about(first, len(frames))]
    local, lines, scan = local_map(around), lines_of(around), scan_in(frames[second].ranges_m)
    if local is None or lines is None:
        return None
    pose, _ = map_fit.search(scan, local, poses[second], WINDOW_M, WINDOW_RAD)
    found = register(frames[second].points, lines, pose, np.diag(np.square(SEARCH_SD)))
    if found is None or distance(found.pose, poses[second]) > math.sqrt(2.0) * WINDOW_M:
        return None
    agreed = map_fit.agreement(scan, local, found.pose)
    if agreed.points < BINS // 4 or agreed.explained < LEAST_EXPLAINED or agreed.through > MOST_THROUGH:
        return None
    information = TRUSTED * np.linalg.inv(_seen_from(poses[first], found.covariance))
    return Edge(first, second, between(poses[first], found.pose), information, closure=True)


def _seen_from(frame: Pose, covariance: np.ndarray) -> np.ndarray:
    turned = turned_by(-frame.yaw_rad)
    return np.asarray(turned @ covariance @ turned.T)


def _about(number: int, count: int) -> range:
    return range(max(0, number - AROUND), min(count, number + AROUND + 1))
