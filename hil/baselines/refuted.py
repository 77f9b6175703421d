"""What a map holds and the scan sees through: obstacles that are no longer there."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.baselines.floor import Floor
from onboard.local_map import CELL_M
from onboard.messages import BINS, Pose, Scan
from onboard.scan_points import HIDDEN_M

Floats32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

SURE_M = 4.0
"""Farther away the error of the heading moves a ray by more than an obstacle's width."""
BEFORE_M, BESIDE = 0.35, 2
"""A cell is seen through when it lies so much before the nearest return of its bin and of so many on both sides."""
CAPACITY = 4000
"""Cells that are held to be gone at most."""


def refuted(floor: Floor, gone: Floats32, pose: Pose, scan: Scan) -> Floats32:
    """Return (k, 2) the cells of a floor's obstacles that a scan has seen through, now or before.

    One where a ray ends is there again. Too near, a low camera looks under things: that refutes nothing.

    gone: (k, 2) the same before this scan; pose: in the floor's frame
    """
    place = pose.x_m / CELL_M - floor.first[0], pose.y_m / CELL_M - floor.first[1], pose.yaw_rad
    at = (gone - np.array(floor.first, np.float32)).astype(np.int32)
    cells = _seen_through(floor.occupied, at, place, scan.ranges_m, scan.seen)
    return np.asarray(cells + np.array(floor.first), np.float32)


@njit(cache=True, nogil=True)
def _seen_through(
    occupied: Flags, gone: npt.NDArray[np.int32], place: tuple[float, float, float], ranges_m: Floats32, looked: Flags
) -> npt.NDArray[np.int32]:  # pragma: no cover - compiled
    """Return (k, 2) indices of cells; the place is in cells from the corner of the first one."""
    x, y, yaw_rad = place
    rows, columns = occupied.shape
    ranges = np.where(looked, ranges_m, np.float32(0.0))  # of blind bins nothing is known
    reach, bin_rad = math.ceil(SURE_M / CELL_M), 2.0 * math.pi / BINS
    free, count = np.zeros((rows, columns), np.bool_), len(gone)
    cells = np.empty((len(gone) + (2 * reach + 1) ** 2, 2), np.int32)
    for k in range(len(gone)):
        free[gone[k, 0], gone[k, 1]] = True
        cells[k] = gone[k]
    for i in range(max(0, int(x) - reach), min(rows, int(x) + reach + 1)):
        for j in range(max(0, int(y) - reach), min(columns, int(y) + reach + 1)):
            if not occupied[i, j] or free[i, j]:
                continue
            dx, dy = i + 0.5 - x, j + 0.5 - y
            away_m = CELL_M * math.sqrt(dx * dx + dy * dy)
            k = math.floor((math.atan2(dy, dx) - yaw_rad + math.pi) / bin_rad) % BINS
            seen_m = ranges[k] - BEFORE_M
            for beside in range(1, BESIDE + 1):
                seen_m = min(seen_m, ranges[k - beside] - BEFORE_M, ranges[(k + beside) % BINS] - BEFORE_M)
            if HIDDEN_M < away_m < min(seen_m, SURE_M):
                free[i, j], cells[count, 0], cells[count, 1] = True, i, j
                count += 1
    for k in range(BINS):
        azimuth = yaw_rad - math.pi + (k + 0.5) * bin_rad
        i, j = x + ranges[k] / CELL_M * math.cos(azimuth), y + ranges[k] / CELL_M * math.sin(azimuth)
        if 0.0 < ranges[k] < SURE_M and 0 <= i < rows and 0 <= j < columns:
            free[int(i), int(j)] = False
    kept = 0
    for k in range(count):
        if free[cells[k, 0], cells[k, 1]]:
            cells[kept] = cells[k]
            kept += 1
    return cells[: min(kept, CAPACITY)]
