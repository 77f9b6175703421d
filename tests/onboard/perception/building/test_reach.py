"""Where the robot can go in a map, and goals that are out of reach."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onboard.config.config import Config, MapSection, PolicySection
from onboard.episode import Situation, judge
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import Mission
from onboard.navigation.odometry import OdometryState
from onboard.perception.building import occupancy_grid
from onboard.perception.building.occupancy_grid import OccupancyGrid, load_building
from onboard.perception.building.reach import FAR_M, distances, reach_in
from onboard.values.errors import InputError
from onboard.values.messages import GoalRequest, Pose

CELL_M = 0.1
TWO_ROOMS = """
    ##############??
    #.....#......#??
    #.....#......#??
    #.....#......#??
    #.....#......#??
    #.....#......#??
    ##############??
"""


def grid(drawing: str = TWO_ROOMS, corner: Pose | None = None) -> OccupancyGrid:
    kinds = {"#": 100, ".": 0, "?": -1}
    rows = [[kinds[one] for one in line] for line in drawing.split()[::-1]]
    return OccupancyGrid(CELL_M, corner or Pose(0.0, 0.0, 0.0), np.array(rows, np.int8))


def saved(folder: Path, percent: np.ndarray, **table: object) -> Path:
    grey = np.select([percent == 100, percent == 0], [0, 254], 205).astype(np.uint8)
    Image.fromarray(grey[::-1]).save(folder / "map.pgm")
    told = {"image": "map.pgm", "resolution": CELL_M, "origin": [0, 0, 0], "negate": 0, **table}
    file = folder / "map.yaml"
    file.write_text("\n".join(f"{name}: {value}" for name, value in told.items()))
    return file


def test_distances_are_those_of_the_nearest_obstacle() -> None:
    occupied = np.random.default_rng(1).random((23, 31)) < 0.03
    there = np.argwhere(occupied)
    cells = np.argwhere(np.ones_like(occupied))
    defined = np.hypot(*(cells[:, None] - there).transpose(2, 0, 1)).min(axis=1).reshape(occupied.shape)
    np.testing.assert_allclose(distances(occupied, 0.5), 0.5 * defined, rtol=1e-6)
    assert (distances(np.zeros((2, 3), np.bool_), 0.5) >= 0.99 * FAR_M).all()


def test_the_rooms_are_parts_and_the_nearest_place_is_in_the_map() -> None:
    reach = reach_in(grid(corner=Pose(5.0, 0.0, math.pi / 2)), 0.14)
    left, right = reach.part_at((4.65, 0.35)), reach.part_at((4.65, 1.05))
    assert 0 not in (left, right)
    assert left != right
    away_m, place = reach.nearest((4.65, 1.05), left)
    assert away_m == pytest.approx(0.6, abs=0.01)
    assert place == pytest.approx((4.65, 0.45), abs=0.01)
    assert [reach.kind_at(xy) for xy in ((4.65, 0.35), (4.95, 0.35), (4.65, 1.45), (9.0, 9.0))] == [
        "free ground", "an obstacle", "unknown ground", "nothing",
    ]  # fmt: skip


#   goal in the map            what is said of it
GOALS = [
    ("in the same room", (0.3, 0.3), ""),
    ("within tolerance", (0.2, 0.3), ""),
    ("in a wall", (0.65, 0.05), "an obstacle"),
    ("cut off", (1.0, 0.35), "no path to it"),
    ("unknown", (1.5, 0.35), "unknown ground"),
    ("outside", (5.0, 0.35), "nothing"),
]


@pytest.mark.parametrize(("name", "goal", "what"), GOALS, ids=[row[0] for row in GOALS])
def test_a_goal_out_of_reach_is_refused_with_the_nearest_place(name: str, goal: tuple[float, float], what: str) -> None:
    mission, _, (_, verdict, said) = asked(goal, Pose(0.35, 0.35, 1.0))
    assert (verdict, mission.driving) == (("goal_refused", False) if what else ("goal_accepted", True))
    if what:
        assert said.startswith(f"the map (map.file) shows {what} at ")
        assert "the nearest place that can be reached is (0." in said


def test_a_key_that_is_twice_in_the_yaml_is_named(tmp_path: Path) -> None:
    file = saved(tmp_path, grid().percent)
    file.write_text(file.read_text() + f"\nresolution: {CELL_M / 2}\n")
    with pytest.raises(InputError, match=r"map\.yaml: .*the key resolution appears twice, again in line"):
        load_building(file)


def test_a_map_that_does_not_hold_the_robot_is_said() -> None:
    _, _, (_, verdict, said) = asked((0.3, 0.3), Pose(7.0, 0.35, 0.0))
    assert verdict == "goal_refused"
    assert said == "the map (map.file) has no ground to drive on near the robot at (7.00, 0.35)"


def asked(goal: tuple[float, float], place: Pose):  # type: ignore[no-untyped-def]
    """Return the answer to a goal in the map, for a localised robot at a place in it."""
    known = LocalizationState(map_from_base=place, covariance=1e-4 * np.eye(5))
    situation = Situation(0, False, False, OdometryState(stamp_ns=0), known, reach=reach_in(grid(), 0.14))
    return judge(Mission(), None, GoalRequest(0, 0, "map", Pose(*goal, 0.0)), situation, Config())


def test_a_map_is_the_same_from_its_file_and_from_a_recording(tmp_path: Path) -> None:
    read = load_building(saved(tmp_path, grid().percent))
    assert read.cell_m == pytest.approx(0.05)
    np.testing.assert_array_equal(read.percent[::2, ::2], grid().percent)
    again = occupancy_grid.decode(occupancy_grid.encode(read))
    np.testing.assert_array_equal(again.percent, read.percent)
    assert again.digest == read.digest != grid().digest


#   file                                     its line
BAD = [
    ({"resolution": 0.0}, "resolution"),
    ({"image": "none.pgm"}, r"none\.pgm: cannot be read"),
    ({"negate": 1}, "no cell is free"),
]


@pytest.mark.parametrize(("table", "line"), BAD)
def test_a_bad_map_is_one_line(tmp_path: Path, table: dict[str, object], line: str) -> None:
    file = saved(tmp_path, np.where(grid().percent == -1, 100, grid().percent).clip(0), **table)
    if "negate" in table:
        file = saved(tmp_path, np.zeros((5, 5)), **table)
    with pytest.raises(InputError, match=line):
        load_building(file)
    with pytest.raises(InputError, match="not a map"):
        occupancy_grid.decode("{}")


def test_the_keys_are_left_out_of_a_configuration_without_a_map(tmp_path: Path) -> None:
    assert Config().model_dump()["map"] == {}
    section = MapSection(file=tmp_path / "map.yaml")
    assert Config(map=section, policy=PolicySection(model="mapped")).model_dump()["map"] == {"file": section.file}
