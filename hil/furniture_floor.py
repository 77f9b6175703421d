"""The floor while it is being furnished, and how much of it stays free."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.furniture_kinds import Item
from hil.intervals import put_parts
from hil.textures import MATERIALS

PASSAGE_M = 0.9
"""Free floor kept beside and between things; the default body is 0.5 m wide."""
WALL_GAP_M = 0.15
"""A back or a side within this of something solid stands at it; scanned walls are not straight."""
TRIES = 40
"""Places tried for one thing."""
QUARTER_TURNS = 4
TURNS = tuple((round(math.cos(k * math.pi / 12), 12), round(math.sin(k * math.pi / 12), 12)) for k in range(24))
"""Cosine and sine of angles in steps of 15 deg, rounded so that all machines agree."""

Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Floor:
    """What is being furnished; the arrays are written to.

    taken:  (rows, columns) bool; walls, and the rectangles of what was placed
    inside: (rows, columns) bool; where things may stand
    low_m, high_m, material: as of a `World`
    """

    cell_m: float
    taken: Cells
    inside: Cells
    low_m: npt.NDArray[np.float32]
    high_m: npt.NDArray[np.float32]
    material: npt.NDArray[np.uint8]

    @property
    def ring(self) -> int:
        """Return `PASSAGE_M` in cells."""
        return math.ceil(PASSAGE_M / self.cell_m)

    @property
    def near(self) -> int:
        """Return `WALL_GAP_M` in cells."""
        return math.ceil(WALL_GAP_M / self.cell_m)

    def put(self, item: Item, centre: tuple[float, float], turn: tuple[float, float]) -> None:
        """Write an item's parts into the cells about a centre x, y [cells]; turn is a cosine and a sine."""
        cell = self.cell_m
        parts = [
            (p.u0 / cell, p.v0 / cell, p.u1 / cell, p.v1 / cell, p.low, p.high, MATERIALS.index(p.material))
            for p in item.parts
        ]
        put_parts(self.low_m, self.high_m, self.material, np.array(parts), centre, turn)


def below(rng: np.random.Generator, count: int) -> int:
    """Return a whole number in [0, count). Only `random()` is used: its numbers are the same in every release."""
    return int(rng.random() * count)
