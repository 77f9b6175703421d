"""Tables and the report for a person: they say what the figures say, for any result, also of a part or of nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge import baselines
from hil.commands.judge.evaluate import load_robot
from hil.evaluate.campaign import DriveResult
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import CampaignProgress, Evaluation, Plan
from hil.evaluate.metrics import summarise
from hil.evaluate.report import actions, choose, how, success_chart, write_report
from hil.evaluate.result import Row
from hil.evaluate.tables import NARROW, comparison, markdown, rich_table
from onboard.commands.cli import svg_text
from onboard.policy.contract import ACTIONS
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


DRIVEN = [ROWS, ROWS[:1], [], [replace(ROWS[0], min_clearance_m=float("inf"))]]


def written(one: Evaluation, folder: Path) -> str:
    write_report(one, folder / "report.md")
    return (folder / "report.md").read_text()


@pytest.mark.parametrize("rows", DRIVEN)
def test_every_row_has_the_cells_of_its_head(rows: list[Row], tmp_path: Path) -> None:
    text = written(evaluation(rows, exit_code=130), tmp_path)
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 5
    for head, rule, *others in tables:
        assert {line.count("|") for line in (rule, *others)} == {head.count("|")}
    assert f"interrupted after {len(rows)} of 4 drives" in text
    assert "![success rates with their 95 % intervals](report.svg)" in text
    assert not [word for word in ("None", "nan") if word in text]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.md", "report.svg"]


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


@pytest.mark.parametrize(("limit_s", "words"), [(None, "in at most 100 s"), (333.0, "in at most 333 s")])
def test_the_report_states_the_time_limit_of_the_drives(limit_s: float | None, words: str, tmp_path: Path) -> None:
    sources = [Source("depot", "depot", 4, given_limit_s=limit_s)]
    text = written(replace(evaluation(ROWS), plan=replace(PLAN, sources=sources)), tmp_path)
    assert f"0.2 m of the goal, {words}." in text
    assert f"The time limit is {words.removeprefix('in at most ')}." in text


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


def test_the_report_says_how_many_stood_behind_doors(tmp_path: Path) -> None:
    text = written(evaluation([replace(ROWS[0], door="shut"), replace(ROWS[2], door="none")]), tmp_path)
    assert "1 of 2 behind doors, 1 shut. Behind doors: the figures of" in text
    assert "| **behind doors** | 1 |" in text
    assert "behind doors" not in written(evaluation(ROWS), tmp_path)


def test_drives_worth_a_look_begin_with_failures() -> None:
    assert [one.row.index for one in choose(evaluation(ROWS).driven)] == [2, 1, 3, 0]
    many = [row(number, map=f"m{number % 3}", success=False) for number in range(9)]
    chosen = [one.key for one in choose(evaluation(many).driven)]
    assert chosen == [("m0", 0, 1), ("m1", 1, 1), ("m2", 2, 1), ("m0", 3, 1)]


#   row                                                        how it ended
ENDS = [
    (row(0), "arrived"),
    (row(0, contacts=1), "arrived, 1 contact"),
    (row(0, contacts=2), "arrived, 2 contacts"),
    (row(0, success=False, ended="time"), "did not stop in time"),
    (row(0, success=False, ended="blocked", distance_m=3.25), "ended 3.25 m away: blocked"),
]


@pytest.mark.parametrize(("one", "expected"), ENDS)
def test_how_a_drive_ended_is_said_in_words(one: Row, expected: str) -> None:
    assert how(one) == expected


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OnboardError, match="cannot be written"):
        write_report(evaluation([]), tmp_path / "none" / "report.md")


def test_actions_are_a_row_for_each_forward_speed() -> None:
    counts = tuple(range(len(ACTIONS)))
    headings, rows = actions(summarise([row(actions=counts)]))
    assert headings == ["", "-3 rad/s", "-2 rad/s", "-1 rad/s", "0 rad/s", "+1 rad/s", "+2 rad/s", "+3 rad/s"]
    assert [one[0] for one in rows] == ["0 m/s", "0.3 m/s", "0.6 m/s", "1 m/s"]
    parts = [float(part) for one in rows for part in one[1:]]
    assert parts == [pytest.approx(100 * count / sum(counts), abs=0.05) for count in counts]
    assert {part for action in actions(summarise([]))[1] for part in action[1:]} == {"-"}


def test_the_chart_shows_each_rate_within_its_interval() -> None:
    named = [("<one>", summarise(ROWS)), ("all good", summarise(ROWS[:1])), ("none", summarise([]))]
    figure = success_chart(named)
    axes, beside = figure.axes[0], figure.axes[0].child_axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["<one>", "all good", "none"]
    assert [label.get_text() for label in beside.get_yticklabels()][:2] == ["75.0", "100.0"]
    drawn = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.get_lines()]
    ends = [[100.0 * end for end in summary.ci95["success_rate"]] for _, summary in named[:2]]
    assert drawn == [(ends[0], [0, 0]), ([75.0], [0]), (ends[1], [1, 1]), ([100.0], [1])]


def test_a_chart_is_the_same_text_each_time_and_names_stay_words() -> None:
    named = [("<one> $x_1$", summarise(ROWS))]
    chart = svg_text(success_chart(named))
    assert chart == svg_text(success_chart(named))
    assert "<one> $x_1$" in {one.text for one in ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")}


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


@pytest.mark.parametrize("width", [80, 120])
def test_the_progress_on_a_terminal_cuts_its_title_but_no_number(width: int) -> None:
    progress = CampaignProgress("onboard-s+reactive, no_front_left", 1000)
    progress._progress.update(progress._task, completed=123, figures="SR 89 %, 12 contacts")
    console = Console(width=width, file=io.StringIO())
    console.print(progress._progress.get_renderable())
    (line,) = console.file.getvalue().splitlines()
    assert line.startswith("onboard-s+reactive")
    assert "123/1000 SR 89 %, 12 contacts 0:00:00 --:--" in line


def test_the_report_counts_each_end_by_its_code_with_its_sentence(tmp_path: Path) -> None:
    text = written(evaluation([*ROWS[:2], *GAVE_UP, replace(GAVE_UP[0], ended="of another release")]), tmp_path)
    for line in (
        "| `no_progress` | no progress towards the goal for [seconds] s | 2 |",
        "| `time` | out of time | 1 |",
        "| `of another release` |  | 1 |",
    ):
        assert line in text
