"""Named places of a building: `places.toml` next to its map, a table for each name.

[kitchen]
x_m = 4.2
y_m = -1.0
yaw_deg = 90.0
"""

from __future__ import annotations

import math
import os
import unicodedata
from pathlib import Path

from onboard.config.config import Config
from onboard.config.toml_file import Finite, Section, checked, read_toml
from onboard.values.errors import ConfigError, InputError, naming
from onboard.values.messages import Pose

FILE = "places.toml"
MOST_LETTERS = 40
DWELL_S = 1.0
"""Least time between two drives of a route: places may be the same, or reached already."""
TOLD_SD = (0.3, 0.3, 0.2)
"""Standard deviation of a pose as an operator states it: x, y [m], yaw [rad]."""


class Place(Section):
    """A place in the map frame: position [m] and heading [deg]."""

    x_m: Finite
    y_m: Finite
    yaw_deg: Finite = 0.0

    @property
    def pose(self) -> Pose:
        """Return the pose."""
        return Pose(self.x_m, self.y_m, math.radians(self.yaw_deg))


def places_file(config: Config) -> Path:
    """Return the file of a configuration's places. Raises ConfigError without a map."""
    if config.map.file is None:
        raise ConfigError("map.file: places need the map of the building")
    return config.map.file.parent / FILE


def load_places(file: Path) -> dict[str, Place]:
    """Return the places by name; none without a file. Raises ConfigError with one line."""
    if not file.exists():
        return {}
    places = {}
    for name, table in read_toml(file).items():
        with checked(f"{file}: {name}"):
            places[place_name(name, f"{file}: ")] = Place.model_validate(table)
    return places


def add_place(file: Path, name: str, pose: Pose) -> None:
    """Add a place at the end of the file. Raises ConfigError, or InputError for a name that is there or is none."""
    name = place_name(name)
    if name in load_places(file):
        raise InputError(f"{file}: place {name} already exists; remove its table, or choose another name")
    key = name if name.isascii() else f'"{name}"'
    table = f"[{key}]\nx_m = {pose.x_m:.3f}\ny_m = {pose.y_m:.3f}\nyaw_deg = {math.degrees(pose.yaw_rad):.1f}\n"
    with naming(file, "written"):
        text = file.read_text(encoding="utf-8") + "\n" if file.exists() else ""
        whole = file.with_name(f".{file.name}.{os.getpid()}")  # a power cut leaves the old file or the new one
        whole.write_text(text + table, encoding="utf-8")
        os.replace(whole, file)


def place_of(config: Config, name: str) -> Place:
    """Return a place by name. Raises ConfigError or InputError that lists the places."""
    file = places_file(config)
    places, name = load_places(file), unicodedata.normalize("NFC", name[: 2 * MOST_LETTERS])
    if name not in places:
        raise InputError(f"{file}: there is no place {name}; known places: {', '.join(places) or 'none yet'}")
    return places[name]


def place_name(name: str, where: str = "") -> str:
    """Return a name in the form that is stored (NFC). Raises InputError for a name that is none of a place."""
    name = unicodedata.normalize("NFC", name)
    kinds = [unicodedata.category(one)[0] for one in name]
    known = all(kind in "LMN" or one in "-_" for kind, one in zip(kinds, name, strict=True))
    if not known or kinds[:1] != ["L"] or len(name) > MOST_LETTERS:
        rule = f"at most {MOST_LETTERS} letters, digits, - and _, a letter first"
        raise InputError(f"{where}{name[:MOST_LETTERS]!r} is not a name for a place: {rule}")
    return name
