"""Sets of starts and goals: committed ones are feasible and what their seed gives; one's own are read or refused."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from hil.drive.episodes import (
    COMMITTED,
    EPISODES_FOLDER,
    MAX_M,
    MIN_M,
    EpisodeSet,
    choose,
    load_episodes,
    make_episodes,
    make_set,
    straight_m,
)
from hil.maps.cell_kernels import line_is_free
from hil.physics.collision_world import Body, Simulation
from hil.physics.free_space import free_space, path_length, shortest_path
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError
from onboard.values.messages import Pose

BODY = Body()
PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
SQUARE = [[0, 0, 9, 0], [9, 0, 9, 9], [9, 9, 0, 9], [0, 9, 0, 0]]
"""Walls of a hall of 9 x 9 m."""


@pytest.fixture(scope="module", params=[plan.map_name for plan in COMMITTED])
def committed(request: pytest.FixtureRequest) -> EpisodeSet:
    return load_episodes(request.param)


def test_a_committed_set_is_feasible(committed: EpisodeSet) -> None:
    """Both ends have standing room, and the way between them is as long as the file says, whichever end it is from."""
    world = committed.world
    space = free_space(world, BODY)
    simulation = Simulation(world, PLANT, BODY)
    for episode in committed.episodes:
        path = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
        assert MIN_M <= episode.geodesic_m <= MAX_M
        assert path_length(path) == pytest.approx(episode.geodesic_m, rel=0.02)
        assert straight_m(episode) <= episode.geodesic_m + 1e-3
        assert not simulation.overlaps(Pose(*episode.goal_xy_m, 0.0))
        simulation.start(episode.start)
        cells = [world.cell_of((float(x), float(y))) for x, y in path]
        assert all(line_is_free(space.passable, a, b) for a, b in itertools.pairwise(cells))


def test_a_committed_set_says_what_it_is(committed: EpisodeSet) -> None:
    plan = next(plan for plan in COMMITTED if plan.map_name == committed.name)
    assert (committed.map_name, committed.building, committed.split) == (plan.map_name, plan.building, plan.split)
    assert (committed.seed, len(committed.episodes)) == (plan.seed, plan.count)
    lengths_m = np.array([episode.geodesic_m for episode in committed.episodes])
    assert (lengths_m > 8.5).sum() >= plan.count / 4  # drawn uniformly, not by how many cells lie at a distance
    assert (lengths_m < 8.5).sum() >= plan.count / 4


def test_no_building_is_in_both_splits_and_there_are_enough_of_them() -> None:
    splits = {building: {plan.split for plan in COMMITTED if plan.building == building} for building in _buildings()}
    assert all(len(split) == 1 for split in splits.values())
    assert len(splits) >= 6
    assert sum(plan.count for plan in COMMITTED) >= 200
    assert {file.stem for file in EPISODES_FOLDER.iterdir()} == {plan.map_name for plan in COMMITTED}


def _buildings() -> set[str]:
    return {plan.building for plan in COMMITTED}


@pytest.mark.parametrize("name", ["apartment", "depot"])
def test_a_committed_set_is_what_its_seed_gives(name: str) -> None:
    """The first two: the same draws, to the file's precision."""
    known = load_episodes(name)
    for drawn, kept in zip(make_set(name, known.seed, 2).episodes, known.episodes, strict=False):
        assert drawn.start.x_m == pytest.approx(kept.start.x_m, abs=1e-4)
        assert drawn.start.yaw_rad == pytest.approx(kept.start.yaw_rad, abs=1e-4)
        assert drawn.goal_xy_m == pytest.approx(kept.goal_xy_m, abs=1e-4)
        assert drawn.geodesic_m == pytest.approx(kept.geodesic_m, abs=1e-4)


def hall(folder: Path) -> Path:
    (folder / "hall.json").write_text(json.dumps(SQUARE))
    return folder / "hall.json"


def test_a_set_of_ones_own_is_written_and_read(tmp_path: Path) -> None:
    map_file = hall(tmp_path)
    (tmp_path / "sets").mkdir()
    file = make_episodes(str(map_file), 5, 3, tmp_path / "sets")
    known, drawn = load_episodes(file), make_set(map_file, 5, 3)
    assert (known.name, known.split, known.seed) == ("hall", None, 5)
    np.testing.assert_array_equal(known.world.low_m, drawn.world.low_m)
    assert known.episodes[0].goal_xy_m == pytest.approx(drawn.episodes[0].goal_xy_m, abs=1e-4)
    row = json.loads(file.read_text())["episodes"][2]
    assert row["straight_m"] == pytest.approx(math.dist(row["start_x_y_yaw"][:2], row["goal_x_y"]), abs=2e-4)


def test_a_map_beside_the_file_is_found(tmp_path: Path) -> None:
    hall(tmp_path)
    (tmp_path / "own.json").write_text(json.dumps(GOOD | {"map": "hall.json"}))
    assert load_episodes(tmp_path / "own.json").world.name == "hall"


def test_other_seeds_give_other_sets(tmp_path: Path) -> None:
    map_file = hall(tmp_path)
    assert make_set(map_file, 1, 2).episodes == make_set(map_file, 1, 2).episodes
    assert make_set(map_file, 1, 2).episodes != make_set(map_file, 2, 2).episodes


GOOD = {
    "map": "home",
    "building": "home",
    "split": "test",
    "seed": 1,
    "furniture": {"seed": 1, "density": 1.0},
    "episodes": [{"start_x_y_yaw": [0, 0, 0], "goal_x_y": [1, 1], "geodesic_m": 2.0}],
}

# name, changes, what the line names
BAD = [
    ("no furniture", {"furniture": None}, "not a file of episodes"),
    ("too much furniture", {"furniture": {"seed": 1, "density": 1e30}}, "furniture.density 1e+30 must be 0 to 10"),
    ("less than no furniture", {"furniture": {"seed": 1, "density": -0.1}}, "furniture.density -0.1 must be 0 to 10"),
    ("furniture that is NaN", {"furniture": {"seed": 1, "density": math.nan}}, "furniture.density nan must be 0 to 10"),
    ("a split of its own", {"split": "half"}, "split 'half' must be one of train, test"),
    ("no episode", {"episodes": []}, "holds no episode"),
    (
        "an episode without goal",
        {"episodes": [{"start_x_y_yaw": [0, 0, 0], "geodesic_m": 1.0}]},
        "KeyError('goal_x_y')",
    ),
    ("a start of two", {"episodes": [GOOD["episodes"][0] | {"start_x_y_yaw": [0, 0]}]}, "not a file of episodes"),
    ("a goal that is NaN", {"episodes": [GOOD["episodes"][0] | {"goal_x_y": [0, math.nan]}]}, "finite"),
    ("an unknown map", {"map": "atlantis"}, "atlantis"),
    ("a list", [], "not a file of episodes"),
]


@pytest.mark.parametrize(("name", "changes", "named"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_file_is_refused_in_one_line(name: str, changes: object, named: str, tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text(json.dumps(GOOD | changes if isinstance(changes, dict) else changes))
    with pytest.raises(InputError) as refused:
        load_episodes(tmp_path / "set.json")
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_map_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gdc1\.json: cannot be read"):
        load_episodes("gdc1", tmp_path)


def test_a_scenario_is_a_committed_episode_or_one_by_seed() -> None:
    known = load_episodes("depot")
    assert choose("depot", 7, 2, BODY).episode == known.episodes[2]
    assert choose("depot", 7, None, BODY).episode == make_set("depot", 7, 1).episodes[0]
    with pytest.raises(InputError, match="--episode 25: map depot has episodes 0 to 24"):
        choose("depot", 7, 25, BODY)
