"""Places that the robot cannot drive to, by the map of its building."""

from __future__ import annotations

import math
from pathlib import Path

from onboard.assembly.robot import building_of
from onboard.config.config import Config
from onboard.config.places import Place, add_place, load_places, place_name, places_file
from onboard.perception.building.reach import reach_in
from onboard.values.errors import InputError
from onboard.values.messages import Pose


def unreachable(config: Config, places: dict[str, Place]) -> dict[str, str]:
    """Return what is wrong with each place in a wall, in unknown ground, outside the map, or cut off from the others.

    Raises ConfigError or InputError.
    """
    building = building_of(config)
    if building is None or not places:
        return {}
    reach, tolerance_m, wrong = reach_in(building, config.robot.footprint.inner_m), config.goal.tolerance_m, {}
    part = reach.common_part([(one.x_m, one.y_m) for one in places.values()], tolerance_m)
    for name, one in places.items():
        found = reach.obstruction((one.x_m, one.y_m), part, tolerance_m)
        if found is not None:
            what, near = found
            what = f"{what} from the other places" if what == "no path to it" and part else what
            said = f"the map shows {what} at ({one.x_m:.2f}, {one.y_m:.2f})"
            reached = math.isfinite(reach.nearest(near, part)[0])
            nearest = f"; the nearest place that can be reached is ({near[0]:.2f}, {near[1]:.2f})" if reached else ""
            wrong[name] = said + nearest
    return wrong


def name_place(config: Config, name: str, here: Pose) -> Path:
    """Give the robot's pose in the map a name; return the file. Raises ConfigError, or InputError out of reach."""
    file, name = places_file(config), place_name(name)
    line = unreachable(config, load_places(file) | {name: Place(x_m=here.x_m, y_m=here.y_m)}).get(name)
    if line is not None:
        raise InputError(f"{name}: {line}; is the robot where onboard status says?")
    add_place(file, name, here)
    return file


def places_out_of_reach(config: Config) -> list[str]:
    """Return a line for each place of `places.toml` that the robot cannot drive to. Raises ConfigError, InputError."""
    if config.map.file is None:
        return []
    file = places_file(config)
    return [f"{file}: {name}: {line}" for name, line in unreachable(config, load_places(file)).items()]
