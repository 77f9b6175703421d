"""Doors in evaluations: each row says what was on its way, and figures are of the episodes that have a door."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from hil.evaluate.episode import Run, robot_files
from hil.evaluate.episode_selection import find_sets
from hil.evaluate.evaluation import Evaluation, Plan, evaluate
from hil.evaluate.metrics import behind_doors, door_of, summarise
from hil.evaluate.result import row_of_json
from hil.evaluate.tables import comparison, rich_table
from hil.scene import walkers
from hil.scene.doors import NEAR_M, Blocking
from hil.scene.doors import advance as really
from onboard.config.config import Config
from onboard.values.errors import InputError
from tests.rigs.evaluate_rows import row

ROBOT = robot_files(Config())
ROWS = [
    row(0, door="shut"),
    row(1, door="none", success=False),
    row(2, door="open", success=False),
    row(3, door="none"),
]


def evaluated(folder, condition) -> Evaluation:
    """Return four drives of the planner in one building."""
    sources = find_sets(["apartment"], 4, 1, ROBOT.body, "unseen")
    return evaluate(Plan(Run("planner", condition=condition), ROBOT, sources, 1), folder / f"{condition}.jsonl")


def printed(table) -> str:
    """Return a table as on a wide terminal."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_every_drive_says_what_was_on_its_way_and_how_many_shut(tmp_path, monkeypatch):
    shut = []

    def noted(door, *rest):
        after = really(door, *rest)
        shut.extend([1] if door.left_s is None and after.left_s is not None else [])
        return after

    monkeypatch.setattr(walkers, "advance", noted)
    found = evaluated(tmp_path, "blocked")
    doors = found.doors()
    assert doors is not None
    assert 0 < doors.summary.episodes < doors.driven == 4
    assert doors.shut == len(shut) > 0
    assert {one.door for one in found.rows if one.time_s > 20.0} == {"shut"}
    assert found.as_json()["doors"] == doors.as_json()
    expected = f"{doors.summary.episodes} of 4 behind doors, {doors.shut} shut"
    assert expected in printed(rich_table(found))
    assert expected in printed(comparison("planner", "condition", {"blocked": found}))


def test_in_a_condition_without_a_door_there_is_nothing_to_say(tmp_path):
    found = evaluated(tmp_path, "drift_0")
    assert found.doors() is None
    assert found.as_json()["doors"] is None
    assert "behind" not in printed(rich_table(found))
    assert all("door" not in one for one in found.as_json()["per_episode"])


def test_figures_are_of_the_episodes_that_have_a_door():
    doors = behind_doors(ROWS, 1)
    assert doors is not None
    assert (str(doors), doors.summary.success_rate) == ("2 of 4 behind doors, 1 shut", 0.5)
    assert doors.summary == summarise([ROWS[0], ROWS[2]], 1)
    assert behind_doors([row()], 1) is behind_doors([], 1) is None


def test_a_door_of_another_kind_is_refused():
    with pytest.raises(InputError, match="door must be none or open or shut"):
        row_of_json({**row().as_json(), "door": "ajar"})


#   nearest to the door's middle   what was met
NEAREST = [(NEAR_M - 0.1, "shut"), (NEAR_M + 0.1, "open")]


@pytest.mark.parametrize(("nearest_m", "met"), NEAREST)
def test_a_door_shuts_before_who_comes_near(nearest_m, met):
    leaves = np.zeros((3, 6))
    leaves[:, 1], leaves[:, 2] = (-0.2, 0.0, 0.2), 0.1
    way = np.array([(-4.0 + 0.1 * k, 0.0) for k in range(41) if -4.0 + 0.1 * k <= -nearest_m + 1e-9])
    assert door_of(Blocking(leaves, 20.0), way, 0.25) == met
    assert door_of(None, way, 0.25) == "none"
