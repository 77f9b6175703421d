"""Of drives in a condition with a door: on whose way one stands, and before whom it shut (`hil/blockings.py`).

Where nothing would be in the way no door is put, and such an episode says nothing of who is blocked. So the figures of
a condition are those of the episodes that have a door, which are the same for every policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.blockings import Blocking, advance
from hil.evaluate.metrics import Summary, summarise
from hil.evaluate.result import Door, Row

NOTE = (
    "Behind doors: the figures of those episodes on whose way a shut door leaves no other way, or one that is longer "
    "by 10 m; beside them how many drove near enough that it shut."
)


@dataclass(frozen=True, slots=True)
class BehindDoors:
    """The episodes that have a door. driven: how many there are with and without; shut: before how many it shut."""

    driven: int
    shut: int
    summary: Summary

    def __str__(self) -> str:
        return f"{self.summary.episodes} of {self.driven} behind doors, {self.shut} shut"

    def as_json(self) -> dict[str, Any]:
        """Return plain values: how many have a door, before how many it shut, and their figures."""
        return {"episodes": self.summary.episodes, "shut": self.shut, "summary": self.summary.as_json()}


def behind_doors(rows: Sequence[Row], seed: int) -> BehindDoors | None:
    """Return the episodes with a door; None where no row tells: in a condition without, or of an older version."""
    if all(row.door is None for row in rows):
        return None
    behind = [row for row in rows if is_behind(row)]
    return BehindDoors(len(rows), sum(row.door == "shut" for row in behind), summarise(behind, seed))


def is_behind(row: Row) -> bool:
    """Return whether an episode has a door on its way."""
    return row.door in ("open", "shut")


def door_of(door: Blocking | None, way: npt.NDArray[np.float64], radius_m: float) -> Door:
    """Return what a robot that drove a way met. way: (n, 2) in the map frame [m], a row a tick; door: at its start."""
    if door is None:
        return "none"
    return "shut" if any(advance(door, 0.0, (x, y), radius_m).left_s is not None for x, y in way) else "open"
