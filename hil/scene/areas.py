"""Random static objects per area, redrawn at every reset (paper 4) with the generator of `furniture.py`.

A TOML file of areas:

    [[area]]
    name = "corridor"
    rectangle_m = [2.0, -1.5, 30.0, 1.5]   # x and y of one corner, then of the opposite one, in the map frame
    density = 2.0                          # or count = 12; density 1 is an office
    kinds = ["box", "chair"]               # optional: names of hil.scene.furniture_kinds.KINDS
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from hil.maps.world_grid import World
from hil.physics.free_space import indoor_cells
from hil.scene.furniture import furnish, furnish_cells, item_count
from hil.scene.furniture_kinds import KINDS
from onboard.config.toml_file import Finite, NonNegative, Section, checked, read_toml
from onboard.values.errors import InputError

KIND_NAMES = tuple(kind.name for kind in KINDS)
MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of the map with its own objects, in the map frame [m].

    count:   number of placement attempts; None derives it from the density
    density: 1 is an office
    kinds:   names of `KINDS`
    """

    name: str
    x_m: tuple[float, float]
    y_m: tuple[float, float]
    count: int | None = None
    density: float = 1.0
    kinds: tuple[str, ...] = KIND_NAMES


class AreaTable(Section):
    """One area in an areas file."""

    name: Annotated[str, Field(min_length=1)]
    rectangle_m: tuple[Finite, Finite, Finite, Finite]
    count: Annotated[int, Field(ge=0, le=MAX_COUNT)] | None = None
    density: NonNegative = 1.0
    kinds: Annotated[tuple[str, ...], Field(min_length=1)] = KIND_NAMES

    @model_validator(mode="after")
    def _sensible(self) -> AreaTable:
        x0, y0, x1, y1 = self.rectangle_m
        if x0 == x1 or y0 == y1:
            raise ValueError(f"rectangle_m {self.rectangle_m} must have two different corners in x and in y")
        unknown = [kind for kind in self.kinds if kind not in KIND_NAMES]
        if unknown:
            raise ValueError(f"kinds: unknown {unknown[0]!r}, there are {', '.join(KIND_NAMES)}")
        if self.count is not None and "density" in self.model_fields_set:
            raise ValueError("count and density: use only one of them")
        return self


class AreasTable(Section):
    """The content of an areas file."""

    area: Annotated[list[AreaTable], Field(min_length=1)]


def load_areas(path: Path) -> tuple[Area, ...]:
    """Return the areas of a TOML file. Raises ConfigError or InputError that names file, field and limit."""
    with checked(path, InputError):
        tables = AreasTable.model_validate(read_toml(path)).area
    return tuple(_area(table) for table in tables)


def respawn(bare: World, areas: Sequence[Area], seed: int) -> World:
    """Return a bare world with new objects in every area. Without areas, `furnish` fills the whole map.

    The areas are filled in order, each from its own random stream of the seed. Raises InputError for an area without
    free indoor floor.
    """
    if not areas:
        return furnish(bare, seed)
    world, indoors = bare, indoor_cells(bare)
    for index, area in enumerate(areas):
        inside = indoors & (world.gap > 0) & _within(bare, area)
        if not inside.any():
            raise InputError(f"area {area.name}: map {bare.name} has no free indoor floor in it")
        count = item_count(bare, inside, area.density) if area.count is None else area.count
        kinds = [kind for kind in KINDS if kind.name in area.kinds]
        world = furnish_cells(world, inside, count, np.random.default_rng([seed, index]), kinds)
    return world


def _area(table: AreaTable) -> Area:
    x0, y0, x1, y1 = table.rectangle_m
    x_m, y_m = (min(x0, x1), max(x0, x1)), (min(y0, y1), max(y0, y1))
    return Area(table.name, x_m, y_m, table.count, table.density, table.kinds)


def _within(world: World, area: Area) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells whose centres are in the area."""
    rows, columns = world.gap.shape
    pose, cell = world.map_from_grid, world.cell_m
    cos, sin = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    across, up = (np.arange(columns) + 0.5) * cell, (np.arange(rows)[:, None] + 0.5) * cell
    x, y = pose.x_m + cos * across - sin * up, pose.y_m + sin * across + cos * up
    return np.asarray((area.x_m[0] <= x) & (x <= area.x_m[1]) & (area.y_m[0] <= y) & (y <= area.y_m[1]))
