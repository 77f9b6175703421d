"""The recipe: checked at load, and told apart by what its checkpoints depend on."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from engines.train.config import described, load_train_config, rules_of
from engines.train.drives.domain import DomainSection, furniture_seeds
from hil.drive.episode_sets import RESERVED_SEEDS
from onboard.config.config import RatesSection
from onboard.values.errors import ConfigError
from tests.rigs.train_rig import batched


def test_the_plant_of_the_recipe_is_the_robots(tmp_path):
    given = rules_of(batched()).robot.config.robot.plant.read_text()
    plant = tmp_path / "slow.toml"
    plant.write_text(given.replace("speed_max = 1.0", "speed_max = 0.7"))
    assert "speed_max = 0.7" in plant.read_text()
    assert rules_of(batched(robot__plant=str(plant))).robot.plant.linear.speed_max == 0.7


#   rates of the robot's file                      delay_ticks of the domain   what is stated: delay, control, decisions
DELAYS = [
    ("delay_ticks = 3", [2, 4], (3, 30.0, 3.0)),
    ("delay_ticks = 2", [2, 4], (2, 30.0, 3.0)),
    ("delay_ticks = 3", [6, 6], (6, 30.0, 3.0)),
    ("delay_ticks = 3", [5, 9], (7, 30.0, 3.0)),
    ("ticks_per_decision = 15", [2, 4], (3, 30.0, 2.0)),
]


@pytest.mark.parametrize(("rates", "drawn", "expected"), DELAYS)
def test_the_rates_are_those_of_the_training(tmp_path, rates, drawn, expected):
    file = tmp_path / "onboard.toml"
    file.write_text(f"[rates]\n{rates}\n")
    stated = described(batched(robot__config=str(file), domain__delay_ticks=drawn))
    assert (stated["training_delay_ticks"], stated["control_hz"], stated["decision_hz"]) == expected


#   change                                           what is said of it
WRONG = [
    ({"name__x": 1}, "name.x: name is a value, not a table"),
    ({"places__maps": []}, "places.maps"),
    ({"places__least_m": 9.0, "places__most_m": 3.0}, "least_m 9 must not be above most_m 3"),
]


@pytest.mark.parametrize(("changes", "expected"), WRONG)
def test_what_makes_no_sense_is_refused_in_one_line(changes, expected):
    with pytest.raises(ConfigError) as refused:
        batched(**changes)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", [{"delay_ticks": (4, 2)}, {"drift_scale": (0.0, 200.0)}, {"plant_spread": 1.0}])
def test_ranges_out_of_order_or_bounds_are_refused(change):
    with pytest.raises(ValidationError):
        DomainSection(**change)


def test_a_delay_that_the_robot_cannot_have_is_refused():
    with pytest.raises(ConfigError, match=r"domain\.delay_ticks: expected 1 or more and below .* 10, found 3, 10"):
        DomainSection(delay_ticks=(3, 10)).check(RatesSection())


def test_furniture_never_has_a_seed_of_the_evaluation(monkeypatch):
    seeds = furniture_seeds([1], 4)
    monkeypatch.setattr("engines.train.drives.domain.RESERVED_SEEDS", {seeds[1]})
    other = furniture_seeds([1], 4)
    assert (other[0], other[2:]) == (seeds[0], seeds[2:])
    assert other[1] not in {seeds[1], *RESERVED_SEEDS}


def test_files_are_told_apart_by_what_is_in_them_and_found_beside_the_recipe(tmp_path):
    plant = rules_of(batched()).robot.config.robot.plant.read_text()
    digests = []
    for folder, text in (
        ("one", plant),
        ("same", plant),
        ("other", plant.replace("speed_max = 1.0", "speed_max = 0.7")),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "base.toml").write_text(text)
        (tmp_path / folder / "recipe.toml").write_text('[robot]\nplant = "base.toml"\n')
        digests.append(load_train_config(tmp_path / folder / "recipe.toml").digest())
    assert digests[0] == digests[1] != digests[2]


def room(folder, cells):
    """Write a map of one's own, and return its file."""
    Image.fromarray(cells).save(folder / "room.pgm")
    file = folder / "room.yaml"
    file.write_text("image: room.pgm\nresolution: 0.05\norigin: [0, 0, 0]\nnegate: 0\n")
    return file


def test_a_building_that_changes_meanwhile_is_not_the_one_that_was_trained_on(tmp_path):
    cells = np.full((40, 40), 254, np.uint8)
    config = batched(places__maps=[str(room(tmp_path, cells))])
    before = config.digest()
    room(tmp_path, cells // 2)
    assert (config.digest(), described(config)["digest"]) == (before, before)


#   file that the robot's own names    text in it that changes
@pytest.mark.parametrize(("name", "old"), [("plant", "speed_max = 1.0"), ("mounts", "least_m")])
def test_a_robot_is_known_by_the_files_that_it_names_too(tmp_path, name, old):
    named = tmp_path / f"{name}.toml"
    given = getattr(rules_of(batched()).robot.config.robot, name).read_text()
    named.write_text(given)
    robot = tmp_path / "onboard.toml"
    robot.write_text(f'[robot]\n{name} = "{name}.toml"\n')
    config = batched(robot__config=str(robot))
    before = config.digest()
    assert old in given
    named.write_text(given.replace(old, f"# {old}", 1))
    assert batched(robot__config=str(robot)).digest() != before
