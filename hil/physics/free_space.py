"""Free space of a body: free cells, shortest paths for the footprint, and random starts and goals."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import line_is_free, room_for_circle
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, blocked_cells
from onboard.values.errors import InputError
from onboard.values.geometry import wrap
from onboard.values.kernel import kernel
from onboard.values.messages import Pose

PASSAGE_MARGIN_M = 0.05
"""Clearance of the footprint on a shortest path."""
STANDING_MARGIN_M = 0.15
"""Clearance of the footprint at a start and a goal."""
INDOORS_RAYS = 32
INDOORS_FRACTION = 0.8
"""A cell is indoors if at least this fraction of its rays hits an occupied cell before the edge of the map."""
EXACT_CELLS = 8
"""Within this distance of its source, a distance field uses straight-line distances."""
SHORTER_CELLS = 1e-9
"""A path with another corner must be shorter by more than rounding."""
INDOORS_STEP_M = 0.5
"""Side of the squares for which `indoor_cells` casts rays once."""
TRIES = 1000
"""Upper limit of the starts drawn for an episode."""


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free cells of one world for one body at the cell centre; both arrays are (rows, columns) bool.

    passable: clearance of `PASSAGE_MARGIN_M`
    standing: clearance of `STANDING_MARGIN_M`; no cell that the map may not know (`World.unseen`)
    """

    world: World
    passable: npt.NDArray[np.bool_]
    standing: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Episode:
    """A start at rest and a goal, both in the map frame.

    geodesic_m: length of the shortest path for the footprint with `PASSAGE_MARGIN_M`, accurate to about 1 %
    """

    start: Pose
    goal_xy_m: tuple[float, float]
    geodesic_m: float


def free_space(world: World, body: Body) -> FreeSpace:
    """Return the free space of a body.

    A polygon passes where half its width does, so a path is a lower bound; it stands where it can turn in place.
    """
    blocked = blocked_cells(world, body)

    def room(radius_m: float) -> npt.NDArray[np.bool_]:
        return np.asarray(room_for_circle(radius_m / world.cell_m, blocked, world.gap))

    standing = room(body.radius_m + STANDING_MARGIN_M)
    if world.unseen is not None:
        standing &= ~world.unseen
    return FreeSpace(world, room(body.half_width_m + PASSAGE_MARGIN_M), standing)


def distance_field(
    space: FreeSpace, goal_xy_m: tuple[float, float], limit_m: float = math.inf
) -> npt.NDArray[np.float64]:
    """Return (rows, columns) geodesic distance to a point [m], inf where unreachable or beyond the limit.

    First-order fast marching; distances are up to 3 % too long. Raises InputError if the goal is not passable.
    """
    cell = _passable_cell(space, goal_xy_m)
    cells = _march(space.passable, cell[0], cell[1], limit_m / space.world.cell_m, -1, -1)
    return np.asarray(cells * space.world.cell_m)


def is_within(
    space: FreeSpace, start_xy_m: tuple[float, float], goal_xy_m: tuple[float, float], limit_m: float
) -> bool:
    """Return whether the geodesic distance from start to goal is within the limit; the field stops at the start.

    Raises InputError if start or goal is not passable.
    """
    start, goal = _passable_cell(space, start_xy_m), _passable_cell(space, goal_xy_m)
    field = _march(space.passable, goal[0], goal[1], limit_m / space.world.cell_m, start[0], start[1])
    return math.isfinite(field[start])


def shortest_path(
    space: FreeSpace, start_xy_m: tuple[float, float], goal_xy_m: tuple[float, float]
) -> npt.NDArray[np.float64] | None:
    """Return (n, 2) corners of a shortest path in the map frame [m], or None if there is no path.

    The path descends the distance field and is then shortened to straight lines of sight. Raises InputError if start
    or goal is not passable.
    """
    start, goal = _passable_cell(space, start_xy_m), _passable_cell(space, goal_xy_m)
    field = _march(space.passable, goal[0], goal[1], math.inf, start[0], start[1])
    return _path_down(space, field, start, goal)


def path_length(path: npt.NDArray[np.float64]) -> float:
    """Return the length of a polyline (n, 2) [m]."""
    return float(np.hypot(*np.diff(path, axis=0).T).sum())


def is_indoors(world: World, cell: tuple[int, int]) -> bool:
    """Return whether most rays from a cell hit a wall. In a world without a yard every cell is indoors."""
    return not world.yard or bool(_rays_met(world.gap, cell[0], cell[1]) >= INDOORS_FRACTION * INDOORS_RAYS)


def indoor_cells(world: World) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: free indoor cells, tested once for each square of `INDOORS_STEP_M`."""
    free = world.gap > 0
    if not world.yard:
        return np.asarray(free)
    step = round(INDOORS_STEP_M / world.cell_m)
    indoors = _indoor_squares(world.gap, step, INDOORS_FRACTION * INDOORS_RAYS)
    rows, columns = free.shape
    return np.asarray(free & indoors.repeat(step, axis=0).repeat(step, axis=1)[:rows, :columns])


def pick_episode(space: FreeSpace, rng: np.random.Generator, min_m: float, max_m: float) -> Episode:
    """Return a random episode of `find_episode` with a geodesic length in [min_m, max_m].

    Raises InputError after `TRIES` starts without an episode.
    """
    episode = find_episode(space, rng, min_m, max_m, TRIES)
    if episode is None:
        world = space.world
        raise InputError(f"map {world.name}: found no start and goal {min_m} to {max_m} m apart{world.read_as}")
    return episode


def find_episode(
    space: FreeSpace, rng: np.random.Generator, min_m: float, max_m: float, tries: int, least_ratio: float = 0.0
) -> Episode | None:
    """Return a random episode with a geodesic length in [min_m, max_m], or None after `tries` starts.

    Start and heading are uniform over indoor standing cells. The goal is uniform over the standing cells in range;
    `least_ratio` as in `find_goal`.
    """
    candidates = np.argwhere(space.standing)
    for _ in range(tries if len(candidates) else 0):
        start = _as_cell(candidates[rng.integers(len(candidates))])
        yaw = wrap(rng.uniform(-math.pi, math.pi))
        if not is_indoors(space.world, start):
            continue
        found = find_goal(space, rng, start, min_m, max_m, least_ratio)
        if found is not None:
            return Episode(Pose(*space.world.centre_of(start), yaw), *found)
    return None


def find_goal(
    space: FreeSpace,
    rng: np.random.Generator,
    start: tuple[int, int],
    min_m: float,
    max_m: float,
    least_ratio: float = 0.0,
) -> tuple[tuple[float, float], float] | None:
    """Return a random indoor goal and the length of the shortest path to it, in [min_m, max_m]; or None.

    The goal is uniform over the standing cells in range of the distance field, at a distance of at least `least_ratio`
    times the straight line. The result is None without such a cell, if the drawn cell is not indoors, or if the exact
    path length is out of range.
    """
    start_xy = space.world.centre_of(start)
    field = distance_field(space, start_xy, max_m)
    goals = np.argwhere(space.standing & (field >= min_m) & (field <= max_m))
    if least_ratio > 0.0:
        straight_m = np.hypot(*(goals - start).T) * space.world.cell_m
        goals = goals[field[goals[:, 0], goals[:, 1]] >= least_ratio * straight_m]
    if len(goals) == 0:
        return None
    goal = _as_cell(goals[rng.integers(len(goals))])
    goal_xy = space.world.centre_of(goal)
    # The paths found from the two ends differ by up to 1 %.
    ways = (_path_down(space, field, goal, start), shortest_path(space, start_xy, goal_xy))
    length_m = min((path_length(way) for way in ways if way is not None), default=math.inf)
    if is_indoors(space.world, goal) and min_m <= length_m <= max_m:
        return goal_xy, length_m
    return None


def _as_cell(row: npt.NDArray[np.int64]) -> tuple[int, int]:
    return int(row[0]), int(row[1])


def _passable_cell(space: FreeSpace, xy_m: tuple[float, float]) -> tuple[int, int]:
    row, column = space.world.cell_of(xy_m)
    rows, columns = space.passable.shape
    if not (0 <= row < rows and 0 <= column < columns and space.passable[row, column]):
        raise InputError(f"map {space.world.name}: the body does not fit at ({xy_m[0]:.2f}, {xy_m[1]:.2f})")
    return row, column


def _path_down(
    space: FreeSpace, field: npt.NDArray[np.float64], start: tuple[int, int], goal: tuple[int, int]
) -> npt.NDArray[np.float64] | None:
    """Return (n, 2) corners of the shortened path from start to the field's source, in the map frame; or None."""
    if not math.isfinite(field[start]):
        return None
    corners = _shorten_path(space.passable, _descend(field, start[0], start[1], goal[0], goal[1]))
    return np.array([space.world.centre_of(_as_cell(corner)) for corner in corners])


@kernel
def _march(
    free: npt.NDArray[np.bool_], row: int, column: int, limit: float, last_row: int, last_column: int
) -> npt.NDArray[np.float64]:
    """Return (rows, columns) distances to a cell [cells]: fast marching of |grad T| = 1 over True cells.

    inf beyond the limit. If the last cell is in the grid, the march stops there.
    """
    rows, columns = free.shape
    field = np.full((rows, columns), np.inf)
    done = np.zeros((rows, columns), np.bool_)
    heap = [(0.0, row, column)]
    for r in range(max(row - EXACT_CELLS, 0), min(row + EXACT_CELLS + 1, rows)):
        for c in range(max(column - EXACT_CELLS, 0), min(column + EXACT_CELLS + 1, columns)):
            if free[r, c] and line_is_free(free, (row, column), (r, c)):
                field[r, c] = math.hypot(r - row, c - column)
                heapq.heappush(heap, (field[r, c], r, c))
    while heap:
        value, row, column = heapq.heappop(heap)
        if done[row, column] or value > limit:
            continue
        done[row, column] = True
        if row == last_row and column == last_column:
            break
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            r, c = row + down, column + right
            if 0 <= r < rows and 0 <= c < columns and free[r, c] and not done[r, c]:
                a = min(field[max(r - 1, 0), c], field[min(r + 1, rows - 1), c])
                b = min(field[r, max(c - 1, 0)], field[r, min(c + 1, columns - 1)])
                new = min(a, b) + 1.0
                if abs(a - b) < 1.0:
                    new = 0.5 * (a + b + math.sqrt(2.0 - (a - b) * (a - b)))
                if new < field[r, c]:
                    field[r, c] = new
                    heapq.heappush(heap, (new, r, c))
    for r in range(rows):
        for c in range(columns):
            if not done[r, c]:
                field[r, c] = np.inf
    return field


@kernel
def _descend(
    field: npt.NDArray[np.float64], row: int, column: int, goal_row: int, goal_column: int
) -> npt.NDArray[np.int64]:
    """Return (n, 2) cells from a start to the field's source by steepest descent over 8 neighbours."""
    path = [(row, column)]
    while row != goal_row or column != goal_column:
        best, best_row, best_column = 0.0, row, column
        for down in range(-1, 2):
            for right in range(-1, 2):
                if down == 0 and right == 0:
                    continue
                slope = (field[row, column] - field[row + down, column + right]) / math.hypot(down, right)
                # A diagonal step needs both adjacent cells, else it would cut a corner.
                open_way = math.isfinite(field[row + down, column]) and math.isfinite(field[row, column + right])
                if open_way and slope > best:
                    best, best_row, best_column = slope, row + down, column + right
        row, column = best_row, best_column
        path.append((row, column))
    return np.array(path)


@kernel
def _shorten_path(free: npt.NDArray[np.bool_], path: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return (m, 2) the shortest polyline over a subset of the path's cells with all lines on True cells."""
    n = len(path)
    length = np.full(n, np.inf)
    before = np.zeros(n, np.int64)
    length[0] = 0.0
    for i in range(1, n):
        for j in range(i):
            way = length[j] + math.hypot(path[i, 0] - path[j, 0], path[i, 1] - path[j, 1])
            if way < length[i] - SHORTER_CELLS and line_is_free(
                free, (path[j, 0], path[j, 1]), (path[i, 0], path[i, 1])
            ):
                length[i], before[i] = way, j
    corners = [n - 1]
    while corners[-1] != 0:
        corners.append(before[corners[-1]])
    taut: npt.NDArray[np.int64] = path[np.array(corners[::-1])]
    return taut


@kernel
def _rays_met(gap: npt.NDArray[np.uint8], row: int, column: int) -> int:
    """Return how many of `INDOORS_RAYS` rays from a cell hit an occupied cell before the border."""
    rows, columns = gap.shape
    met = 0
    for ray in range(INDOORS_RAYS):
        angle = 2.0 * math.pi * ray / INDOORS_RAYS
        r, c = float(row), float(column)
        while 1 <= round(r) < rows - 1 and 1 <= round(c) < columns - 1:
            if gap[round(r), round(c)] == 0:
                met += 1
                break
            # No occupied cell is nearer than the gap, up to rounding to cells.
            stride = max(0.5, gap[round(r), round(c)] - 1.0)
            r, c = r + stride * math.sin(angle), c + stride * math.cos(angle)
    return met


@kernel
def _indoor_squares(gap: npt.NDArray[np.uint8], step: int, enough: float) -> npt.NDArray[np.bool_]:
    """Return for each square of `step` cells whether the free cell nearest to its middle is indoors."""
    rows, columns = gap.shape
    indoors = np.zeros((-(-rows // step), -(-columns // step)), np.bool_)
    for i in range(indoors.shape[0]):
        for j in range(indoors.shape[1]):
            best, at_row, at_column = 2 * step, -1, -1
            for row in range(i * step, min((i + 1) * step, rows)):
                for column in range(j * step, min((j + 1) * step, columns)):
                    away = abs(row - i * step - step // 2) + abs(column - j * step - step // 2)
                    if gap[row, column] > 0 and away < best:
                        best, at_row, at_column = away, row, column
            indoors[i, j] = at_row >= 0 and _rays_met(gap, at_row, at_column) >= enough
    return indoors
