"""Several evaluations of one command: each keeps its rows, and after a signal the same again goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hil.commands.judge.evaluate import as_json, evaluate_each, load_robot
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import Plan
from tests.rigs.evaluate_rows import made_up

RUN = Run("reactive")
PLAN = Plan(RUN, load_robot(None), [Source("gdc1", "gdc1", 3)], seed=7)
PLANS = {name: PLAN.of(replace(RUN, condition=name)) for name in ("paper", "drift_0", "no_rear")}


def test_the_result_is_by_name_and_of_one_its_own(tmp_path: Path) -> None:
    table = json.loads(json.dumps(as_json(evaluate_each(PLANS, tmp_path / "rows", None, made_up))))
    assert list(table) == ["conditions"]
    assert {name: one["configuration"]["condition"] for name, one in table["conditions"].items()} == {
        name: name for name in PLANS
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.drift_0", "rows.no_rear", "rows.paper"]
    alone = as_json(evaluate_each({"paper": PLANS["paper"]}, tmp_path / "alone", None, made_up))
    assert (alone["configuration"]["condition"], alone["episodes"]) == ("paper", 3)
