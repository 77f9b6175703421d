"""What took ground that was free blocks the planned path only if it stays: it may be a person who walks on.

A policy that plans around a person who crosses turns back, meets him again at the other passage, and turns back. So the
path leads through what has taken ground that scans of the last seconds looked through, until it has stayed for
`STAY_S`. The dynamic window and the limits act on every sighting at once: the robot waits there.

A cell's evidence in the local map is its age, from 1 down to 0. A cell that blocks no path has minus the number of
sightings that it waits for, less one, with the age added: -4.0 to -3.0 for three.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onboard.policy.dwa.costmap import CELL_M, LIFE_DECISIONS, SEE_M, SIDE, Floats32, LocalMap, observed
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan

STAY_S = 4.0
"""A person who met the robot stands for about 3 s, then gives way."""
EVERY_S, KEPT, LEAST = 1.0, 6, 2
"""A scan is kept so often, so many of them; ground was free if so many of them looked through it."""
THROUGH_M, THROUGH_SHARE = 0.15, 0.05
"""A scan looked through a cell if it returned from farther behind it than this, and this share of its distance."""
LOOK = 4 + BINS
"""Numbers of a kept scan: decisions since, from 1 on, x, y, yaw of the base, its ranges, 0 where it did not look."""
SURE, UNKNOWN = 0, -1
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SightedMap(LocalMap):
    """A local map with the scans that it is compared with.

    looks: (k, LOOK) float32, oldest first, in the frame of the cells
    """

    looks: Floats32 = field(default_factory=lambda: np.empty((0, LOOK), np.float32))


EMPTY = SightedMap(np.empty((0, 3), np.float32))


def sighted(known: SightedMap, pose: Pose, scan: Scan, radius_m: float, period_s: float) -> SightedMap:
    """Return the map after one scan, as `costmap.observed`, with what the path waits for.

    radius_m: of the circle about the origin inside the footprint
    period_s: time between two decisions
    """
    stay = round(STAY_S / period_s)
    waits, ages = _read(known.cells)
    plain = np.column_stack([known.cells[:, :2], ages])
    cells = observed(LocalMap(plain), pose, scan, radius_m).cells
    window = np.full((2, SIDE, SIDE), np.float32(UNKNOWN))
    inside, at = _places(plain, pose)
    window[:, at[0], at[1]] = waits[inside], ages[inside]
    _, at = _places(cells, pose)
    waited, age = window[:, at[0], at[1]]
    left = np.maximum(np.where(cells[:, 2] == 1.0, waited - 1.0, waited), SURE)
    new = np.flatnonzero(waited == UNKNOWN)
    left[new[_was_free(cells[new], known.looks)]] = stay
    left[(waited > SURE) & (cells[:, 2] < age - 2.0 / LIFE_DECISIONS)] = stay  # seen free near by: its time begins anew
    cells[:, 2] = np.where(left > SURE, cells[:, 2] - left - 1.0, cells[:, 2])
    return SightedMap(cells, known.failures, _with_look(known.looks, pose, scan, round(EVERY_S / period_s)))


def blocking(known: SightedMap) -> SightedMap:
    """Return the map with the cells that block a path."""
    return replace(known, cells=known.cells[known.cells[:, 2] > 0.0])


def _read(cells: Floats32) -> tuple[Floats32, Floats32]:
    """Return (k,) for how many sightings each cell waits, and its age."""
    evidence = cells[:, 2]
    waits = np.where(evidence < 0.0, np.floor(-evidence), 0.0).astype(np.float32)
    return waits, np.where(waits > 0.0, evidence + waits + 1.0, evidence).astype(np.float32)


def _was_free(cells: Floats32, looks: Floats32) -> Flags:
    """Return (k,) bool: through which cells `LEAST` of the kept scans looked."""
    centres = ((cells[:, :2] + 0.5) * CELL_M)[:, np.newaxis]
    x, y = np.moveaxis(centres - looks[np.newaxis, :, 1:3], -1, 0)
    away_m = np.hypot(x, y)
    at = np.floor((np.arctan2(y, x) - looks[:, 3] + np.pi) / BIN_RAD).astype(np.intp)
    number = np.arange(len(looks))
    ranges_m = np.min([looks[number, 4 + (at + side) % BINS] for side in (-1, 0, 1)], axis=0)
    through = (ranges_m > away_m * (1.0 + THROUGH_SHARE) + THROUGH_M) & (away_m < SEE_M)
    return np.asarray(through.sum(axis=1) >= LEAST)


def _with_look(looks: Floats32, pose: Pose, scan: Scan, every: int) -> Floats32:
    """Return the kept scans after a decision, with this one if it is due."""
    looks = looks + (np.arange(LOOK) == 0)
    if len(looks) and looks[-1, 0] <= every:
        return looks.astype(np.float32)
    ranges_m = np.where(scan.seen, np.minimum(scan.ranges_m, 2.0 * SEE_M), np.float32(0.0))  # a memory is finite
    one = np.concatenate([np.array((1.0, pose.x_m, pose.y_m, pose.yaw_rad), np.float32), ranges_m])
    return np.concatenate([looks, one[np.newaxis]])[-KEPT:].astype(np.float32)


def _places(cells: Floats32, pose: Pose) -> tuple[Flags, tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return (k,) bool, the cells in the pose's window, and the indices of these in the window."""
    corner = np.floor(np.array((pose.x_m, pose.y_m)) / CELL_M).astype(np.intp) - SIDE // 2
    at = cells[:, :2].astype(np.intp) - corner
    inside: Flags = ((at >= 0) & (at < SIDE)).all(axis=1)
    a, b = at[inside].T
    return inside, (a, b)
