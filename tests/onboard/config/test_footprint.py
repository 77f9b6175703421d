"""Footprints: what a file may say, and the geometry of a polygon against plain formulas."""

from __future__ import annotations

from math import hypot, inf, nan
from pathlib import Path

import numpy as np
import pytest

from onboard.config.config import Config, RobotSection, load_config
from onboard.config.footprint import Footprint, polygon
from onboard.values.errors import ConfigError

LONG = [[0.6, 0.25], [-0.6, 0.25], [-0.6, -0.25], [0.6, -0.25]]
ARROW = [[0.5, 0.0], [-0.4, 0.4], [-0.1, 0.0], [-0.4, -0.4]]

#   name                       text                                              named
MISTAKES = [
    ("two corners",            "footprint_m = [[0.6, 0.2], [-0.6, 0.2]]",         "2 corners, expected 3 to 32"),
    ("too many",               f"footprint_m = {LONG * 9}",                       "36 corners, expected 3 to 32"),
    ("crosses itself",         "footprint_m = [[0.6, 0.2], [-0.6, -0.2], [0.6, -0.2], [-0.6, 0.2]]", "crosses itself"),
    ("turns back",             "footprint_m = [[1.0, 0.2], [0.2, 0.2], [0.5, 0.2], [-0.5, -0.9]]", "crosses itself"),
    ("touches itself",         "footprint_m = [[1, 1], [-1, 1], [-1, -1], [0, 1], [1, -1]]", "crosses itself"),
    ("origin outside",         "footprint_m = [[0.6, 0.2], [0.1, 0.2], [0.1, -0.2]]", "outside, expected at least"),
    ("origin on the edge",     "footprint_m = [[0.6, 0.2], [0.0, 0.2], [0.0, -0.2]]", "0 m inside, expected"),
    ("not finite",             "footprint_m = [[inf, 0.2], [-0.6, 0.2], [0.0, -0.2]]", "[inf, 0.2] is not finite"),
    ("NaN",                    "footprint_m = [[nan, 0.2], [-0.6, 0.2], [0.0, -0.2]]", "[nan, 0.2] is not finite"),
    ("too large",              "footprint_m = [[4.0, 0.2], [-0.6, 0.2], [0.0, -0.2]]", "at most 3 m"),
    ("a corner twice",         f"footprint_m = {[*LONG, LONG[0]]}",               "are less than 0.02 m apart"),
    ("a corner with height",   "footprint_m = [[0.6, 0.2, 0.0], [-0.6, 0.2], [0, -0.2]]", "footprint_m.0"),
    ("a text, as in Nav2",     'footprint_m = "[[0.6, 0.2], [-0.6, 0.2], [0, -0.2]]"', "footprint_m"),
    ("both",                   f"footprint_m = {LONG}\nfootprint_radius_m = 0.3", "not both"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_one_line_with_file_and_limit(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "onboard.toml"
    path.write_text(f"[robot]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: robot")
    assert named in line
    assert "\n" not in line


@pytest.mark.parametrize("corners", [LONG, LONG[::-1], ARROW])
def test_it_is_read_in_either_direction_and_written_back(corners: list[list[float]]) -> None:
    robot = RobotSection(footprint_m=tuple((x, y) for x, y in corners))
    x, y = np.array(robot.footprint_m).T
    assert (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() > 0.0
    assert RobotSection.model_validate(robot.model_dump(mode="json")) == robot
    assert robot.footprint.reach_m == max(hypot(*corner) for corner in corners)


def test_a_circle_is_written_as_before() -> None:
    assert "footprint_m" not in Config().model_dump(mode="json")["robot"]
    assert Config().robot.footprint == Footprint(0.25)
    assert Config().robot.footprint.inner_m == Config().robot.footprint.reach_m == 0.25


def test_the_inner_circle_touches_the_nearest_edge() -> None:
    assert polygon(tuple((x, y) for x, y in LONG)).inner_m == pytest.approx(0.25)
    assert polygon(tuple((x + 0.1, y) for x, y in LONG)).half_width_m == pytest.approx(0.25), (
        "the origin may be in front"
    )
    assert polygon(tuple((x, y) for x, y in ARROW)).inner_m == pytest.approx(0.1), "at the corner that points inward"


#   point          margin  covered by LONG
POINTS = [((0.59, 0.24), 0.0, True), ((0.61, 0.0), 0.0, False), ((0.64, 0.0), 0.05, True), ((0.64, 0.29), 0.05, False)]


@pytest.mark.parametrize(("point", "margin_m", "covered"), POINTS)
def test_covers(point: tuple[float, float], margin_m: float, covered: bool) -> None:
    assert bool(polygon(tuple((x, y) for x, y in LONG)).covers(np.array([point]), margin_m)[0]) == covered


@pytest.mark.parametrize("bad", [inf, nan])
def test_no_number_slips_through(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        polygon(((bad, 0.2), (-0.6, 0.2), (0.0, -0.2)))
