"""From which distance ahead cameras see which height, from the mounts alone.

A camera at 0.5 m that looks down sees a table's top from afar and loses it above its upper rim, before the body is
there. A camera high up that looks down sees high things only near by. Heights are judged straight ahead, over the width
of the footprint.

    remembered   seen from FAR_M on, and lost nearer by: the memory of obstacles reaches WINDOW_M farther than that
    too late     seen only near by: the robot stops for it only from a lower speed
    unseen       seen nowhere, or only beyond the memory: nothing stops the robot before it
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount
from onboard.perception import collision
from onboard.perception.kernels import NEAR_M

FAR_M = 3.0
"""Reach of the longest memory, and of the judged distances."""
STEP_M = 0.05
WINDOW_M = 0.4
"""Way in which a height must be in view, so that the memory trusts it: three images at 8 Hz and 1 m/s."""
SIGHTINGS_S = 3.0 / 8.0
ASIDE = 0.8
"""Share of the footprint's half-width over which a height must be in view."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Heights [m], and where they are in view.

    first_m: greatest distance from the base's origin at which each is in view: inf from `FAR_M` on, -inf nowhere
    lost_m:  nearest distance at which it is still in view
    """

    heights_m: npt.NDArray[np.float64]
    first_m: npt.NDArray[np.float64]
    lost_m: npt.NDArray[np.float64]

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """(n,) bool, heights that are seen nowhere, or only beyond the memory."""
        none: npt.NDArray[np.bool_] = np.isneginf(self.first_m) | (self.lost_m > FAR_M - WINDOW_M)
        return none

    def memory_m(self, least_m: float) -> float:
        """Return how far obstacles are to be remembered: at least `least_m`."""
        lost_m = self.lost_m[~self.unseen]
        return float(max(least_m, lost_m.max(initial=0.0) + WINDOW_M))


def coverage_of(mounts: Iterable[Mount], low_m: float, high_m: float, half_width_m: float) -> Coverage:
    """Return the coverage of heights from `low_m` to `high_m` by several cameras together."""
    heights_m = np.append(np.arange(low_m, high_m, STEP_M), high_m)
    away_m = np.arange(STEP_M, FAR_M + STEP_M / 2, STEP_M)
    aside_m = ASIDE * half_width_m * np.array([-1.0, 0.0, 1.0])
    points = np.stack(np.meshgrid(away_m, aside_m, heights_m, indexing="ij"), axis=-1)
    inside = np.zeros(points.shape[:3], np.bool_)
    for mount in mounts:
        inside |= _in_view(mount, points)
    seen = inside.all(axis=1).T
    first_m, lost_m = np.full(len(heights_m), -np.inf), np.full(len(heights_m), np.inf)
    for row, at in enumerate(seen):
        if at.any():
            last = int(np.flatnonzero(at)[-1])
            before = np.flatnonzero(~at[: last + 1])
            first_m[row] = np.inf if last == len(away_m) - 1 else away_m[last]
            lost_m[row] = away_m[int(before[-1]) + 1 if len(before) else 0]
    return Coverage(heights_m, first_m, lost_m)


def sight_mps(coverage: Coverage, reach_m: float, deceleration_mps2: float, reaction_s: float) -> float:
    """Return the highest speed ahead from which the robot stops before what it sees too late; unseen heights are left
    out. inf without such a height.

    reach_m: of the footprint with its margin
    """
    slowest_mps = math.inf
    late = np.isfinite(coverage.first_m) & ~coverage.unseen
    for first_m, lost_m in zip(coverage.first_m[late], coverage.lost_m[late], strict=True):
        way_m = max(float(first_m) - reach_m, 0.0)
        slowest_mps = min(slowest_mps, collision.stoppable_mps(way_m, deceleration_mps2, reaction_s))
        if lost_m > reach_m:
            slowest_mps = min(slowest_mps, float(first_m - lost_m) / SIGHTINGS_S)
    return slowest_mps


def described(coverage: Coverage) -> list[str]:
    """Return a line for heights seen nowhere, for those only beyond the memory, and for those seen too late."""
    nowhere = np.isneginf(coverage.first_m)
    lines = []
    for which, where, worst_m in (
        (nowhere, "nowhere", math.inf),
        (coverage.unseen & ~nowhere, "only from {:.2f} m on", coverage.lost_m),
        (np.isfinite(coverage.first_m) & ~coverage.unseen, "only nearer than {:.2f} m", coverage.first_m),
    ):
        if which.any():
            low_m, high_m = coverage.heights_m[which].min(), coverage.heights_m[which].max()
            least_m = float(np.min(np.where(which, worst_m, math.inf)))
            lines.append(f"what is {low_m:.2f} to {high_m:.2f} m above the floor is in view {where.format(least_m)}")
    return lines


def _in_view(mount: Mount, points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return (...) bool, the points (..., 3) of the base frame that are in a camera's image."""
    optical = (points - mount.base_from_camera[:3, 3]) @ mount.base_from_camera[:3, :3]
    depth_m = optical[..., 2]
    ahead = depth_m >= max(mount.least_m or 0.0, NEAR_M)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = mount.fx * optical[..., 0] / depth_m + mount.cx
        v = mount.fy * optical[..., 1] / depth_m + mount.cy
    inside: npt.NDArray[np.bool_] = ahead & (u >= 0.0) & (u <= mount.width - 1) & (v >= 0.0) & (v <= mount.height - 1)
    return inside
