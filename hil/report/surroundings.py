"""What the robot saw around its path: the places that its scans hit, and the scan wherever a command was cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hil.report.charts import AZIMUTHS_RAD
from hil.report.events import ZONE, row_of, runs
from hil.report.timeline import Floats, Timeline

WALL_M = 5.0
"""Scans show walls up to this range; farther points scatter."""
NEAR_M = 3.0
"""The scan at a cut is shown up to this range."""
MOST_SCANS = 1_500
MOST_CELLS = 6_000
LEAST_HITS = 3
CELL_PX = 2.0
MOST_CUTS = 12
HEADING_M = 0.5

Projection = Callable[[Floats], Floats]
"""Points (n, 2) of the path's frame [m] as pixels."""


@dataclass(frozen=True, slots=True)
class CutCommand:
    """A command that the collision zones cut: SVG paths of the scan and of the heading, and the tooltip."""

    scan: str
    heading: str
    text: str


def walls_of(timeline: Timeline, poses: Floats, project: Projection) -> str:
    """Return the known walls as an SVG path of dots: cells that LEAST_HITS scans or more hit, from known poses."""
    known = np.flatnonzero(np.isfinite(poses).all(axis=1))
    rows = known[:: max(1, len(known) // MOST_SCANS)]
    least = min(LEAST_HITS, len(rows))
    hits = [np.floor(project(_points(timeline, poses, row, WALL_M)) / CELL_PX) for row in rows.tolist()]
    cells, counts = np.unique(np.concatenate([np.empty((0, 2)), *hits]), axis=0, return_counts=True)
    cells, counts = cells[counts >= least], counts[counts >= least]
    return _dots((cells[np.argsort(-counts, kind="stable")[:MOST_CELLS]] + 0.5) * CELL_PX)


def cuts_of(timeline: Timeline, poses: Floats, project: Projection) -> list[CutCommand]:
    """Return the largest cuts, at most one a stretch of one reason."""
    taken = np.nan_to_num(np.abs(timeline.wanted - timeline.command)).sum(axis=1)
    worst = [
        first + int(taken[first : last + 1].argmax())
        for first, last, reason in runs(timeline.reason)
        if row_of(str(reason)).kind == ZONE
    ]
    shown = [row for row in worst if taken[row] > 0.0 and np.isfinite(poses[row]).all()]
    return [
        _cut(timeline, poses, row, project) for row in sorted(sorted(shown, key=lambda row: -taken[row])[:MOST_CUTS])
    ]


def _cut(timeline: Timeline, poses: Floats, row: int, project: Projection) -> CutCommand:
    x_m, y_m, yaw_rad = poses[row].tolist()
    ahead = [x_m + HEADING_M * np.cos(yaw_rad), y_m + HEADING_M * np.sin(yaw_rad)]
    begin, end = project(np.array([[x_m, y_m], ahead])).tolist()
    heading = f"M{begin[0]:.1f} {begin[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"
    wanted, sent = (f"{one[row, 0]:.2f} m/s, {one[row, 1]:.2f} rad/s" for one in (timeline.wanted, timeline.command))
    text = f"{timeline.t_s[row]:.2f} s: {row_of(timeline.reason[row]).code}: wanted {wanted}; sent {sent}"
    return CutCommand(_dots(project(_points(timeline, poses, row, NEAR_M))), heading, text)


def _points(timeline: Timeline, poses: Floats, row: int, most_m: float) -> Floats:
    """Return (n, 2) the places that the scan of a tick hit, in the path's frame [m]."""
    ranges = timeline.scans[row].astype(np.float64)
    hit = np.isfinite(ranges) & (ranges < most_m)
    bearing = poses[row, 2] + AZIMUTHS_RAD[hit]
    return np.asarray(poses[row, :2] + ranges[hit, None] * np.column_stack([np.cos(bearing), np.sin(bearing)]))


def _dots(points_px: Floats) -> str:
    return "".join(f"M{x:.0f} {y:.0f}h0" for x, y in points_px.tolist() if abs(x) < 1e4 and abs(y) < 1e4)
