"""Tables and the page for a person: they say what the figures say, for any result, also of a part or of nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands import baselines
from hil.commands.evaluate import load_robot
from hil.evaluate.campaign import Driven
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import Evaluation, Plan
from hil.evaluate.html_report import Shown, action_chart, choose, detour_chart, render, write_report
from hil.evaluate.metrics import summarise
from hil.evaluate.result import Row
from hil.evaluate.tables import markdown
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
    return Evaluation(PLAN, [Driven(one, WAY) for one in rows], exit_code, began, 12.0, 0, Path("none"))


class Outline(HTMLParser):
    """Whether every tag is closed where it should be."""

    VOID = frozenset({"meta", "img", "line", "circle", "rect", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Remember an open tag."""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last one, which must be of this name."""
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], [], [replace(ROWS[0], min_clearance_m=float("inf"))]])
def test_the_page_is_whole_for_any_result(rows: list[Row]) -> None:
    page = render(evaluation(rows, exit_code=130), [Shown(one, "a <drive>", "data:image/png;base64,") for one in rows])
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert "<time>" not in page
    assert "<drive>" not in page
    assert f"interrupted after {len(rows)} of 4 episodes" in page
    assert not [word for word in ("http:", "https:", "<script", "url(", "None", "nan") if word in page]


def test_the_page_says_the_figures() -> None:
    page = render(evaluation(ROWS), [])
    summary = summarise(ROWS, PLAN.seed)
    low, high = summary.ci95["success_rate"]
    for said in (
        "75.0 %",
        f"95 %: {100 * low:.1f} to {100 * high:.1f}",
        "2026-01-02 03:04 UTC",
        "50.0 % of the episodes",
    ):
        assert said in page
    assert "interrupted" not in page


def test_the_page_says_how_many_stood_behind_doors() -> None:
    page = render(evaluation([replace(ROWS[0], door="shut"), replace(ROWS[2], door="none")]), [])
    assert "1 of 2 behind doors, 1 shut. Behind doors: the figures of" in page
    assert "<td>behind doors</td>" in page
    assert "behind doors" not in render(evaluation(ROWS), [])


def test_the_gallery_shows_failures_first() -> None:
    assert [one.row.index for one in choose(evaluation(ROWS).driven)] == [2, 1, 3, 0]
    assert choose([Driven(ROWS[0])]) == []


def test_a_page_with_real_pictures(tmp_path: Path) -> None:
    write_report(evaluation(ROWS[:1]), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('src="data:image/png;base64,') == 1


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OnboardError, match="cannot be written"):
        write_report(evaluation([]), tmp_path / "none" / "page.html")


def test_actions_in_groups_of_one_linear_speed() -> None:
    counts = tuple(range(len(ACTIONS)))
    chart = action_chart(summarise([row(actions=counts)]))
    assert [group.label for group in chart.groups] == ["0 m/s", "0.3 m/s", "0.6 m/s", "1 m/s"]
    heights = [bar.height for group in chart.groups for bar in group.bars]
    assert heights == sorted(heights)
    assert heights[-1] == chart.height
    assert chart.groups[0].bars[3].label == "0"


#   detour  class
DETOURS = [(1.0, 0), (1.05, 0), (1.051, 1), (1.15, 2), (1.1501, 3), (2.0, 6), (7.0, 7), (0.99, 0)]


@pytest.mark.parametrize(("detour", "place"), DETOURS)
def test_detours_fall_into_classes(detour: float, place: int) -> None:
    chart = detour_chart([row(straight_m=1.0, shortest_m=detour)])
    bars = chart.groups[0].bars
    assert [bar.height > 0.0 for bar in bars].index(True) == place
    assert bars[place].strong == (detour > 1.15)


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
    ran = CliRunner().invoke(app, ["baselines", "--maps", "depot", "--episodes", "2", "--markdown", "--json", "b.json"])
    assert ran.exit_code == 0, ran.exception
    assert f"| {name} | 100.0 (" in ran.stdout
    assert "2 episodes; in brackets 95 % intervals." in ran.stdout
    assert list((tmp_path / "out" / "evaluate").iterdir()) == []
