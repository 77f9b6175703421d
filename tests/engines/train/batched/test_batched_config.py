"""The table `[batched]` of a recipe: what it refuses, and what a checkpoint depends on."""

from __future__ import annotations

import pytest

from engines.train.command import DEFAULT_CONFIG, FINE_CONFIG
from engines.train.config import described, load_train_config
from onboard.values.errors import ConfigError
from tests.rigs.train_rig import BATCHED_RECIPE, batched

#   change                              what is said of it
WRONG = [
    ({"batched__lanes": 0},             "batched.lanes: Input should be greater than or equal to 1 (is 0)"),
    ({"batched__lanes": 10**9},         "batched.lanes: Input should be less than or equal to 1000000 (is 1000000000)"),
    ({"batched__lanes": 1},             "batched: minibatches 2 must not be above lanes 1"),
    ({"batched__first_goals": 30_000},  "batched: first_goals 30000 must not be above most_goals 20000"),
    ({"batched__within_s": 0.0},        "batched.within_s: Input should be greater than 0 (is 0.0)"),
    ({"batched__rate": 2.0},            "batched.rate: Input should be less than or equal to 1 (is 2.0)"),
    ({"batched__reward": {"step": -1}}, "batched.reward.step: Input should be greater than or equal to 0 (is -1)"),
    ({"batched__teacher": {"until": 0}}, "batched.teacher.until: Input should be greater than 0 (is 0)"),
    ({"batched__horizn": 3},            "unknown key batched.horizn; did you mean"),
    ({"network__size": "tiny"},         "unknown key network"),
    ({"driving__lanes": 3},             "unknown key driving.lanes"),
    ({"domain__pedestrians": 0.5},      "unknown key domain.pedestrians"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "line"), WRONG)
def test_what_is_wrong_is_said_in_one_line(changes, line):
    with pytest.raises(ConfigError) as refused:
        batched(**changes)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


#   change                          whether an old checkpoint is still gone on with
CHANGES = [
    ({},                            True),
    ({"batched__within_s": 9.0},    True),
    ({"batched__saved_s": 9.0},     True),
    ({"batched__processes": 3},     True),
    ({"name": "another"},           True),
    ({"batched__teacher": {"weight": 0.5}}, False),
    ({"batched__mirrored": True},   False),
    ({"batched__lanes": 9},         False),
    ({"batched__reward": {"step": 0.5}}, False),
    ({"driving__stuck_s": 9.0},     False),
    ({"seed": 3},                   False),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "same"), CHANGES)
def test_a_checkpoint_depends_on_what_is_trained(changes, same):
    assert (batched(**changes).digest() == batched().digest()) == same


def test_a_policy_tells_its_training():
    stated = described(batched(), "onboard-s")
    assert {*stated["config"]} == {"name", "seed", "robot", "places", "domain", "driving", "batched"}
    assert (stated["stages"], stated["memory_reset_s"], stated["init"]) == (["batched"], None, "onboard-s")
    assert stated["digest"] == batched().digest()


@pytest.mark.parametrize("recipe", [DEFAULT_CONFIG, FINE_CONFIG, BATCHED_RECIPE], ids=lambda file: file.stem)
def test_a_recipe_that_ships_is_one(recipe):
    assert load_train_config(recipe).batched.mirrored
