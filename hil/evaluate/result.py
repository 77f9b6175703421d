"""The result of an episode: a row. A campaign's partial file holds a row per line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from onboard.config.plant_model import Axis
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.reasons import row_of

Door = Literal["none", "open", "shut"]
"""Door of an episode, in a condition with doors (`metrics.py`). none: the path has no place for a door.
open: the door never closed. shut: the door closed.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of driving an episode once.

    map, building:   name of the set, and of the building
    split:           "train", "test", or "own" for the operator's maps
    index:           number of the episode in the set, from 0
    seed:            seed of this episode's noise
    success:         the policy stopped the robot in time (`Draw.limit_s`); it stood truly within 0.2 m of the goal
    ended:           "stop", "time", or the reason of the runtime; `end` is its code (`onboard/values/reasons.py`)
    time_s, path_m:  simulated time, and length of the driven path
    shortest_m:      geodesic distance from start to goal
    straight_m:      straight distance from start to goal
    fastest_s:       t* of `fastest_time_s` for shortest_m
    contacts:        number of contacts; a long contact counts once
    bumps:           number of times that a moving character ran into the robot; these are not contacts
    min_clearance_m: least distance to anything solid during the drive, inf if nothing was near
    distance_m:      true distance to the goal at the end
    actions:         (28,) number of decisions for each action
    door:            door on the path; None in a condition without doors, and in a row from an older version
    set_by_kernels:  number of poses of the base that kernels have set; None without kernels
    unseen_contacts: contacts with what is lower or higher than all that the scan sees; None without a contact
    tracked:         `TrackedSlot`s of the fast loop (`hil/drive/fast/drive.py`); None without a tracker
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
    set_by_kernels: int | None = None
    unseen_contacts: int | None = None
    tracked: tuple[tuple[float, float, bool], ...] | None = None

    @property
    def end(self) -> str:
        """Code of the end: "stop", "time", or that of the runtime's reason; a text of another release as it is."""
        row = row_of(self.ended)
        return self.ended if row is None else row.code

    @property
    def detour(self) -> float:
        """Length of the shortest path divided by the straight distance; 1 if that distance is 0."""
        return self.shortest_m / self.straight_m if self.straight_m > 0.0 else 1.0

    @property
    def spl(self) -> float:
        """SPL of this episode, success weighted by path length: success * l* / max(l, l*)."""
        return self.success * _part(self.shortest_m, self.path_m)

    @property
    def sct(self) -> float:
        """SCT of this episode, success weighted by completion time: success * t* / max(c, t*)."""
        return self.success * _part(self.fastest_s, self.time_s)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, from which `row_of_json` makes an equal row.

        A clearance of inf becomes None. The keys of `OPTIONAL` are absent if they are None.
        """
        table = asdict(self)
        table["min_clearance_m"] = self.min_clearance_m if math.isfinite(self.min_clearance_m) else None
        table["actions"] = list(self.actions)
        return {name: value for name, value in table.items() if name not in OPTIONAL or value is not None}


OPTIONAL = {"door", "set_by_kernels", "unseen_contacts", "tracked"}
"""Fields that only some conditions have."""


def row_of_json(table: Mapping[str, Any]) -> Row:
    """Return the row from the values of `Row.as_json`. Raises InputError that names the missing or wrong fields."""
    unlike = set(table) ^ {field.name for field in fields(Row)} - (OPTIONAL - set(table))
    if unlike:
        raise InputError(f"an episode's row: unlike what is expected in {', '.join(sorted(unlike))}")
    if table.get("door") not in (None, *get_args(Door)):
        raise InputError(f"an episode's row: door must be {' or '.join(get_args(Door))}")
    actions = table["actions"]
    if not isinstance(actions, list) or len(actions) != len(ACTIONS):
        raise InputError(f"an episode's row: actions must be {len(ACTIONS)} numbers")
    clearance, tracked = table["min_clearance_m"], table.get("tracked")
    return Row(
        **{
            **table,
            "min_clearance_m": math.inf if clearance is None else float(clearance),
            "actions": tuple(int(count) for count in actions),
            "tracked": None if tracked is None else tuple((off_m, off_rad, lost) for off_m, off_rad, lost in tracked),
        }
    )


def fastest_time_s(length_m: float, axis: Axis) -> float:
    """Return t*, a lower bound of the time from rest to rest over a path of this length [s].

    Paper 1, section 5, uses linear dynamics along the straight segments of the shortest path. Here the segments form
    a single straight line. The base drives it with its largest acceleration and speed.

    Corners cost no time, since a base can turn while it drives. With stops or turns at the corners, t* would not be a
    lower bound. For the same reason t* ignores the delay of the loop and the slower step response of the base.
    """
    v, a = axis.speed_max, max(axis.acceleration_max, axis.braking_max)
    if length_m * a < v * v:
        return 2.0 * math.sqrt(length_m / a)
    return length_m / v + v / a


def _part(least: float, needed: float) -> float:
    largest = max(least, needed)
    return least / largest if largest > 0.0 else 1.0
