"""The upper bound: how often the best estimate of the pose reaches the goal, beside the policy on the same episodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.result_rows import CEILING, put, report, results_in

UNSEEN = [["ahg2", 9, "", None, "unseen"]]
NEAR, FAR, OWN = [0.05, 0.1, 0.05], [0.5, 0.6, 0.1], [0.3, 1.05, 0.3]
"""Errors of the ideal estimator at the end, of the filter, and of the ideal one at the next fix [m]."""


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return results with a ceiling of three episodes, of which the policy drove the third and the fifth in `paper`."""
    found = results_in(tmp_path / "results")
    ends = {
        "paper": {"ahg2": [[FAR] * 2, [NEAR] * 2, [OWN] * 2]},
        "drift_3": {"ahg2": [[FAR] * 2, [FAR] * 2, [NEAR] * 2]},
    }
    put(found / "ceiling.json", {**CEILING, "sets": UNSEEN, "episodes": {"ahg2": [0, 3, 5]}, "ends": ends})
    return found


def row(folder: Path, condition: str) -> list[str]:
    (line,) = [
        line
        for line in report(folder).stdout.split("## Upper bound")[1].splitlines()
        if line.startswith(f"| `{condition}`")
    ]
    return line.strip("| ").split(" | ")[1:]


def test_a_row_is_of_the_episodes_that_were_driven(folder):
    half = "50.0 (9.5 to 90.5)"
    assert row(folder, "paper") == ["2", half, "17.5", half, half, "50.0", "100.0 (34.2 to 100.0) †"]


def test_a_condition_that_was_not_driven_is_of_all_episodes(folder):
    assert row(folder, "drift_3")[0] == "3"
    assert row(folder, "drift_3")[-1] == "-"


def test_a_rate_is_marked_where_other_code_drove_than_made_the_ceiling(folder):
    put(folder / "ceiling.json", {**CEILING, "code": "c", "sets": UNSEEN, "episodes": {"ahg2": [3]},
                                  "ends": {name: {"ahg2": [[NEAR]]} for name in ("paper", "drift_3")}})  # fmt: skip
    assert "†" not in row(folder, "paper")[-1]


@pytest.mark.parametrize("ends", [[], {}, {"paper": {"ahg2": []}}, {"paper": {"ahg2": [1, 2]}}, {"paper": {"b": []}}])
def test_damaged_ends_are_refused_in_one_line(folder, ends):
    put(folder / "ceiling.json", {**CEILING, "sets": UNSEEN, "episodes": {"ahg2": [0, 3]}, "ends": ends})
    done = report(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {folder / 'ceiling.json'}: ends of paper: not what onboard-hil upper-bound ")
