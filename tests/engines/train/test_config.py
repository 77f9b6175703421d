"""The recipe: checked at load, and told apart by what its checkpoints depend on."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from engines.train.command import DEFAULT_CONFIG
from engines.train.config import DEPENDS, described, load_train_config, rules_of
from onboard import __version__
from onboard.values.errors import ConfigError
from tests.rigs.train_rig import small


def test_the_default_recipe_is_the_papers_network_with_the_goal_layer():
    config = load_train_config(DEFAULT_CONFIG)
    assert (config.network.widths.memory, config.network.widths.memory_layers) == (1024, 2)
    assert config.network.variant.goal_from == "pose"
    assert 24 <= config.driving.most_run <= 64
    assert set(config.places.maps) == {"gdc1", "gdc3", "ghc7", "ase4", "depot"}


#   change                          stages whose checkpoints it makes useless
CHANGES = [
    ({"name": "another"}, ()),
    ({"reinforce__rate": 1e-6}, ("reinforce",)),
    ({"imitation__rate": 1e-6}, ("imitation", "reinforce")),
    ({"domain__limits": 0.1}, ("imitation", "reinforce")),
    ({"seed": 5}, ("imitation", "reinforce")),
]


@pytest.mark.parametrize(("changes", "stages"), CHANGES)
def test_a_stage_depends_on_its_own_tables_and_those_before(changes, stages):
    one, other = small(), small(**changes)
    assert tuple(stage for stage in DEPENDS if one.digest(stage) != other.digest(stage)) == stages


#   recipe            changes                                     first chapter with rendered images
FIRST_COLOURED = [
    ("default.toml",  {},                                         6),
    ("onward.toml",   {},                                         4),
    ("finetune.toml", {},                                         None),
    ("default.toml",  {"imitation.chapters": 3},                  2),
    ("default.toml",  {"imitation.chapters": 2},                  None),
    ("default.toml",  {"imitation.coloured": 1.0},                0),
    ("default.toml",  {"imitation.coloured": 0.0},                None),
    ("default.toml",  {"imitation.colour": 0.0},                  None),
    ("default.toml",  {"network.rgb": False},                     None),
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "changes", "first"), FIRST_COLOURED)
def test_images_are_rendered_from_one_chapter_on_or_never(recipe, changes, first):
    assert load_train_config(DEFAULT_CONFIG.parent / recipe, changes).first_coloured == first


def test_the_plant_of_the_recipe_is_the_robots(tmp_path):
    given = rules_of(small()).robot.config.robot.plant.read_text()
    plant = tmp_path / "slow.toml"
    plant.write_text(given.replace("speed_max = 1.0", "speed_max = 0.7"))
    assert "speed_max = 0.7" in plant.read_text()
    assert rules_of(small(robot__plant=str(plant))).robot.plant.linear.speed_max == 0.7


def test_what_a_policy_tells_of_its_training():
    stated = described(small(seed=3))
    assert (stated["seed"], stated["training_delay_ticks"], stated["memory_reset_s"]) == (3, 3, 10.0)
    assert stated["config"]["places"]["maps"] == ["depot"]
    assert (stated["onboard"], stated["init"], stated["digest"]) == (
        __version__,
        None,
        small(seed=3).digest("imitation"),
    )
    assert "encoder" not in stated["config"]


def test_a_policy_tells_the_encoders_recipe_the_last_stage_and_what_it_began_with():
    stated = described(small(), ["encoder", "imitation", "reinforce"], "onboard-v1")
    assert (stated["init"], stated["stages"][-1], stated["digest"]) == (
        "onboard-v1",
        "reinforce",
        small().digest("reinforce"),
    )
    assert stated["config"]["encoder"]["batch"] == small().encoder.batch
    # Files of this machine are nobody's matter.
    assert "mounts" not in stated["config"]["encoder"]["views"]


#   rates of the robot's file                      delay_ticks of the domain   what is told: delay, control, decisions
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
    stated = described(small(robot__config=str(file), domain__delay_ticks=drawn))
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
        small(**changes)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_are_told_apart_by_what_is_in_them_and_found_beside_the_recipe(tmp_path):
    plant = rules_of(small()).robot.config.robot.plant.read_text()
    digests = []
    for folder, text in (
        ("one", plant),
        ("same", plant),
        ("other", plant.replace("speed_max = 1.0", "speed_max = 0.7")),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "base.toml").write_text(text)
        (tmp_path / folder / "recipe.toml").write_text('[robot]\nplant = "base.toml"\n')
        digests.append(load_train_config(tmp_path / folder / "recipe.toml").digest("imitation"))
    assert digests[0] == digests[1] != digests[2]


#    recipe           stage         digest of the trainings that were made with it
DIGESTS = [
    ("default.toml", "imitation", "ca7a644a34b74a45242bc924089c6c5e3d0fd2a44c296fc7e7d72e5fb3535a76"),
    ("default.toml", "reinforce", "305842ce5142a7e5907415669886d2b722e2eca1e4b38b33a1c2c2a9615046d9"),
    ("onward.toml", "reinforce", "f83c86ecca6047e598eed50b656f0ef1f6060519f0b78270e6f8fb496eace828"),
    ("finetune.toml", "imitation", "1c68390a52ce2d28ab76a15bcdd8276bd1dbf0092689bf1535eab826455c7f91"),
]


@pytest.mark.parametrize(("recipe", "stage", "digest"), DIGESTS)
def test_a_recipe_is_the_one_that_trainings_were_made_with(recipe, stage, digest):
    assert load_train_config(DEFAULT_CONFIG.with_name(recipe)).digest(stage) == digest


def room(folder, cells):
    """Write a map of one's own, and return its file."""
    Image.fromarray(cells).save(folder / "room.pgm")
    file = folder / "room.yaml"
    file.write_text("image: room.pgm\nresolution: 0.05\norigin: [0, 0, 0]\nnegate: 0\n")
    return file


def test_a_building_that_changes_meanwhile_is_not_the_one_that_was_trained_on(tmp_path):
    cells = np.full((40, 40), 254, np.uint8)
    config = small(places__maps=[str(room(tmp_path, cells))])
    before = config.digest("imitation")
    room(tmp_path, cells // 2)
    assert (config.digest("imitation"), described(config)["digest"]) == (before, before)


#   file that the robot's own names    text in it that changes
@pytest.mark.parametrize(("name", "old"), [("plant", "speed_max = 1.0"), ("mounts", "least_m")])
def test_a_robot_is_known_by_the_files_that_it_names_too(tmp_path, name, old):
    named = tmp_path / f"{name}.toml"
    given = getattr(rules_of(small()).robot.config.robot, name).read_text()
    named.write_text(given)
    robot = tmp_path / "onboard.toml"
    robot.write_text(f'[robot]\n{name} = "{name}.toml"\n')
    config = small(robot__config=str(robot))
    before = config.digest("imitation")
    assert old in given
    named.write_text(given.replace(old, f"# {old}", 1))
    assert small(robot__config=str(robot)).digest("imitation") != before


def test_the_encoders_files_are_found_beside_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[encoder]\ntest_maps = ["other.yaml", "ahg2"]\n'
        '[encoder.views]\nmaps = ["room.yaml", "depot"]\nmounts = "mounts.toml"\n'
    )
    section = load_train_config(recipe).encoder
    assert section.views.maps == (str(tmp_path / "room.yaml"), "depot")
    assert section.views.mounts == tmp_path / "mounts.toml"
    assert section.test_maps == (str(tmp_path / "other.yaml"), "ahg2")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        small(robot__plant=str(tmp_path / "nowhere.toml")).digest("imitation")
