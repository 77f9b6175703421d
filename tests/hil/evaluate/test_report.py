"""Tables and the report for a person: they say what the figures say, for any result, also of a part or of nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge import baselines
from hil.commands.judge.evaluate import load_robot
from hil.evaluate.campaign import DriveResult
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import Evaluation, Plan
from hil.evaluate.metrics import summarise
from hil.evaluate.report import write_report
from hil.evaluate.result import Row
from hil.evaluate.tables import NARROW, comparison, markdown, rich_table
from onboard.values.errors import OnboardError
from tests.rigs.evaluate_rows import row

PLAN = Plan(Run("reactive"), load_robot(None), [Source("depot", "depot", 4)], seed=1)
WAY = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
ROWS = [
    row(0, map="depot", path_m=12.5),
    row(1, map="depot", straight_m=5.0, contacts=2),
    row(2, map="depot", success=False, ended="<time>", distance_m=3.25),
    row(3, map="depot", straight_m=8.0),
]


def evaluation(rows: list[Row], exit_code: int = 0) -> Evaluation:
    began = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    return Evaluation(PLAN, [DriveResult(one, WAY) for one in rows], exit_code, began, 12.0, 0, Path("none"))


def written(one: Evaluation, folder: Path) -> str:
    write_report(one, folder / "report.md")
    return (folder / "report.md").read_text()


def test_the_report_says_the_figures(tmp_path: Path) -> None:
    text = written(evaluation(ROWS), tmp_path)
    summary = summarise(ROWS, PLAN.seed)
    low, high = summary.ci95["success_rate"]
    for expected in (
        f"75.0 ({100 * low:.1f} to {100 * high:.1f})",
        "2026-01-02 03:04 UTC",
        "50.0 % of the episodes",
        "policy and base stepped directly",
        "ended 3.25 m away: ",
    ):
        assert expected in text
    assert "interrupted" not in text


NO_PROGRESS = "no progress towards the goal for {} s"
ENDS = ("time", NO_PROGRESS.format(30), NO_PROGRESS.format(120), "goal is occupied")
GAVE_UP = [row(4, map="depot", split="own", success=False, ended=reason) for reason in ENDS]


@pytest.mark.parametrize("width", [80, 122])
def test_the_table_says_why_drives_ended_and_fits_a_terminal(width: int) -> None:
    ended = evaluation([*ROWS[:2], replace(GAVE_UP[0], contacts=3, unseen_contacts=2), *GAVE_UP[1:]])
    console = Console(width=width, file=io.StringIO())
    console.print(rich_table(ended, narrow=width < NARROW))
    console.print(comparison("reactive", "condition", {"robot": ended}, narrow=width < NARROW))
    text = " ".join(console.file.getvalue().split())
    reasons = "2 no_progress, 1 out of time, 1 goal_occupied"
    assert f"ended in another way than a stop by the policy: {reasons}" in text
    assert f"robot: {reasons}" in text
    assert "contacts: with what the sensors cannot see, lower or higher than their scan" in text
    assert "…" not in text
    assert not {"own", "fast", "clear"} & set(text.split())


#   row                                                        how it ended
ENDS = [
    (row(0), "arrived"),
    (row(0, contacts=1), "arrived, 1 contact"),
    (row(0, contacts=2), "arrived, 2 contacts"),
    (row(0, success=False, ended="time"), "did not stop in time"),
    (row(0, success=False, ended="blocked", distance_m=3.25), "ended 3.25 m away: blocked"),
]


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OnboardError, match="cannot be written"):
        write_report(evaluation([]), tmp_path / "none" / "report.md")


def test_markdown() -> None:
    text = markdown([("one", summarise(ROWS)), ("none", summarise([]))])
    head, rule, one, none, _, hard = text.splitlines()
    assert head.count("|") == rule.count("|") == one.count("|") == none.count("|")
    assert one.startswith("| one | 75.0 (30.1 to 95.4) |")
    assert none.startswith("| none | - | - | - |")
    assert "50.0 % (2)" in hard


def test_the_table_of_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one row that takes no time; what the others are is in the command's own table."""
    name = "`reactive`: fused scan, no map"
    monkeypatch.setattr(baselines, "BASELINES", {name: baselines.BASELINES[name]})
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["baselines", "--map", "depot", "--episodes", "2", "--markdown", "--json", "b.json"])
    assert ran.exit_code == 0, ran.exception
    assert f"| {name} | 100.0 (" in ran.stdout
    assert "2 episodes; brackets hold 95 % intervals." in ran.stdout
    assert list((tmp_path / "out" / "evaluate").iterdir()) == []


def test_the_report_counts_each_end_by_its_code_with_its_sentence(tmp_path: Path) -> None:
    text = written(evaluation([*ROWS[:2], *GAVE_UP, replace(GAVE_UP[0], ended="of another release")]), tmp_path)
    for line in (
        "| `no_progress` | no progress towards the goal for [seconds] s | 2 |",
        "| `time` | out of time | 1 |",
        "| `of another release` |  | 1 |",
    ):
        assert line in text
