"""Several evaluations of one command: each keeps its rows, and after a signal the same again goes on."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

from hil.commands.judge.evaluate import as_json, evaluate_each, load_robot
from hil.evaluate.campaign import Driven, Job
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import Plan
from tests.rigs.evaluate_rows import made_up

RUN = Run("reactive")
PLAN = Plan(RUN, load_robot(None), [Source("gdc1", "gdc1", 3)], seed=7)
PLANS = {name: PLAN.of(replace(RUN, condition=name)) for name in ("paper", "drift_0", "no_rear")}


class InterruptedAfter:
    """Drives made-up jobs; the last of so many is interrupted."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs

    def __call__(self, job: Job) -> Driven:
        """Drive, or be interrupted."""
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGINT)
        return made_up(job)


def test_after_a_signal_each_goes_on_where_it_stopped(tmp_path: Path) -> None:
    beside = str(tmp_path / "result.json")
    part = evaluate_each(PLANS, None, beside, InterruptedAfter(5))
    assert [(name, one.exit_code, len(one.rows)) for name, one in part.items()] == [
        ("paper", 0, 3),
        ("drift_0", 130, 1),
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "result.json.drift_0.partial.jsonl",
        "result.json.paper.partial.jsonl",
    ]
    whole = evaluate_each(PLANS, None, beside, made_up)
    assert [(name, one.resumed, len(one.rows)) for name, one in whole.items()] == [
        ("paper", 3, 3),
        ("drift_0", 1, 3),
        ("no_rear", 0, 3),
    ]


def test_the_result_is_by_name_and_of_one_its_own(tmp_path: Path) -> None:
    table = json.loads(json.dumps(as_json(evaluate_each(PLANS, tmp_path / "rows", None, made_up))))
    assert list(table) == ["conditions"]
    assert {name: one["configuration"]["condition"] for name, one in table["conditions"].items()} == {
        name: name for name in PLANS
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.drift_0", "rows.no_rear", "rows.paper"]
    alone = as_json(evaluate_each({"paper": PLANS["paper"]}, tmp_path / "alone", None, made_up))
    assert (alone["configuration"]["condition"], alone["episodes"]) == ("paper", 3)
