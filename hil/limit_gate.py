"""Where the limits cannot change a command: a compiled test that spares the call of `onboard.limits.limit`.

It errs to one side only. Where it says that nothing binds, `limit` returns the command as it was wanted
(tests/test_limit_gate.py holds that as a law); where it says that something may, `limit` is asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from onboard import zones
from onboard.bounds import Bounds
from onboard.messages import Scan, Twist
from onboard.zones import REST_MPS, SMALLEST_M, STRAIGHT_PER_M, UNIT, Look

TURN = 2.0 * math.pi
MARGIN_M = 1e-6
"""Nearer than this to a bound, the limits are asked: far more than rounding."""


@dataclass(frozen=True, slots=True)
class LimitGate:
    """The gate of one robot. seen: (180,) bool, the bins that its scan looks at, the same in every scan."""

    bounds: Bounds
    seen: npt.NDArray[np.bool_]
    _reaches: dict[Twist, float | None] = field(default_factory=dict)

    def reach_m(self, wanted: Twist) -> float | None:
        """Return within which range an obstacle can bind a command [m], 0 where none can; None: ask the limits always.

        What is seen farther away does not matter to the limits.
        """
        if wanted not in self._reaches:
            self._reaches[wanted] = self._reach_m(wanted)
        return self._reaches[wanted]

    def may_bind(self, ranges_m: npt.NDArray[np.float32], wanted: Twist) -> bool:
        """Return whether what is seen may change a command, for which `reach_m` is a number."""
        bounds = self.bounds
        if abs(wanted.v_mps) < REST_MPS:
            return False
        brake_m, paced_m = self._ways_m(abs(wanted.v_mps))
        return bool(
            _may_bind(
                ranges_m, wanted.v_mps, wanted.w_radps,
                bounds.swept_radius_m, brake_m,
                self._slow_radius_m(abs(wanted.v_mps)), brake_m,
                bounds.footprint_radius_m if paced_m > 0.0 else 0.0, paced_m,
            )
        )  # fmt: skip

    def _reach_m(self, wanted: Twist) -> float | None:
        bounds, speed_mps = self.bounds, abs(wanted.v_mps)
        if bounds.ramp_mps2 is not None or bounds.ramp_radps2 is not None:
            return None
        if not bounds.v_min_mps <= wanted.v_mps <= bounds.v_max_mps or abs(wanted.w_radps) > bounds.w_max_radps:
            return None
        if speed_mps < REST_MPS:
            return 0.0
        look = zones.look(_empty_scan(self.seen), wanted, bounds.swept_radius_m)
        if look is Look.AHEAD_BLIND or (look is Look.FLANK_BLIND and speed_mps > bounds.slow_mps):
            return None
        brake_m, paced_m = self._ways_m(speed_mps)
        braking_m = max(bounds.swept_radius_m, self._slow_radius_m(speed_mps)) + brake_m
        return max(braking_m, bounds.footprint_radius_m + paced_m) + 2.0 * MARGIN_M

    def _slow_radius_m(self, speed_mps: float) -> float:
        """Return the radius of the slow zone, 0 for a speed that is allowed in it."""
        return self.bounds.slow_radius_m if speed_mps > self.bounds.slow_mps else 0.0

    def _ways_m(self, speed_mps: float) -> tuple[float, float]:
        """Return the ways that must be free for a speed: to brake within, and for the time to contact [m]."""
        bounds = self.bounds
        brake_m = zones.braking_m(speed_mps, bounds.braking_mps2, bounds.reaction_s)
        return brake_m, speed_mps * bounds.time_to_contact_s


def _empty_scan(seen: npt.NDArray[np.bool_]) -> Scan:
    return Scan(0, np.full(len(seen), np.inf, np.float32), seen)


@njit(cache=True, nogil=True)
def _may_bind(
    ranges_m: npt.NDArray[np.float32], v: float, w: float,
    swept_m: float, swept_way_m: float, slow_m: float, slow_way_m: float, contact_m: float, contact_way_m: float,
) -> bool:  # fmt: skip
    """Return whether a circle of one of three radii meets a point within its way, or nearly; a radius of 0 is none."""
    reach_m = max(swept_m + swept_way_m, slow_m + slow_way_m, contact_m + contact_way_m) + MARGIN_M
    for i in range(len(ranges_m)):
        far_m = np.float64(ranges_m[i])
        if not 0.0 <= far_m <= reach_m:
            continue
        ahead, aside = UNIT[i, 0] * far_m, UNIT[i, 1] * far_m
        if _travel_m(ahead, aside, v, w, swept_m + MARGIN_M) <= swept_way_m + MARGIN_M:
            return True
        if slow_m > 0.0 and _travel_m(ahead, aside, v, w, slow_m + MARGIN_M) <= slow_way_m + MARGIN_M:
            return True
        if contact_m > 0.0 and _travel_m(ahead, aside, v, w, contact_m + MARGIN_M) <= contact_way_m + MARGIN_M:
            return True
    return False


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
