"""Furnished buildings of the training, with starts and goals; a share of drives needs a detour.

Several drives share a goal and its distance field. The reward reads the geodesic distance from this field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from hil.drive.fast.course import Course, make_course, varied
from hil.drive.setting import Setting
from hil.maps.load import load_map
from hil.maps.made_floor import made_range
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, FreeSpace, distance_field, free_space, indoor_cells, is_indoors
from hil.physics.odometry_noise import FIX_SD
from hil.scene.furniture import DENSEST, furnish
from onboard.config.config import GoalSection
from onboard.config.toml_file import Fraction, Positive, Section
from onboard.values.errors import ConfigError, InputError
from onboard.values.geometry import compose, wrap
from onboard.values.messages import Pose

LONGEST_M, MOST_SHARING = 10_000.0, 10_000
START_M = 10.0 * FIX_SD[0]
"""Largest error of the start position right after a fix."""
DETOUR, MOST_RATIO = 1.15, 10.0
"""A path longer than the straight line by this factor is a detour, unless the recipe says otherwise."""
GOALS = 40
"""Goals tried for one batch of drives."""
CANDIDATES, STARTS = 4000, 50
"""Cells drawn as possible starts of a batch, and the cells of nearly the right path length among them."""


class PlacesSection(Section):
    """Where to drive.

    maps:      names of shipped maps, files of one's own, or made floors: made-7, made-0-59 for sixty of them
    least_m, most_m: geodesic length of a drive
    detours:   share of drives whose path is longer than `detour_ratio` times the straight line (None: `DETOUR` times),
               if there are such starts
    sharing:   drives to the same goal
    furniture: density of the furniture placed by seed; 0 leaves a map as it is
    """

    maps: tuple[str, ...] = Field(("gdc1", "gdc3", "ghc7", "ase4", "depot"), min_length=1)
    least_m: Positive = 1.0
    most_m: Annotated[float, Field(gt=0.0, le=LONGEST_M)] = 15.0
    detours: Fraction = 0.5
    detour_ratio: Annotated[float, Field(ge=1.0, le=MOST_RATIO)] | None = None
    sharing: int = Field(6, ge=1, le=MOST_SHARING)
    furniture: float = Field(1.0, ge=0.0, le=DENSEST)

    @field_validator("maps")
    @classmethod
    def _each(cls, maps: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for place in maps for name in made_range(place))

    @model_validator(mode="after")
    def _has_lengths(self) -> PlacesSection:
        if self.least_m > self.most_m:
            raise ValueError(f"least_m {self.least_m:g} must not be above most_m {self.most_m:g}")
        return self

    def check(self, goal: GoalSection) -> None:
        """Raise ConfigError unless a robot with this section takes every goal that is drawn."""
        most_m = goal.max_distance_m - START_M
        if self.most_m > most_m:
            raise ConfigError(
                f"places.most_m: expected {most_m:g} or less, found {self.most_m:g}: the robot refuses a goal that it "
                f"estimates beyond {goal.max_distance_m:g} m (goal.max_distance_m), and may be off by {START_M:g} m"
            )


@dataclass(frozen=True, slots=True)
class Building:
    """A furnished building, prepared for many drives. setting: the configured robot in it."""

    setting: Setting
    course: Course
    space: FreeSpace


def check_place(section: PlacesSection, place: str, robot: Setting) -> None:
    """Raise InputError for a map that cannot be read, or that has no room or no drive even without furniture.

    Raises it also for a robot that cannot be simulated (`hil.drive.fast.course.varied`).
    """
    building = make_building(section.model_copy(update={"furniture": 0.0}), place, 0, robot)
    varied(building.course, building.setting)
    draw_drives(section, building, np.random.default_rng(0))


def _bare(place: str) -> World:
    return load_map(Path(place) if Path(place).suffix else place)


def _require_room(place: str, space: FreeSpace, body: Body) -> None:
    if not space.standing.any():
        raise InputError(f"map {place}: no free space for a body of radius {body.radius_m} m")


def make_building(section: PlacesSection, place: str, seed: int, robot: Setting) -> Building:
    """Return a map furnished by seed. Raises InputError for a map without room for the body."""
    world = _bare(place)
    if section.furniture > 0.0:
        world = furnish(world, seed, section.furniture)
    setting = replace(robot, world=world)
    space = free_space(world, setting.body)
    _require_room(place, space, setting.body)
    return Building(setting, make_course(setting), space)


def draw_drives(section: PlacesSection, building: Building, rng: np.random.Generator) -> list[tuple[Episode, Goal]]:
    """Return `sharing` drives to the same goal. Raises InputError if the map has no path of the wanted length."""
    space, lengths = building.space, (section.least_m, section.most_m)
    found = drawn_goal(space, lengths, rng, GOALS) or any_goal(space, lengths, rng)
    if found is None:
        raise InputError(
            f"map {space.world.name}: no goal indoors has a start with a path of {section.least_m:g} to "
            f"{section.most_m:g} m (places.least_m, places.most_m)"
        )
    starts = _starts_of(building, found, rng)
    return [(_draw_start(section, found.goal, starts, rng), found.goal) for _ in range(section.sharing)]


class Starts(NamedTuple):
    """Possible starts of drives to a goal: (n, 2) points of the map frame, (n,) lengths of path and straight line."""

    xy_m: npt.NDArray[np.float64]
    length_m: npt.NDArray[np.float32]
    straight_m: npt.NDArray[np.float64]


def _draw_start(section: PlacesSection, goal: Goal, starts: Starts, rng: np.random.Generator) -> Episode:
    """Return a drive to the goal with a path length drawn uniformly, with a detour if drawn and possible."""
    detour, target_m = rng.random() < section.detours, rng.uniform(section.least_m, section.most_m)
    yaw = wrap(float(rng.uniform(-math.pi, math.pi)))
    ratio = DETOUR if section.detour_ratio is None else section.detour_ratio
    those = np.flatnonzero(starts.length_m > ratio * starts.straight_m) if detour else np.arange(len(starts.length_m))
    those = those if len(those) else np.arange(len(starts.length_m))
    by_length = those[np.argsort(np.abs(starts.length_m[those] - target_m))[:STARTS]]
    chosen = int(by_length[rng.integers(len(by_length))])
    x_m, y_m = (float(value) for value in starts.xy_m[chosen])
    return Episode(Pose(x_m, y_m, yaw), goal.xy_m, float(starts.length_m[chosen]))


def _starts_of(building: Building, found: Reachable, rng: np.random.Generator) -> Starts:
    """Return some of the possible starts in the goal's field."""
    goal, cells = found.goal, np.argwhere(found.near)
    cells = cells[rng.permutation(len(cells))[:CANDIDATES]]
    world = building.space.world
    in_grid = (cells[:, ::-1] + np.array(goal.corner)[::-1] + 0.5) * world.cell_m
    frame = world.map_from_grid
    cos, sin = math.cos(frame.yaw_rad), math.sin(frame.yaw_rad)
    xy = in_grid @ np.array([[cos, sin], [-sin, cos]]) + np.array([frame.x_m, frame.y_m])
    straight = np.hypot(xy[:, 0] - goal.xy_m[0], xy[:, 1] - goal.xy_m[1])
    return Starts(xy, goal.field_m[cells[:, 0], cells[:, 1]], straight)


Lengths = tuple[float, float]
"""Least and most geodesic length of a drive [m]."""
TOO_LONG = 1.05
"""Upper bound of a distance field's overestimate, as a factor."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal with its distance field [m], float32, whose first cell is `corner` (row, column); inf without a path."""

    xy_m: tuple[float, float]
    field_m: npt.NDArray[np.float32]
    corner: tuple[int, int]


class Reachable(NamedTuple):
    """A goal, and a mask (rows, columns) of its field: starts of drives of the wanted length."""

    goal: Goal
    near: npt.NDArray[np.bool_]


def drawn_goal(space: FreeSpace, lengths: Lengths, rng: np.random.Generator, tries: int) -> Reachable | None:
    """Return a goal indoors that has starts, drawn at most `tries` times; None if no drawn goal has any."""
    candidates = np.argwhere(space.standing)
    for _ in range(tries):
        row, column = (int(index) for index in candidates[rng.integers(len(candidates))])
        if not is_indoors(space.world, (row, column)):
            continue
        found = _goal_at(space, lengths, (row, column))
        if found.near.any():
            return found
    return None


def any_goal(space: FreeSpace, lengths: Lengths, rng: np.random.Generator) -> Reachable | None:
    """Return a goal indoors that has starts, after a search of all cells in random order; None if there is none."""
    left = space.standing & indoor_cells(space.world)
    for row, column in rng.permutation(np.argwhere(left)):
        if not left[row, column]:
            continue
        found = _goal_at(space, lengths, (int(row), int(column)))
        if found.near.any():
            return found
        _leave_out(left, found.goal, lengths[0], space.world.cell_m)
    return None


def _leave_out(left: npt.NDArray[np.bool_], goal: Goal, least_m: float, cell_m: float) -> None:
    """Remove from `left`, in place, cells that cannot have a start because `goal` has none.

    By the triangle inequality, no path from such a cell exceeds its path over the goal. A field that was cut off
    reaches within two cells of its limit, and removes no cell.
    """
    reached, (row, column), (rows, columns) = np.isfinite(goal.field_m), goal.corner, goal.field_m.shape
    furthest_m = float(goal.field_m[reached].max()) + 2.0 * cell_m
    near = reached & (TOO_LONG * (goal.field_m + furthest_m) < least_m)
    left[row : row + rows, column : column + columns][near] = False


def _goal_at(space: FreeSpace, lengths: Lengths, cell: tuple[int, int]) -> Reachable:
    (least_m, most_m), xy_m = lengths, space.world.centre_of(cell)
    reach = math.ceil(most_m / space.world.cell_m)
    low = [max(0, index - reach) for index in cell]
    part = np.s_[low[0] : cell[0] + reach + 1, low[1] : cell[1] + reach + 1]
    window = _window(space, part, low)
    field = distance_field(window, xy_m, most_m).astype(np.float32)
    near = window.standing & (field >= least_m) & (field <= most_m)
    return Reachable(Goal(xy_m, field, (low[0], low[1])), near)


def _window(space: FreeSpace, part: tuple[slice, slice], low: Sequence[int]) -> FreeSpace:
    """Return a part of the free space as a free space in the same map frame."""
    world = space.world
    corner = Pose(low[1] * world.cell_m, low[0] * world.cell_m, 0.0)
    small = replace(
        world,
        low_m=world.low_m[part],
        high_m=world.high_m[part],
        gap=world.gap[part],
        material=world.material[part],
        map_from_grid=compose(world.map_from_grid, corner),
    )
    return FreeSpace(small, space.passable[part], space.standing[part])
