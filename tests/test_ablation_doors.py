"""Doors in the ablations: only episodes that have one are counted, and those before whom it shut."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ablation_rig import write_agents

from engines.ablations.agents import load_agents
from engines.ablations.board import board
from engines.ablations.doors import behind_doors, shuts
from engines.ablations.trials import make_agent, run_trial, trials
from engines.report.ablations import ablation_table
from hil import walkers
from hil.blockings import NEAR_M, Blocking
from hil.blockings import advance as really
from hil.evaluate.episode_driver import Run, robot_files
from hil.evaluate.evaluation import Plan, evaluate
from hil.evaluate.metrics import Summary
from hil.evaluate.sets import find_sets
from onboard.config import Config

ROBOT = robot_files(Config())


def evaluated(folder, condition):
    """Return four drives of the planner in one building."""
    sources = find_sets(["apartment"], 4, 1, ROBOT.body, "unseen")
    return evaluate(Plan(Run("planner", condition=condition), ROBOT, sources, 1), folder / f"{condition}.jsonl")


def test_the_figures_are_of_the_episodes_with_a_door_and_say_how_many_shut(tmp_path, monkeypatch):
    shut = []

    def noted(door, *rest):
        after = really(door, *rest)
        shut.extend([1] if door.left_s is None and after.left_s is not None else [])
        return after

    monkeypatch.setattr(walkers, "advance", noted)
    found = evaluated(tmp_path, "blocked")
    doors = behind_doors(found)
    assert doors is not None
    assert 0 < doors["episodes"] < 4
    assert doors["shut"] == len(shut) > 0
    assert doors["summary"]["episodes"] == doors["episodes"]
    held = [row for row in found.rows if row.time_s > 20.0]
    assert len(held) >= doors["shut"]


def test_in_a_condition_without_a_door_there_is_nothing_to_say(tmp_path):
    assert behind_doors(evaluated(tmp_path, "drift_0")) is None


#   nearest to the door's middle   whether it shuts
NEAREST = [(NEAR_M - 0.1, True), (NEAR_M + 0.1, False)]


@pytest.mark.parametrize(("nearest_m", "closes"), NEAREST)
def test_a_door_shuts_before_who_comes_near(nearest_m, closes):
    leaves = np.zeros((3, 6))
    leaves[:, 1], leaves[:, 2] = (-0.2, 0.0, 0.2), 0.1
    way = [(-4.0 + 0.1 * k, 0.0, 0.0) for k in range(41) if -4.0 + 0.1 * k <= -nearest_m + 1e-9]
    assert shuts(Blocking(leaves, 20.0), way, 0.25) is closes


def test_a_row_behind_doors_is_of_those_episodes_alone(tmp_path):
    blocked = '\n[agents.held]\nwhat = "held"\nconditions = ["blocked"]\n'
    agents = load_agents(write_agents(tmp_path, after=blocked))
    agent = agents.agents["held"]
    make_agent(agent, tmp_path / "held", None)
    (trial,) = trials(agents, agent, tmp_path / "held")
    assert run_trial(trial) == 0
    result = trial.done()
    assert result is not None
    made = board(agents, [agent], tmp_path)
    assert made["rows"][0]["doors"] == [1, result["doors"]["episodes"], result["doors"]["shut"]]
    told = {**result["doors"]["summary"], "episodes": 7}
    trial.file.write_text(json.dumps({**result, "doors": {"episodes": 7, "shut": 5, "summary": told}}))
    (row,) = board(agents, [agent], tmp_path)["rows"]
    assert row["summary"]["episodes"] == 7
    assert set(row["summary"]) == set(Summary.__slots__)
    table = ablation_table({**made, "rows": [row]})
    assert "| `held` | blocked, 7 of 1 episodes behind doors, 5 shut |" in table
    assert "Behind doors: the figures of those episodes" in table
    trial.file.write_text(json.dumps({name: value for name, value in result.items() if name != "doors"}))
    assert board(agents, [agent], tmp_path)["rows"][0]["doors"] is None
