"""Where the path of `reactive` turned back: found among its plans, recomputed from a recording, drawn on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.report import turn_backs as module
from hil.report.turn_backs import Plan, _turned
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.recordings.replay_rig import short_drive

WALL = frozenset((30, b) for b in range(-5, 6))


def plan(t_s: float, direction_rad: float, length_m: float, cells: frozenset[tuple[int, int]] = frozenset()) -> Plan:
    steps = np.arange(0.0, length_m, 0.1)[:, np.newaxis]
    path = steps * [np.cos(direction_rad), np.sin(direction_rad)]
    return Plan(t_s, round(30 * t_s), 1, Pose(0.0, 0.0, 0.0), cells, path)


#   directions of the paths [rad]   times of those that turn back
PLANS = [
    ((0.0, 0.3, 1.5, 3.0), ()),  # it turns away step by step
    ((0.0, 3.0, 3.0, 0.0), (1.0, 3.0)),
    ((3.0, -3.0), ()),  # across half a turn
]


@pytest.mark.parametrize(("directions", "times"), PLANS)
def test_a_path_turns_back_where_it_leaves_the_other_way(directions: list[float], times: tuple[float, ...]) -> None:
    plans = [plan(float(n), direction, 3.0 + n) for n, direction in enumerate(directions)]
    assert tuple(one.t_s for one in _turned(plans)) == times


def test_its_picture_has_what_is_new_and_how_much_longer_the_path_is() -> None:
    (one,) = _turned([plan(0.0, 0.0, 4.0, frozenset({(5, 9)})), plan(1.0, 3.0, 6.0, WALL)])
    assert (one.tick, one.entered, one.left, one.longer_m) == (30, len(WALL), 1, pytest.approx(2.0))
    assert (one.new.count("M"), one.cells) == (len(WALL), "")


def test_the_page_shows_the_plans_of_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    command = ["report", str(short_drive(tmp_path / "drive")), "--out", str(page), "--plans"]
    monkeypatch.setattr(module, "BACK_RAD", -1.0)
    assert CliRunner().invoke(app, command).exit_code == 0
    assert page.read_text().count('class="planned before"') > 2
    monkeypatch.setattr(module, "REACTIVE", "another")
    with pytest.raises(InputError, match="its policy is reactive: --plans shows what another plans"):
        CliRunner().invoke(app, command, catch_exceptions=False)
