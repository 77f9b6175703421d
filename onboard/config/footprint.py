"""The robot's footprint: a circle about the base frame's origin, or a polygon around the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
Corners = tuple[tuple[float, float], ...]

MOST_CORNERS = 32
FARTHEST_M = 3.0
"""Largest distance of a corner from the origin."""
NARROWEST_M = 0.02
"""Smallest distance of an edge from the origin, and smallest length of an edge."""
FINE_RAD = math.radians(1.0)
"""Resolution of `Footprint.outline_m` on a circle."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """All points within `radius_m` of the polygon `corners_m` [m]. A circle has one corner, the origin.

    corners_m: counter-clockwise, in the base frame
    """

    radius_m: float
    corners_m: Corners = ((0.0, 0.0),)

    @property
    def is_round(self) -> bool:
        """Return whether the footprint is a circle about the origin, which sweeps no area in a turn in place."""
        return len(self.corners_m) == 1

    @property
    def reach_m(self) -> float:
        """Return the radius of the smallest circle about the origin that holds the footprint."""
        return self.radius_m + max(math.hypot(*corner) for corner in self.corners_m)

    @property
    def inner_m(self) -> float:
        """Return the radius of the largest circle about the origin inside the footprint."""
        if self.is_round:
            return self.radius_m
        return self.radius_m - float(signed_distances_m(np.zeros((1, 2)), self.corners_m)[0])

    @property
    def half_width_m(self) -> float:
        """Return half the width of the narrowest passage through which the origin can be driven [m].

        It is at least `inner_m`: the nearest edge may be ahead or behind, and a passage is open there.
        """
        across_m = [y for _, y in self.corners_m]
        return self.radius_m + min(max(across_m), -min(across_m))

    def grown(self, margin_m: float) -> Footprint:
        """Return the footprint with a margin all around."""
        return Footprint(self.radius_m + margin_m, self.corners_m)

    def covers(self, points: Points, margin_m: float = 0.0) -> npt.NDArray[np.bool_]:
        """Return (n,) bool, the points (n, 2) in the base frame at most `margin_m` outside the footprint."""
        if self.is_round:
            return np.asarray(np.hypot(*points.T) <= self.radius_m + margin_m)
        return np.asarray(signed_distances_m(points, self.corners_m) <= self.radius_m + margin_m)

    def outline_m(self) -> Points:
        """Return (n, 2) a closed line around the footprint, for pictures."""
        if not self.is_round:
            return np.array([*self.corners_m, self.corners_m[0]])
        angle = np.arange(0.0, 2.0 * math.pi + FINE_RAD, FINE_RAD)
        return self.radius_m * np.column_stack([np.cos(angle), np.sin(angle)])


def polygon(corners_m: Corners) -> Footprint:
    """Return the footprint of a polygon. Raises ValueError with the limit that it violates."""
    fault = _fault(corners_m)
    if fault:
        raise ValueError(fault)
    return Footprint(0.0, corners_m if _area(corners_m) > 0.0 else corners_m[::-1])


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a polygon. start_m, along, outward: (m, 2) first corner, unit vectors; length_m: (m,)."""

    start_m: Points
    along: Points
    outward: Points
    length_m: npt.NDArray[np.float64]


@lru_cache(maxsize=64)
def edges_of(corners_m: Corners) -> Edges:
    """Return the edges of a counter-clockwise polygon."""
    start = np.array(corners_m)
    along = np.roll(start, -1, axis=0) - start
    length = np.hypot(*along.T)
    along = along / length[:, np.newaxis]
    return Edges(start, along, np.column_stack([along[:, 1], -along[:, 0]]), length)


def signed_distances_m(points: Points, corners_m: Corners) -> npt.NDArray[np.float64]:
    """Return (n,) distances of points (n, 2) from a polygon, negative inside [m]."""
    return nearest(points, corners_m)[0]


def nearest(points: Points, corners_m: Corners) -> tuple[npt.NDArray[np.float64], Points]:
    """Return (n,) signed distances of points (n, 2) from a polygon [m], and (n, 2) the directions away from it."""
    edges = edges_of(corners_m)
    offset = points[:, np.newaxis] - edges.start_m
    along = np.clip(np.sum(offset * edges.along, axis=2), 0.0, edges.length_m)
    away = offset - along[:, :, np.newaxis] * edges.along
    distances = np.hypot(away[:, :, 0], away[:, :, 1])
    rows, edge = np.arange(len(points)), np.argmin(distances, axis=1)
    sign = np.where(_inside(points, edges), -1.0, 1.0)
    distance, direction = distances[rows, edge], edges.outward[edge]
    clear = distance > 1e-9
    direction[clear] = (sign[clear] / distance[clear])[:, np.newaxis] * away[rows, edge][clear]
    return sign * distance, direction


def _inside(points: Points, edges: Edges) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, the points inside the polygon: a ray to the right crosses the edges an odd number of times."""
    x, y = points[:, 0, np.newaxis], points[:, 1, np.newaxis]
    start, end = edges.start_m, np.roll(edges.start_m, -1, axis=0)
    spans = (start[:, 1] > y) != (end[:, 1] > y)
    rise = np.where(end[:, 1] == start[:, 1], 1.0, end[:, 1] - start[:, 1])
    crossing = start[:, 0] + (y - start[:, 1]) * (end[:, 0] - start[:, 0]) / rise
    return np.asarray((spans & (x < crossing)).sum(axis=1) % 2 == 1)


def _fault(corners: Corners) -> str:
    """Return why a polygon is no footprint; "" if it is one."""
    count = len(corners)
    if not 3 <= count <= MOST_CORNERS:
        return f"has {count} corners, expected 3 to {MOST_CORNERS}"
    for x, y in corners:
        if not (math.isfinite(x) and math.isfinite(y)):
            return f"corner [{x:g}, {y:g}] is not finite"
        if math.hypot(x, y) > FARTHEST_M:
            return f"corner [{x:g}, {y:g}] is {math.hypot(x, y):.3g} m from the origin, at most {FARTHEST_M:g} m"
    pairs = [(corners[i], corners[(i + 1) % count]) for i in range(count)]
    for start, end in pairs:
        if math.dist(start, end) < NARROWEST_M:
            return f"the corners {_text(start)} and {_text(end)} are less than {NARROWEST_M:g} m apart"
    for before, (corner, after) in zip(corners[-1:] + corners, pairs, strict=False):
        if _side(before, corner, after) == 0.0 and _ahead(before, corner, after) < 0.0:
            return f"crosses itself: it turns back at the corner {_text(corner)}"
    for i, j in combinations(range(count), 2):
        if (j - i) % count not in (1, count - 1) and _meet(pairs[i], pairs[j]):
            return f"crosses itself: the edges from {_text(pairs[i][0])} and from {_text(pairs[j][0])} meet"
    inside_m = -signed_distances_m(np.zeros((1, 2)), corners)[0]
    if inside_m < NARROWEST_M:
        where = "outside" if inside_m < 0.0 else f"{inside_m:.3g} m inside"
        return f"the base frame's origin lies {where}, expected at least {NARROWEST_M:g} m inside"
    return ""


def _text(corner: tuple[float, float]) -> str:
    return f"[{corner[0]:g}, {corner[1]:g}]"


def _area(corners: Corners) -> float:
    """Return twice the signed area, positive for a counter-clockwise polygon."""
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, corners[1:] + corners[:1], strict=True))


def _side(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _ahead(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[0] - b[0]) + (b[1] - a[1]) * (c[1] - b[1])


def _meet(one: tuple[tuple[float, float], ...], other: tuple[tuple[float, float], ...]) -> bool:
    """Return whether two segments have a common point."""
    (a, b), (c, d) = one, other
    sides = _side(a, b, c), _side(a, b, d), _side(c, d, a), _side(c, d, b)
    if sides[0] * sides[1] < 0.0 and sides[2] * sides[3] < 0.0:
        return True
    ends = ((a, b, c, sides[0]), (a, b, d, sides[1]), (c, d, a, sides[2]), (c, d, b, sides[3]))
    return any(side == 0.0 and _between(start, end, point) for start, end, point, side in ends)


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])
