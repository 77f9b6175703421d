"""What one episode came to: one row of every table, and one line of a campaign's file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from onboard.config.plant_model import Axis
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError

# ---- Which code drives: rows of different code are different experiments


Door = Literal["none", "open", "shut"]
"""Of an episode in a condition with a door: no place on its way is for one, it never shut, or it did (`metrics.py`)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One episode, driven once.

    map, building, split, index: which episode: set, building, "train" or "test", number in the set from 0
    seed:            of this episode's noise
    success:         ended by its own stop, at rest, truly within 0.2 m of the goal, before 100 s
    ended:           "stop", "time", or the runtime's own reason
    time_s, path_m:  simulated time and length of the way driven
    shortest_m:      geodesic distance of the episode; straight_m: the same as the crow flies
    fastest_s:       t* of `fastest_time_s` over shortest_m
    contacts:        contacts, each counted once however long it lasted
    bumps:           times that something that moves walked into the robot; not among the contacts
    min_clearance_m: least distance to anything solid during the drive, inf where nothing was near
    distance_m:      true distance to the goal at the end
    actions:         how often each of the 28 actions was chosen
    door:            what was on its way; None in a condition without, and in a row of an older version
    """

    map: str
    building: str
    split: str
    index: int
    policy: str
    seed: int
    success: bool
    ended: str
    time_s: float
    path_m: float
    shortest_m: float
    straight_m: float
    fastest_s: float
    contacts: int
    bumps: int
    min_clearance_m: float
    distance_m: float
    actions: tuple[int, ...]
    door: Door | None = None

    @property
    def detour(self) -> float:
        """How much longer the shortest way is than the straight one; 1 at no distance."""
        return self.shortest_m / self.straight_m if self.straight_m > 0.0 else 1.0

    @property
    def spl(self) -> float:
        """Success weighted by path length, of this episode: success * l* / max(l, l*)."""
        return self.success * _part(self.shortest_m, self.path_m)

    @property
    def sct(self) -> float:
        """Success weighted by completion time, of this episode: success * t* / max(c, t*)."""
        return self.success * _part(self.fastest_s, self.time_s)

    def as_json(self) -> dict[str, Any]:
        """Return plain values from which `row_of_json` makes an equal row: a clearance of inf is None, `door` there
        where it is told.
        """
        table = asdict(self)
        table["min_clearance_m"] = self.min_clearance_m if math.isfinite(self.min_clearance_m) else None
        table["actions"] = list(self.actions)
        if self.door is None:
            del table["door"]
        return table


def row_of_json(table: Mapping[str, Any]) -> Row:
    """Return the row of `Row.as_json`. Raises InputError naming what is missing or wrong."""
    unlike = set(table) ^ {field.name for field in fields(Row)} - ({"door"} - set(table))
    if unlike:
        raise InputError(f"an episode's row: unlike what is expected in {', '.join(sorted(unlike))}")
    if table.get("door") not in (None, *get_args(Door)):
        raise InputError(f"an episode's row: door must be {' or '.join(get_args(Door))}")
    actions = table["actions"]
    if not isinstance(actions, list) or len(actions) != len(ACTIONS):
        raise InputError(f"an episode's row: actions must be {len(ACTIONS)} numbers")
    clearance = table["min_clearance_m"]
    return Row(
        **{
            **table,
            "min_clearance_m": math.inf if clearance is None else float(clearance),
            "actions": tuple(int(count) for count in actions),
        }
    )


def fastest_time_s(length_m: float, axis: Axis) -> float:
    """Return t*, a lower bound of the time from rest to rest over a way of this length [s].

    Paper 1, section 1.9: linear dynamics along the straight segments of the shortest path. Read as one stretch of their
    whole length with the base's largest acceleration and speed: no stop and no turning at the corners, since a base
    that turns while it drives need do neither, and with them the time would not be a lower bound. The loop's delay
    and the base's slower answer to a step are left out for the same reason.
    """
    v, a = axis.speed_max, axis.acceleration_max
    if length_m * a < v * v:
        return 2.0 * math.sqrt(length_m / a)
    return length_m / v + v / a


def _part(least: float, needed: float) -> float:
    largest = max(least, needed)
    return least / largest if largest > 0.0 else 1.0
