"""One picture of the path as plain numbers: what was seen, the building, and the path; the template draws it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.report.charts import nice
from hil.report.events import BAD, MISS, Moment, row_of, runs
from hil.report.map_view import FARTHEST_M, Surroundings
from hil.report.timeline import Floats, Story
from onboard.values.geometry import IDENTITY
from onboard.values.messages import Pose

WIDTH = 640.0
MARGIN_PX = 30.0
HEIGHTS = 0.5, 1.0
"""The picture is so many times as high as wide, as the path needs it."""
LEAST_M = 4.0
"""A picture shows at least this much."""
POINT_PX = 1.0
"""A path is drawn in pieces of about this length."""
APART_PX, LATE_APART_PX = 6.0, 26.0
"""Signs of one kind stand at least about so far apart; late decisions come in great numbers."""
LEAST_GOAL_PX = 4.0
MOST_NAMED = 12
"""Of more goals only the numbers are written."""
LABEL_ROOM_PX = 100.0


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of a grid as a path in cells, and the SVG matrix that puts them into the picture."""

    name: str
    path: str
    matrix: str


@dataclass(frozen=True, slots=True)
class Place:
    """A named place [px]. kind: "start", "goal", "refused" or "first"; radius: of a goal's tolerance."""

    x: float
    y: float
    kind: str
    label: str
    radius: float = 0.0

    @property
    def leftward(self) -> bool:
        """Whether its label stands left of it, as there is no room on the right."""
        return self.x > WIDTH - LABEL_ROOM_PX


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The picture, x to the right and y up in the page's frame.

    cells: what was seen and the building, the lowest first
    ways:  (kind of the reasons, path) of the robot's centre
    signs: (x, y, kind of the moment, text) of what was bad
    bar:   length [px] and text of the scale
    """

    height: float
    cells: tuple[Cells, ...]
    ways: tuple[tuple[str, str], ...]
    signs: tuple[tuple[float, float, str, str], ...]
    places: tuple[Place, ...]
    bar: tuple[float, str]


@dataclass(frozen=True, slots=True)
class _View:
    """Which part of the frame is shown: x of the left and y of the upper edge [m], and the scale."""

    left_m: float
    top_m: float
    px_per_m: float
    height: float

    def of(self, points_m: Floats) -> Floats:
        """Return points (n, 2) of the frame in the picture [px]."""
        return np.asarray((points_m - [self.left_m, self.top_m]) * [self.px_per_m, -self.px_per_m])


def trajectory_of(story: Story, around: Surroundings, moments: Sequence[Moment], first: int | None) -> Trajectory:
    """Return the picture. first: row of a replay's first difference."""
    accepted = [[one.x_m, one.y_m] for one in around.goals if one.accepted]
    path = np.clip(around.poses[:, :2], -FARTHEST_M, FARTHEST_M)
    placed = np.concatenate([path, np.array(accepted, np.float64).reshape(-1, 2).clip(-FARTHEST_M, FARTHEST_M)])
    view = _view(placed[np.isfinite(placed).all(axis=1)])
    at = view.of(path)
    bar_m = nice(WIDTH / view.px_per_m / 8.0)
    return Trajectory(
        view.height, tuple(_cells(around, view)), _ways(story, at), tuple(_signs(story, at, moments)),
        tuple(_places(story, around, view, at, first)), (bar_m * view.px_per_m, f"{bar_m:g} m"),
    )  # fmt: skip


def _view(points_m: Floats) -> _View:
    """Return a view of some points with a margin; of the origin without any."""
    low, high = (points_m.min(axis=0), points_m.max(axis=0)) if len(points_m) else (np.zeros(2), np.zeros(2))
    wide_m, high_m = np.maximum(high - low, LEAST_M).tolist()
    height = min(max(high_m / wide_m, HEIGHTS[0]), HEIGHTS[1]) * WIDTH
    px_per_m = min((WIDTH - 2.0 * MARGIN_PX) / wide_m, (height - 2.0 * MARGIN_PX) / high_m)
    middle = (low + high) / 2.0
    return _View(middle[0] - WIDTH / 2.0 / px_per_m, middle[1] + height / 2.0 / px_per_m, px_per_m, height)


def _cells(around: Surroundings, view: _View) -> Iterator[Cells]:
    for name, cells in (("seen", around.seen[~around.often]), ("seen often", around.seen[around.often])):
        inside = view.of((cells.astype(np.float64) + 0.5) * around.seen_cell_m)
        shown = ((inside >= 0.0) & (inside <= [WIDTH, view.height])).all(axis=1)
        yield Cells(name, cells_path(cells[shown]), _matrix(view, around.seen_cell_m, IDENTITY))
    if around.building is not None:
        walls = np.argwhere(around.building.walls)[:, ::-1]
        yield Cells("wall", cells_path(walls), _matrix(view, around.building.cell_m, around.building.corner))


def cells_path(cells: npt.NDArray[np.integer[Any]]) -> str:
    """Return cells (n, 2), column and row, as strokes along the rows."""
    cells = cells[np.lexsort((cells[:, 0], cells[:, 1]))]
    begins = np.flatnonzero(np.r_[True, (np.diff(cells[:, 1]) != 0) | (np.diff(cells[:, 0]) != 1)][: len(cells)])
    ends = np.r_[begins[1:], len(cells)]
    return "".join(f"M{cells[b, 0]} {cells[b, 1]}.5h{e - b}" for b, e in zip(begins, ends, strict=False))


def _matrix(view: _View, cell_m: float, corner: Pose) -> str:
    scale = cell_m * view.px_per_m
    c, s = scale * math.cos(corner.yaw_rad), scale * math.sin(corner.yaw_rad)
    ((x, y),) = view.of(np.array([[corner.x_m, corner.y_m]])).tolist()
    return f"{c:.6g} {-s:.6g} {-s:.6g} {-c:.6g} {x:.6g} {y:.6g}"


def _ways(story: Story, at: Floats) -> tuple[tuple[str, str], ...]:
    """Return the path in pieces of one kind of reason; each begins where the last one ended."""
    found: dict[str, list[str]] = {}
    kinds = [row_of(reason).kind for reason in story.reason]
    for first, last, kind in runs(kinds):
        points = at[max(first - 1, 0) : last + 1]
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points):
            continue
        way_px = np.floor(np.cumsum(np.r_[0.0, np.hypot(*np.diff(points, axis=0).T)]) / POINT_PX)
        points = points[np.r_[True, np.diff(way_px) > 0][: len(points)] | (np.arange(len(points)) == len(points) - 1)]
        text = " ".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())
        found.setdefault(str(kind), []).append(f"M{text}")
    return tuple((kind, "".join(pieces)) for kind, pieces in found.items())


def _signs(story: Story, at: Floats, moments: Sequence[Moment]) -> Iterator[tuple[float, float, str, str]]:
    """Yield what was bad, late decisions below all else; of many of a kind in one place one."""
    taken = set()
    bad = [one for one in moments if one.weight == BAD and np.isfinite(at[one.row]).all()]
    for one in sorted(bad, key=lambda one: one.kind != MISS):
        x, y = at[one.row].tolist()
        apart = LATE_APART_PX if one.kind == MISS else APART_PX
        place = one.kind, round(x / apart), round(y / apart)
        if place not in taken:
            taken.add(place)
            yield x, y, one.kind, f"{story.t_s[one.row]:.2f} s: {one.text}"


def _places(story: Story, around: Surroundings, view: _View, at: Floats, first: int | None) -> Iterator[Place]:
    """Yield start, goals in the order of time, and the first difference, as far as they are in the picture."""
    placed = np.flatnonzero(np.isfinite(at).all(axis=1))
    if len(placed):
        x, y = at[placed[0]].tolist()
        yield Place(x, y, "start", "start")
    radius = max(story.config.goal.tolerance_m * view.px_per_m, LEAST_GOAL_PX)
    for number, goal in enumerate(around.goals, start=1):
        ((x, y),) = view.of(np.array([[goal.x_m, goal.y_m]])).tolist()
        if 0.0 <= x <= WIDTH and 0.0 <= y <= view.height:
            name = "goal" if goal.accepted else "refused"
            alone, many = len(around.goals) == 1, len(around.goals) > MOST_NAMED and goal.accepted
            yield Place(x, y, name, name if alone else f"{number}" if many else f"{name} {number}", radius)
    if first is not None and np.isfinite(at[first]).all():
        x, y = at[first].tolist()
        yield Place(x, y, "first", "first difference")
