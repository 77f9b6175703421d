"""Loop closures: a keyframe is searched in the local map of keyframes that were driven much earlier.

The search is correlative over a window (`map_fit.search`), then a fit. A closure is kept only if the scan agrees with
that local map: most points lie on its obstacles, hardly a ray goes through them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hil.recordings.mapping.keyframes import Keyframe, local_map, scan_in
from hil.recordings.mapping.pose_graph import Edge
from hil.recordings.mapping.registration import lines_of, register, turned_by
from onboard.perception.building import map_fit
from onboard.values.geometry import between, distance
from onboard.values.messages import BINS, Pose

APART, EVERY = 30, 4
"""Keyframes between both sides of a loop, at least; of every so many keyframes one is searched."""
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


def find(frames: Sequence[Keyframe], poses: Sequence[Pose]) -> list[Edge]:
    """Return the loop closures of keyframes at these poses."""
    edges = []
    xy = np.array([[pose.x_m, pose.y_m] for pose in poses])
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    for second in range(APART, len(frames), EVERY):
        earlier = np.arange(second - APART)
        away_m = np.hypot(*(xy[earlier] - xy[second]).T)
        near = away_m < REACH_M + np.minimum(DRIFT * (way[second] - way[earlier]), WINDOW_M)
        if not near.any():
            continue
        first = int(earlier[near][np.argmin(away_m[near])])
        edge = _closed(frames, poses, first, second)
        if edge is not None:
            edges.append(edge)
    return edges


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
