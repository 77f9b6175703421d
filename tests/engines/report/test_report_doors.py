"""Doors in a report: a condition with doors has the figures of the episodes behind them, and says of how many."""

from __future__ import annotations

from engines.report.card_sections import robustness
from engines.report.results.result_files import gather
from hil.evaluate.metrics import summarise
from tests.rigs.evaluate_rows import row
from tests.rigs.result_rows import evaluated, put, results_in

BLOCKED = [row(0, door="shut"), row(1, door="none", success=False), row(2, door="open"), row(3, door="none")]


def blocked(rows):
    """Return a result in the condition `blocked`."""
    whole = evaluated(condition="blocked")
    return {**whole, **summarise(rows).as_json(), "per_episode": [one.as_json() for one in rows]}


def test_a_condition_with_doors_has_the_figures_behind_them_and_says_of_how_many(tmp_path):
    folder = results_in(tmp_path / "results")
    assert "Behind doors" not in robustness(gather(folder)).markdown
    put(folder / "evaluate" / "blocked.json", blocked(BLOCKED))
    part = robustness(gather(folder))
    (line,) = [one for one in part.markdown.splitlines() if one.startswith("| `blocked`")]
    assert "| 2 of 4 behind doors, 1 shut | 100.0 (" in line
    assert "Behind doors: the figures of those episodes on whose way" in part.markdown
    (one,) = [one for one in part.data if one["condition"] == "blocked"]
    assert (one["success_rate"], one["doors"]["summary"]["success_rate"]) == (0.75, 1.0)
    assert [one["doors"] for one in part.data if one["condition"] != "blocked"] == [None] * 3


def test_an_older_result_does_not_tell_of_doors(tmp_path):
    folder = results_in(tmp_path / "results")
    put(folder / "evaluate" / "blocked.json", blocked([row(0), row(1, success=False)]))
    assert "| 2, doors not stated | 50.0 (" in robustness(gather(folder)).markdown
