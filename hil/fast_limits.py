"""What the limits make of a command in a drive without operator, e-stop or lost inputs, compiled.

Only zones are left then, unless the limits ramp, the command is too fast, or it leads where nobody looks: for those
`reach_m` is None, and `onboard.limits.limit` has to be asked. tests/test_fast_limits.py holds both against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from hil.cell_watch import NONE, REACH, ZONES, Ways
from onboard import zones
from onboard.bounds import Bounds
from onboard.messages import Scan, Twist
from onboard.nearby import AHEAD
from onboard.zones import REST_MPS, SMALLEST_M, STRAIGHT_PER_M, UNIT, Look

Floats = npt.NDArray[np.float64]

TURN = 2.0 * math.pi
MARGIN_M = 1e-6
"""What is farther than the reach by so much cannot bind: far more than rounding."""


@dataclass(frozen=True, slots=True)
class FastLimits:
    """The limits of one robot. seen: (180,) bool, the bins that its scan looks at, the same in every scan."""

    bounds: Bounds
    seen: npt.NDArray[np.bool_]
    _judged: dict[Twist, tuple[float | None, Floats]] = field(default_factory=dict)

    @property
    def remembers(self) -> bool:
        """Return whether what was seen a moment ago may stand where a motion ahead leads and no camera looks."""
        return self.bounds.remember_ns > 0 and bool((~self.seen & AHEAD).any())

    def reach_m(self, wanted: Twist) -> float | None:
        """Return within which range an obstacle can bind a command [m], 0 where none can; None: ask the limits always.

        What is seen farther away does not matter to the limits.
        """
        return self._judge(wanted)[0]

    def ways(self, wanted: Twist) -> Floats:
        """Return `cell_watch.Ways` as an array; empty where `reach_m` is 0 or None."""
        return self._judge(wanted)[1]

    def limited(self, ranges_m: npt.NDArray[np.float32], wanted: Twist) -> Twist:
        """Return what `limit` returns, to rounding, for a command for which `reach_m` is a number."""
        ways, bounds = self.ways(wanted), self.bounds
        if len(ways) == 0:
            return wanted
        brake = bounds.braking_mps2, bounds.reaction_s
        allowed_mps = _allowed_mps(ranges_m, ways, bounds.slow_mps, *brake, bounds.time_to_contact_s)
        if abs(wanted.v_mps) <= allowed_mps:
            return wanted
        part = allowed_mps / abs(wanted.v_mps)
        return Twist(wanted.v_mps * part, wanted.w_radps * part)

    def _judge(self, wanted: Twist) -> tuple[float | None, Floats]:
        """Return `reach_m` and `ways`, kept for the next time."""
        if wanted not in self._judged:
            ways = self._ways(wanted)
            if ways is None:
                self._judged[wanted] = None, NONE
            else:
                self._judged[wanted] = float(ways[REACH]) if len(ways) else 0.0, ways
        return self._judged[wanted]

    def _ways(self, wanted: Twist) -> Floats | None:
        """Return `ways`; None where the limits must be asked whatever is seen."""
        bounds, speed_mps = self.bounds, abs(wanted.v_mps)
        if bounds.ramp_mps2 is not None or bounds.ramp_radps2 is not None:
            return None
        if not bounds.v_min_mps <= wanted.v_mps <= bounds.v_max_mps or abs(wanted.w_radps) > bounds.w_max_radps:
            return None
        if speed_mps < REST_MPS:
            return NONE
        if self.remembers:
            return None
        slows = speed_mps > bounds.slow_mps
        look = zones.look(_empty_scan(self.seen), wanted, bounds.swept_radius_m)
        if look is Look.AHEAD_BLIND or (look is Look.FLANK_BLIND and slows):
            return None
        brake_m = zones.braking_m(speed_mps, bounds.braking_mps2, bounds.reaction_s)
        paced_m = speed_mps * bounds.time_to_contact_s
        slow_m = bounds.slow_radius_m if slows else 0.0
        contact_m = bounds.footprint_radius_m if paced_m > 0.0 else 0.0
        reach_m = max(max(bounds.swept_radius_m, slow_m) + brake_m, contact_m + paced_m) + MARGIN_M
        zone_ways = (bounds.swept_radius_m, brake_m, slow_m, brake_m, contact_m, paced_m)
        return np.array(Ways(wanted.v_mps, wanted.w_radps, reach_m, *zone_ways))


def _empty_scan(seen: npt.NDArray[np.bool_]) -> Scan:
    return Scan(0, np.full(len(seen), np.inf, np.float32), seen)


@njit(cache=True, nogil=True)
def _allowed_mps(
    ranges_m: npt.NDArray[np.float32], ways: Floats, slow_mps: float, braking_mps2: float, reaction_s: float,
    contact_s: float,
) -> float:  # fmt: skip
    """Return the greatest speed that `limits` allows along the command of `ways`, inf where nothing binds it."""
    v, w = ways[0], ways[1]
    stop_m = slow_m = contact_m = math.inf
    for i in range(len(ranges_m)):
        far_m = np.float64(ranges_m[i])
        if 0.0 <= far_m <= ways[REACH]:
            ahead, aside = UNIT[i, 0] * far_m, UNIT[i, 1] * far_m
            stop_m = min(stop_m, _travel_m(ahead, aside, v, w, ways[ZONES]))
            slow_m = min(slow_m, _travel_m(ahead, aside, v, w, ways[ZONES + 2]))
            contact_m = min(contact_m, _travel_m(ahead, aside, v, w, ways[ZONES + 4]))
    lost = braking_mps2 * reaction_s
    allowed = math.sqrt(lost * lost + 2.0 * braking_mps2 * stop_m) - lost
    if ways[ZONES + 2] > 0.0 and slow_m <= ways[ZONES + 3]:
        allowed = min(allowed, slow_mps)
    return min(allowed, contact_m / contact_s) if ways[ZONES + 4] > 0.0 else allowed


@njit(cache=True, nogil=True)
def _travel_m(ahead: float, aside: float, v: float, w: float, radius_m: float) -> float:
    """Return `zones.travel_m` of one point, for a twist that moves."""
    if v < 0.0:
        ahead = -ahead
    curvature = w / v
    if abs(curvature) < STRAIGHT_PER_M:
        inside = radius_m * radius_m - aside * aside
        return max(0.0, ahead - math.sqrt(inside)) if inside > 0.0 and ahead > 0.0 else math.inf
    if curvature < 0.0:
        aside = -aside
    turn_m = 1.0 / abs(curvature)
    from_center = max(math.hypot(ahead, aside - turn_m), SMALLEST_M)
    square = (radius_m * radius_m - (from_center - turn_m) ** 2) / (4.0 * from_center * turn_m)
    if not square > 0.0:
        return math.inf
    half = 2.0 * math.asin(math.sqrt(min(square, 1.0)))
    phi = math.atan2(ahead, turn_m - aside)
    if 0.0 < phi < half:
        return 0.0
    return turn_m * ((phi - half) % TURN)
