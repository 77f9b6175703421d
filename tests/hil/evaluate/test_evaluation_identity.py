"""What an evaluation's configuration tells apart: the condition's values, the manifest, the furniture, the base."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge.evaluate import load_robot
from hil.drive.conditions import CONDITIONS_FILE, load_conditions
from hil.evaluate import evaluation
from hil.evaluate.campaign import difference_of
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source, find_sets, load_set, rearranged
from hil.evaluate.evaluation import Plan, evaluate
from hil.maps.load import load_map
from hil.physics.free_space import free_space
from onboard.config.config import DEFAULT_ROBOT, GoalSection
from onboard.values.errors import InputError
from tests.hil.evaluate.test_episode_selection import BODY, episode_file, vector_map
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.evaluate_rows import made_up

SOURCES = [Source("gdc1", "gdc1", 2)]
PLAN = Plan(Run("reactive", condition="blocked"), load_robot(None), SOURCES, seed=7)


def difference(there: dict[str, Any], here: Plan) -> str:
    """Return the key in which two configurations differ first, as their files tell them; "" for none."""
    expected = difference_of(there, json.loads(json.dumps(here.configuration())))
    return "" if expected is None else expected.partition(":")[0]


#    in conditions.toml                 becomes                                          what differs
CHANGES = [
    ("blocked_s = 20.0", "blocked_s = 2.0", "condition_values"),
    ("fix_every_steps = [8.0, 12.0]", "fix_every_steps = [8.0, 13.0]", "condition_values"),  # of its base
    ('what = "', 'what = "in other words: ', ""),
]


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES)
def test_a_condition_of_other_values_is_another_configuration(tmp_path, monkeypatch, before, after, expected):
    there = json.loads(json.dumps(PLAN.configuration()))
    evaluate(PLAN, tmp_path / "rows", drive=made_up)
    file = tmp_path / "conditions.toml"
    file.write_text(CONDITIONS_FILE.read_text().replace(before, after))
    assert file.read_text() != CONDITIONS_FILE.read_text()
    monkeypatch.setattr(evaluation, "load_conditions", lambda: load_conditions(file))
    assert difference(there, PLAN) == expected
    if expected:
        with pytest.raises(InputError, match="another configuration \\(condition_values"):
            evaluate(PLAN, tmp_path / "rows", drive=made_up)


def test_a_model_with_another_manifest_is_another_configuration(tmp_path):
    model = small_policy_files(tmp_path, memory_reset_s=10.0)
    plan = PLAN.of(replace(PLAN.run, policy=str(model)))
    there = json.loads(json.dumps(plan.configuration()))
    assert difference(there, plan) == ""
    assert small_policy_files(tmp_path, memory_reset_s=1.0) == model
    assert difference(there, plan) == "manifest"
    assert PLAN.configuration()["manifest"] is None


def test_another_arrival_rule_is_another_configuration_and_the_result_states_it():
    goal = GoalSection(arrival_confidence=0.8)
    careful = replace(PLAN, robot=replace(PLAN.robot, config=PLAN.robot.config.model_copy(update={"goal": goal})))
    assert PLAN.configuration()["arrival_confidence"] == 0.9
    assert careful.configuration()["arrival_confidence"] == 0.8
    assert careful.configuration()["robot"] != PLAN.configuration()["robot"]


@pytest.mark.parametrize("density", [0.0, 0.5])
def test_a_map_of_ones_own_is_furnished_as_one_says(tmp_path, density):
    hall = str(vector_map(tmp_path))
    usual, (own,) = find_sets([hall], 3, 1, BODY), find_sets([hall], 3, 1, BODY, furniture=density)
    there = json.loads(json.dumps(replace(PLAN, sources=usual).configuration()))
    assert difference(there, replace(PLAN, sources=[own])) == "sets"
    bare, furnished = load_map(hall), load_set(own).world
    assert np.array_equal(furnished.gap, bare.gap) is (density == 0.0)
    assert np.array_equal(furnished.gap, rearranged(own, load_set(own)).gap) is (density == 0.0)
    space = free_space(furnished, BODY)
    assert len(own.drawn) == 3
    assert own.drawn != usual[0].drawn  # where there is more room, others are drawn
    assert all(space.standing[furnished.cell_of(one.goal_xy_m)] for one in own.drawn)


@pytest.mark.parametrize("density", [-0.1, 11.0, float("nan")])
def test_a_density_that_cannot_be_is_refused(tmp_path, density):
    with pytest.raises(InputError, match=r"--furniture .*: must be 0 to 10"):
        find_sets([str(vector_map(tmp_path))], 3, 1, BODY, furniture=density)


def test_episodes_bring_their_furniture(tmp_path):
    for place in ("willow", str(episode_file(tmp_path))):
        with pytest.raises(InputError, match=f"--furniture 0: {place} has its own episodes, with their furniture"):
            find_sets([place], None, 1, BODY, furniture=0.0)


def plant(folder: Path, delay_s: float) -> Path:
    text = (DEFAULT_ROBOT / "plant.toml").read_text()
    assert "command_delay_s" in text
    lines = [f"command_delay_s = {delay_s}" if "command_delay_s" in line else line for line in text.splitlines()]
    file = folder / "plant.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_base_of_ones_own_takes_the_place_of_the_robots(tmp_path):
    ordinary, own = load_robot(None), load_robot(None, plant(tmp_path, 0.123))
    assert own.plant.base.command_delay_s == 0.123 != ordinary.plant.base.command_delay_s
    there = json.loads(json.dumps(PLAN.configuration()))
    assert difference(there, replace(PLAN, robot=own)) == "robot"
    same = load_robot(None, plant(tmp_path, ordinary.plant.base.command_delay_s))
    assert difference(there, replace(PLAN, robot=same)) == ""


def test_the_command_drives_a_bare_building_on_a_base_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hall, base = vector_map(tmp_path), plant(tmp_path, 0.02)
    arguments = ["evaluate", "--policy", "blind", "--map", str(hall), "--episodes", "1", "--furniture", "0",
             "--plant", base.name, "--json", "r.json", "--report", "report.md"]  # fmt: skip
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    identity = json.loads((tmp_path / "r.json").read_text())["configuration"]
    assert [one[5] for one in identity["sets"]] == [0.0]
    assert identity["robot"] != PLAN.configuration()["robot"]
    assert "hall 1 (furniture 0.0)" in (tmp_path / "report.md").read_text()
