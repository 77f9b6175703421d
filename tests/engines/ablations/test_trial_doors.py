"""Doors in the table of the ablations: a row is of the episodes behind them, and says of how many."""

from __future__ import annotations

import json

from engines.ablations.agents import load_agents
from engines.ablations.command import board
from engines.ablations.trial import make_agent, run_trial, trials
from engines.report.ablation_table import ablation_table
from hil.evaluate.metrics import Summary
from tests.rigs.ablation_rig import write_agents


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
    summary = {**result["doors"]["summary"], "episodes": 7}
    trial.file.write_text(json.dumps({**result, "doors": {"episodes": 7, "shut": 5, "summary": summary}}))
    (row,) = board(agents, [agent], tmp_path)["rows"]
    assert row["summary"]["episodes"] == 7
    assert set(row["summary"]) == set(Summary.__slots__)
    table = ablation_table({**made, "rows": [row]})
    assert "| `held` | blocked, 7 of 1 episodes behind doors, 5 shut |" in table
    assert "Behind doors: the figures of those episodes" in table
    trial.file.write_text(json.dumps({name: value for name, value in result.items() if name != "doors"}))
    assert board(agents, [agent], tmp_path)["rows"][0]["doors"] is None
