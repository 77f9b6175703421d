"""Compiled limits for a command in a drive without operator, e-stop or lost inputs.

In such a drive only the zones around the robot bind a command. There are four exceptions: the footprint is a polygon,
the limits ramp, the command is too fast, or it leads into a sector that no camera sees. For these `reach_m` is None,
and the caller must use `onboard.safety.limits.limit`.
tests/hil/drive/fast/test_limits_kernel_definition.py compares both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import floored
from onboard.perception import collision
from onboard.perception.collision import (
    REST_MPS,
    UNIT,
    SectorView,
    contact_mps,
    point_travel_m,
    ring_mps,
    stoppable_mps,
)
from onboard.perception.obstacle_memory import AHEAD
from onboard.safety.limits import Bounds
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, STOP, Scan, Twist

# ---- Compiled test of the cells near the robot, before any scan is cast

HALF_SECTOR = 2.0 * math.sin(0.5 * math.pi / BINS)
"""Chord of half a sector at a range of 1."""
CELL_MARGIN_M = 1e-5


class CommandSpace(NamedTuple):
    """A command that moves the base, and the space that must be free so that no zone binds the command.

    v, w:        the command [m/s, rad/s]
    reach_m:     obstacles farther away do not matter [m]
    zones:       swept, slow (its outermost ring), contact
    <zone>_m:    radius of the zone's circle [m]; 0 if the zone does not matter
    <zone>_way_m: distance along the arc for which the zone's circle must be free [m]
    """

    v: float
    w: float
    reach_m: float
    swept_m: float
    swept_way_m: float
    slow_m: float
    slow_way_m: float
    contact_m: float
    contact_way_m: float


REACH, ZONES = 2, 3
"""Index of the reach in `Ways`, and of the first zone. Each zone is a radius and a way."""
NONE = np.empty(0)
"""Used instead of `Ways` for a command that no obstacle can bind."""


@kernel
def cells_may_bind(
    x_m: float, y_m: float, yaw: float, ways: npt.NDArray[np.float64], cell_m: float,
    solid: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8],
) -> bool:  # fmt: skip
    """Return whether a solid cell may make the limits change the command of `ways`, from a pose in the grid frame.

    True outside the grid.
    solid: (rows, columns) bool; True for cells that the scan can see
    gap:   (rows, columns) chessboard distance to the nearest cell that may be solid [cells]
    """
    rows, columns = solid.shape
    column, row = floored(x_m / cell_m), floored(y_m / cell_m)
    if not (0 <= row < rows and 0 <= column < columns):
        return True
    half_m = math.sqrt(0.5) * cell_m + CELL_MARGIN_M
    far_m = (ways[REACH] + half_m) * (1.0 + HALF_SECTOR) + half_m
    if (int(gap[row, column]) - 1) * cell_m > far_m:
        return False
    reach = -floored(-far_m / cell_m)
    c, s = math.cos(yaw), math.sin(yaw)
    for r in range(max(row - reach, 0), min(row + reach + 1, rows)):
        k, last = max(column - reach, 0), min(column + reach + 1, columns)
        while k < last:
            free = int(gap[r, k])
            if free > 0:
                k += free  # no solid cell within this distance
                continue
            if solid[r, k]:
                dx, dy = (k + 0.5) * cell_m - x_m, (r + 0.5) * cell_m - y_m
                distance_m = math.sqrt(dx * dx + dy * dy)
                if distance_m <= far_m and _may_bind(c * dx + s * dy, c * dy - s * dx, distance_m, half_m, ways):
                    return True
            k += 1
    return False


@kernel
def _may_bind(ahead: float, aside: float, distance_m: float, half_m: float, ways: npt.NDArray[np.float64]) -> bool:
    """Return whether a cell may bind the command; (ahead, aside) is its centre in the base frame [m]."""
    off_m = half_m + (distance_m + half_m) * HALF_SECTOR
    for zone in range(ZONES, len(ways), 2):
        if ways[zone] > 0.0:
            meets_m = soonest_m(ahead, aside, ways[0], ways[1], ways[zone] + off_m, off_m)
            if meets_m <= ways[zone + 1] + CELL_MARGIN_M:
                return True
    return False


@kernel
def soonest_m(ahead: float, aside: float, v: float, w: float, radius_m: float, off_m: float) -> float:
    """Return a lower bound of the way until a circle of `radius_m` - `off_m` meets a point [m].

    The point is at most `off_m` away from (ahead, aside). So the bound is the way of the circle of `radius_m`. It is 0
    where that circle overlaps a position less than `off_m` behind (the point may be ahead), and where the arc is so
    tight that the circle overlaps the position all the way round: the point's bearing alone decides then.
    """
    if math.copysign(1.0, v) * ahead > -off_m and math.hypot(ahead, aside) < radius_m:
        return 0.0
    turn_m = v / w if w != 0.0 else math.inf
    if math.hypot(ahead, aside - turn_m) + abs(turn_m) <= radius_m:
        return 0.0
    return point_travel_m(ahead, aside, v, w, radius_m)


Floats = npt.NDArray[np.float64]

MOST_JUDGED = 10_000
"""Largest number of cached commands: continuous actions hardly ever repeat."""
MARGIN_M = 1e-6
"""Added to the reach: much larger than any rounding error."""


@dataclass(frozen=True, slots=True)
class FastLimits:
    """The limits of one robot. seen: (180,) bool, the bins in view of its scan, the same in every scan."""

    bounds: Bounds
    seen: npt.NDArray[np.bool_]
    _judged: dict[Twist, tuple[float | None, Floats]] = field(default_factory=dict)
    _rings: tuple[Floats, Floats] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare radius and speed of each ring of the slow zone."""
        rings = [(ring.footprint.radius_m, ring.mps) for ring in self.bounds.slow]
        radii_m, speeds_mps = np.array(rings).T
        object.__setattr__(self, "_rings", (radii_m.copy(), speeds_mps.copy()))

    @property
    def remembers(self) -> bool:
        """Return whether the obstacle memory can matter: it is on, and no camera sees some bins ahead.

        The corners of a polygon sweep to all sides.
        """
        matters = AHEAD if self.bounds.footprint.is_round else np.ones_like(AHEAD)
        return self.bounds.remember_ns > 0 and bool((~self.seen & matters).any())

    def reach_m(self, wanted: Twist) -> float | None:
        """Return the largest range at which an obstacle can bind a command [m].

        0 if no obstacle can bind the command. None if the caller must use `limits.limit`, whatever the scan shows.
        """
        return self._judge(wanted)[0]

    def ways(self, wanted: Twist) -> Floats:
        """Return `Ways` as a (9,) array; empty if `reach_m` is 0 or None."""
        return self._judge(wanted)[1]

    def limited(self, ranges_m: npt.NDArray[np.float32], wanted: Twist) -> Twist:
        """Return the command that `limits.limit` returns, up to rounding. `reach_m` of `wanted` must not be None."""
        ways, bounds = self.ways(wanted), self.bounds
        if len(ways) == 0:
            return wanted
        brake = bounds.braking_mps2, bounds.reaction_s
        allowed_mps = _allowed_mps(ranges_m, ways, *self._rings, *brake, bounds.time_to_contact_s)
        if abs(wanted.v_mps) <= allowed_mps:
            return wanted
        part = allowed_mps / abs(wanted.v_mps)
        return Twist(wanted.v_mps * part, wanted.w_radps * part)

    def _judge(self, wanted: Twist) -> tuple[float | None, Floats]:
        """Return `reach_m` and `ways` of a command; cache both for the next call."""
        if wanted not in self._judged:
            if len(self._judged) >= MOST_JUDGED:
                self._judged.clear()
            ways = self._ways(wanted)
            if ways is None:
                self._judged[wanted] = None, NONE
            else:
                self._judged[wanted] = float(ways[REACH]) if len(ways) else 0.0, ways
        return self._judged[wanted]

    def _ways(self, wanted: Twist) -> Floats | None:
        """Return `ways`; None if the caller must use `limits.limit`, whatever the scan shows."""
        bounds, speed_mps = self.bounds, abs(wanted.v_mps)
        if bounds.ramp_mps2 is not None or bounds.ramp_radps2 is not None:
            return None
        if not bounds.v_min_mps <= wanted.v_mps <= bounds.v_max_mps or abs(wanted.w_radps) > bounds.w_max_radps:
            return None
        if not bounds.footprint.is_round:
            return NONE if wanted == STOP else None
        if speed_mps < REST_MPS:
            return NONE
        if self.remembers:
            return None
        slows = speed_mps > bounds.slow_mps
        look = collision.view_sector(_empty_scan(self.seen), wanted, bounds.swept.radius_m)
        if look is SectorView.AHEAD_BLIND or (look is SectorView.FLANK_BLIND and slows):
            return None
        brake_m = collision.braking_m(speed_mps, bounds.braking_mps2, bounds.reaction_s)
        paced_m = speed_mps * bounds.time_to_contact_s
        slow_m = bounds.slow[0].footprint.radius_m if slows else 0.0
        contact_m = bounds.footprint.radius_m if paced_m > 0.0 else 0.0
        reach_m = max(max(bounds.swept.radius_m, slow_m) + brake_m, contact_m + paced_m) + MARGIN_M
        zone_ways = (bounds.swept.radius_m, brake_m, slow_m, brake_m, contact_m, paced_m)
        return np.array(CommandSpace(wanted.v_mps, wanted.w_radps, reach_m, *zone_ways))


def _empty_scan(seen: npt.NDArray[np.bool_]) -> Scan:
    return Scan(0, np.full(len(seen), np.inf, np.float32), seen)


@kernel
def _allowed_mps(
    ranges_m: npt.NDArray[np.float32], ways: Floats, rings_m: Floats, rings_mps: Floats, braking_mps2: float,
    reaction_s: float, contact_s: float,
) -> float:  # fmt: skip
    """Return the highest speed that `limits` allows along the command of `ways` [m/s]; inf if no obstacle binds it."""
    v, w = ways[0], ways[1]
    stop_m = contact_m = slow_mps = math.inf
    for i in range(len(ranges_m)):
        far_m = np.float64(ranges_m[i])
        if 0.0 <= far_m <= ways[REACH]:
            ahead, aside = UNIT[i, 0] * far_m, UNIT[i, 1] * far_m
            stop_m = min(stop_m, point_travel_m(ahead, aside, v, w, ways[ZONES]))
            if ways[ZONES + 2] > 0.0:
                for ring in range(len(rings_m)):
                    way_m = point_travel_m(ahead, aside, v, w, rings_m[ring])
                    slow_mps = min(slow_mps, ring_mps(way_m, ways[ZONES + 3], rings_mps[ring]))
            contact_m = min(contact_m, point_travel_m(ahead, aside, v, w, ways[ZONES + 4]))
    return min(stoppable_mps(stop_m, braking_mps2, reaction_s), slow_mps, contact_mps(contact_m, contact_s))
