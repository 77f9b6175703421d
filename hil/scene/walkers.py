"""Moving characters (pedestrians and other robots): each walks back and forth on its own path, at its own speed.

A character slows down and waits behind an obstacle, and reverses its direction after a long wait. It never steps into
another character or the robot. The motion is a function of map, seed and robot positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.maps.materials import MATERIALS
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.free_space import Episode, FreeSpace, distance_field, free_space, is_indoors, shortest_path
from hil.scene.doors import Blocking, advance, bodies_of_door
from onboard.values.errors import InputError
from onboard.values.geometry import apply
from onboard.values.kernel import kernel

TICK_S = 1.0 / 30.0
"""Upper limit of one step; longer times are split into steps."""
SLOW_M = 1.0
"""A character slows down if the gap to an obstacle in front is smaller than this."""
WAIT_M = 0.3
"""A character stops if the gap to an obstacle in front is smaller than this."""
TOUCH_M = 0.05
"""Least gap to another character after a step; only steps that increase the distance may end nearer."""
ROBOT_M = 0.3
"""Least gap to the robot after a step, with the same exception."""
BUMP_M = 0.02
"""A character that heeds nobody walks so far into the robot, which counts as a bump. Then the robot stops it."""
LANE_M = 0.1
"""Lateral margin of the lane in front of a character."""
WAITING = 0.1
"""Fraction of its speed below which a character counts as waiting."""
PATIENCE_S = 3.0
"""Waiting time after which a character reverses its direction."""
X, Y, ALONG, DIRECTION, WAITED = range(5)
STATE_COLUMNS = 5
SHAPE_RADIUS, SHAPE_HEIGHT, SHAPE_MATERIAL, SHAPE_SPEED = range(4)


@kernel
def stride(
    state: npt.NDArray[np.float64], corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64], shape: npt.NDArray[np.float64], dt_s: float,
    robot_x: float, robot_y: float, robot_radius: float, heedless: bool,
) -> None:  # fmt: skip
    """Move every character of `state` in place, sequentially, for `dt_s`; arrays as in `Crowd`.

    A robot at infinity means no robot. heedless: they do not slow down for the robot, and stop only in contact with it
    """
    steps = max(1, math.ceil(dt_s / TICK_S - 1e-9))
    for _ in range(steps):
        for i in range(len(state)):
            _step(i, state, corners, along, first, shape, dt_s / steps, robot_x, robot_y, robot_radius, heedless)


@kernel
def _step(
    i: int, state: npt.NDArray[np.float64], corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64], shape: npt.NDArray[np.float64], dt_s: float,
    robot_x: float, robot_y: float, robot_radius: float, heedless: bool,
) -> None:  # fmt: skip
    x, y, way, direction = state[i, X], state[i, Y], state[i, ALONG], state[i, DIRECTION]
    begin, end = first[i], first[i + 1]
    length = along[end - 1]
    ahead_x, ahead_y = _at(corners, along, begin, end, min(max(way + direction * LANE_M, 0.0), length))
    room = math.inf
    for j in range(len(state) if heedless else len(state) + 1):
        if j != i:
            other_x, other_y, reach = _other(i, j, state, shape, robot_x, robot_y, robot_radius)
            room = min(room, _room_ahead(x, y, ahead_x - x, ahead_y - y, other_x, other_y, reach))
    pace = min(max((room - WAIT_M) / (SLOW_M - WAIT_M), 0.0), 1.0)
    way += direction * pace * shape[i, SHAPE_SPEED] * dt_s
    if (way <= 0.0 and direction < 0.0) or (way >= length and direction > 0.0):
        way, direction = min(max(way, 0.0), length), -direction
    next_x, next_y = _at(corners, along, begin, end, way)
    for j in range(len(state) + 1):
        if j != i:
            other_x, other_y, reach = _other(i, j, state, shape, robot_x, robot_y, robot_radius)
            after = math.hypot(other_x - next_x, other_y - next_y)
            kept = TOUCH_M if j < len(state) else -BUMP_M if heedless else ROBOT_M
            if after < reach + kept and after < math.hypot(other_x - x, other_y - y):
                next_x, next_y, way, direction, pace = x, y, state[i, ALONG], state[i, DIRECTION], 0.0
                break
    waited = state[i, WAITED] + dt_s if pace < WAITING else 0.0
    if waited > PATIENCE_S:
        direction, waited = -direction, 0.0
    state[i, X], state[i, Y], state[i, ALONG], state[i, DIRECTION], state[i, WAITED] = (
        next_x, next_y, way, direction, waited,
    )  # fmt: skip


@kernel
def _other(
    i: int, j: int, state: npt.NDArray[np.float64], shape: npt.NDArray[np.float64],
    robot_x: float, robot_y: float, robot_radius: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return (x, y, sum of both radii) of character j for character i; j = len(state) is the robot."""
    if j == len(state):
        return robot_x, robot_y, shape[i, SHAPE_RADIUS] + robot_radius
    return state[j, X], state[j, Y], shape[i, SHAPE_RADIUS] + shape[j, SHAPE_RADIUS]


@kernel
def _room_ahead(x: float, y: float, dx: float, dy: float, other_x: float, other_y: float, reach: float) -> float:
    """Return the gap between two circles, inf if the other circle is not in the lane along (dx, dy)."""
    length = math.hypot(dx, dy)
    if length == 0.0 or not math.isfinite(other_x):
        return math.inf
    to_x, to_y = other_x - x, other_y - y
    if to_x * dx + to_y * dy <= 0.0 or abs(to_x * dy - to_y * dx) > (reach + LANE_M) * length:
        return math.inf
    return math.hypot(to_x, to_y) - reach


@kernel
def _at(
    corners: npt.NDArray[np.float64], along: npt.NDArray[np.float64], begin: int, end: int, way: float
) -> tuple[float, float]:
    """Return the point of a polyline at the arc length `way`."""
    k = begin
    while k < end - 2 and along[k + 1] < way:
        k += 1
    leg = along[k + 1] - along[k]
    part = (way - along[k]) / leg if leg > 0.0 else 0.0
    return (
        corners[k, 0] + part * (corners[k + 1, 0] - corners[k, 0]),
        corners[k, 1] + part * (corners[k + 1, 1] - corners[k, 1]),
    )


Point = tuple[float, float]


class Kind(NamedTuple):
    """A kind of character: an upright cylinder and limits of the drawn speed [m/s]."""

    radius_m: float
    height_m: float
    slowest_mps: float
    fastest_mps: float
    material: int


KINDS = {
    "pedestrian": Kind(0.25, 1.7, 0.6, 1.5, MATERIALS.index("person")),
    "robot": Kind(0.25, 0.5, 0.3, 1.0, MATERIALS.index("robot")),
}
CLEAR_M = 2.0
"""Least distance of a character's start from points of `keep_clear`, centre to centre."""
NEAR_M = 10.0
"""Upper limit of the distance of a character's start from the nearest point of `near`."""
APART_M = 0.8
"""Least distance between the centres of two characters at the start."""
LEGS = 2
LEG_M = (3.0, 12.0)
"""Limits of the path length between two drawn waypoints."""
TRIES = 20_000
"""Upper limit of the starts drawn for a character."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Characters and their paths, all in the map frame.

    corners_m: (p, 2) corners of all paths, concatenated
    along_m:   (p,) arc length of the path at each corner
    first:     (n + 1,) int64; the corners of character i are first[i] to first[i + 1]
    shape:     (n, 4) radius, height, material, speed [m/s]
    state:     (n, 5) x, y, arc length on the path, direction (1 or -1), waiting time [s]
    blocking:  a door that closes before the robot; the characters ignore it
    still:     bodies that do not move; the characters ignore them
    heedless:  whether the characters walk on until the robot itself stops them
    """

    corners_m: npt.NDArray[np.float64]
    along_m: npt.NDArray[np.float64]
    first: npt.NDArray[np.int64]
    shape: npt.NDArray[np.float64]
    state: npt.NDArray[np.float64]
    blocking: Blocking | None = None
    still: Bodies = field(default_factory=lambda: NO_BODIES)
    heedless: bool = False


def walking_space(world: World) -> FreeSpace:
    """Return the free space of the largest character."""
    radius_m = max(kind.radius_m for kind in KINDS.values())
    return free_space(world, Body(radius_m, max(kind.height_m for kind in KINDS.values())))


def make_crowd(
    space: FreeSpace,
    seed: int,
    pedestrians: int,
    robots: int = 0,
    keep_clear: Sequence[Point] = (),
    near: Sequence[Point] = (),
) -> Crowd:
    """Return a crowd with indoor paths drawn by seed.

    space:      `walking_space`, or the free space of a larger body
    keep_clear: points, such as the robot's start; no character starts within `CLEAR_M` of them
    near:       points; every character starts within `NEAR_M` of a point. Without points it starts anywhere

    Raises InputError if there is no room for all characters.
    """
    rng = np.random.default_rng(seed)
    kinds = [KINDS["pedestrian"]] * pedestrians + [KINDS["robot"]] * robots
    ways: list[npt.NDArray[np.float64]] = []
    for _ in kinds:
        others = [(float(way[0, 0]), float(way[0, 1])) for way in ways]
        ways.append(_draw_way(space, rng, keep_clear, near, others))
    speeds = [float(rng.uniform(kind.slowest_mps, kind.fastest_mps)) for kind in kinds]
    return crowd_of(kinds, speeds, ways)


def crowd_of(kinds: Sequence[Kind], speeds_mps: Sequence[float], ways: Sequence[npt.NDArray[np.float64]]) -> Crowd:
    """Return characters at the first corners of their paths; each path is an (m, 2) polyline in the map frame."""
    first = np.cumsum([0, *(len(way) for way in ways)])
    corners_m = np.concatenate([np.empty((0, 2)), *ways])
    lengths = [np.concatenate([[0.0], np.hypot(*np.diff(way, axis=0).T).cumsum()]) for way in ways]
    shape = [
        (kind.radius_m, kind.height_m, float(kind.material), speed)
        for kind, speed in zip(kinds, speeds_mps, strict=True)
    ]
    state = np.zeros((len(kinds), STATE_COLUMNS))
    state[:, :ALONG] = corners_m[first[:-1]]
    state[:, DIRECTION] = 1.0
    along_m = np.concatenate([np.empty(0), *lengths])
    return Crowd(corners_m, along_m, first, np.array(shape).reshape(-1, SHAPE_SPEED + 1), state)


def walk(crowd: Crowd, dt_s: float, robot_xy_m: Point | None = None, robot_radius_m: float = 0.25) -> Crowd:
    """Return the crowd after `dt_s` with the robot at this position."""
    state = crowd.state.copy()
    x, y = (math.inf, math.inf) if robot_xy_m is None else robot_xy_m
    paths = crowd.corners_m, crowd.along_m, crowd.first, crowd.shape
    stride(state, *paths, dt_s, x, y, robot_radius_m, crowd.heedless)
    door = crowd.blocking
    return replace(crowd, state=state, blocking=door and advance(door, dt_s, robot_xy_m, robot_radius_m))


def bodies_of(crowd: Crowd) -> Bodies:
    """Return (n, 6) cylinders of the crowd, and of the door while it is closed."""
    bodies = np.zeros((len(crowd.state), 6))
    bodies[:, :2] = crowd.state[:, :ALONG]
    bodies[:, 2], bodies[:, 4], bodies[:, 5] = crowd.shape[:, 0], crowd.shape[:, 1], crowd.shape[:, 2]
    if len(crowd.still):
        bodies = np.concatenate([bodies, crowd.still])
    return bodies if crowd.blocking is None else np.concatenate([bodies, bodies_of_door(crowd.blocking)])


def _draw_way(
    space: FreeSpace,
    rng: np.random.Generator,
    keep_clear: Sequence[Point],
    near: Sequence[Point],
    others: Sequence[Point],
) -> npt.NDArray[np.float64]:
    """Return (m, 2) a path of `LEGS` legs with a start clear of `keep_clear` and others. Raises InputError."""
    for _ in range(TRIES):
        start = _draw_point(space, rng, near)
        if start is None or _nearest(start, keep_clear) < CLEAR_M or _nearest(start, others) < APART_M:
            continue
        legs = [np.array([start])]
        while len(legs) <= LEGS and (leg := _draw_leg(space, rng, (legs[-1][-1][0], legs[-1][-1][1]))) is not None:
            legs.append(leg[1:])
        if len(legs) > LEGS:
            return np.concatenate(legs)
    raise InputError(f"map {space.world.name}: no room for {len(others) + 1} characters")


def _draw_point(space: FreeSpace, rng: np.random.Generator, near: Sequence[Point]) -> Point | None:
    """Return the centre of a random indoor passable cell; None if the drawn cell is not."""
    rows, columns = space.passable.shape
    if near:
        x, y = near[int(rng.integers(len(near)))]
        radius, bearing = NEAR_M * math.sqrt(rng.uniform()), rng.uniform(-math.pi, math.pi)
        row, column = space.world.cell_of((x + radius * math.cos(bearing), y + radius * math.sin(bearing)))
    else:
        row, column = int(rng.integers(rows)), int(rng.integers(columns))
    on_map = 0 <= row < rows and 0 <= column < columns
    if not on_map or not space.passable[row, column] or not is_indoors(space.world, (row, column)):
        return None
    return space.world.centre_of((row, column))


def _draw_leg(space: FreeSpace, rng: np.random.Generator, start: Point) -> npt.NDArray[np.float64] | None:
    """Return (m, 2) a shortest path from a point to a random place at a distance in `LEG_M`; None without a place."""
    around = _window(space, start, LEG_M[1])
    field = distance_field(around, start, LEG_M[1])
    ends = np.argwhere((field >= LEG_M[0]) & np.isfinite(field))
    if len(ends) == 0:
        return None
    row, column = ends[rng.integers(len(ends))]
    end = around.world.centre_of((int(row), int(column)))
    if not is_indoors(space.world, space.world.cell_of(end)):
        return None
    return shortest_path(around, start, end)


def _window(space: FreeSpace, centre: Point, half_m: float) -> FreeSpace:
    """Return the square part of a space around a point, with a border that is not passable."""
    world = space.world
    row, column = world.cell_of(centre)
    reach = math.ceil(half_m / world.cell_m) + 1
    rows, columns = slice(max(row - reach, 0), row + reach + 1), slice(max(column - reach, 0), column + reach + 1)
    corner = apply(world.map_from_grid, (columns.start * world.cell_m, rows.start * world.cell_m))
    part = replace(
        world,
        map_from_grid=replace(world.map_from_grid, x_m=corner[0], y_m=corner[1]),
        low_m=world.low_m[rows, columns],
        high_m=world.high_m[rows, columns],
        gap=world.gap[rows, columns],
        material=world.material[rows, columns],
    )
    passable, standing = space.passable[rows, columns].copy(), space.standing[rows, columns].copy()
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        passable[edge] = standing[edge] = False
    return FreeSpace(part, passable, standing)


def _nearest(point: Point, others: Sequence[Point]) -> float:
    return min((math.dist(point, other) for other in others), default=math.inf)


# ---- Crowds as options of a command

MOST_CHARACTERS = 200
"""Upper limit of the drawn characters of each kind."""


@dataclass(frozen=True, slots=True)
class CrowdOptions:
    """Crowd options of a command: numbers of characters, drawn by seed."""

    pedestrians: int = 0
    robots: int = 0

    def arguments(self) -> list[str]:
        """Return the command-line arguments for these options."""
        return ["--pedestrians", str(self.pedestrians), "--robots", str(self.robots)]


def crowd_near(space: FreeSpace, episode: Episode, seed: int, pedestrians: int, robots: int = 0) -> Crowd:
    """Return a crowd drawn near the start and the goal of an episode, but clear of the start. Raises InputError.

    space: from `walking_space`
    """
    start = episode.start.x_m, episode.start.y_m
    return make_crowd(space, seed, pedestrians, robots, (start,), (start, episode.goal_xy_m))


def requested_crowd(options: CrowdOptions, world: World, episode: Episode, seed: int) -> Crowd | None:
    """Return the crowd of an episode, drawn near its start and goal; None without characters. Raises InputError."""
    if not options.pedestrians + options.robots:
        return None
    return crowd_near(walking_space(world), episode, seed, options.pedestrians, options.robots)
