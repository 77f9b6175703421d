"""Where a session was: poses, goals and what was seen in one frame, and the part of the map around them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.maps.load import load_map
from hil.report.map_view import (
    CELLS_AT_MOST,
    SEEN_CELL_M,
    Building,
    _counted,
    building_around,
    share_within,
    surroundings_of,
)
from onboard.config.config import Config
from onboard.drivers.dds.tick_types import GoalInput
from onboard.values.messages import BINS, Pose
from tests.hil.report.report_rows import story

N = 20
TURNED = np.array([10.0, 20.0, math.pi / 2])


def localised(since: int = 0):
    correction = np.full((N, 3), np.nan)
    correction[since:] = TURNED
    odometry = np.zeros((N, 5))
    odometry[:, 0] = np.arange(N) * 0.1
    return {"correction": correction, "odometry": odometry}


def test_the_path_is_in_the_map_frame_once_localised_and_before():
    around = surroundings_of(story(N, **localised(since=5)), None)
    assert around.frame == "map"
    assert around.poses[:, 0] == pytest.approx(10.0)
    assert around.poses[:, 1] == pytest.approx(20.0 + np.arange(N) * 0.1)
    assert around.notes == ("The robot was localised from 0.2 s on; what was before is placed by that fix.",)


def test_without_localisation_it_is_that_of_the_wheels():
    changes = localised() | {"correction": np.full((N, 3), np.nan)}
    around = surroundings_of(story(N, **changes), None)
    assert around.frame == "odom"
    assert np.array_equal(around.poses, changes["odometry"][:, :3])


#   frame of the goal     where it is on the page, None where it cannot be placed
GOALS = [
    ("map", (3.0, 1.0)),
    ("/map", (3.0, 1.0)),
    ("odom", (9.0, 23.0)),
    ("base_link", (9.0, 23.5)),
    ("mars", None),
]


@pytest.mark.parametrize(("frame", "place"), GOALS)
def test_a_goal_is_placed_from_its_frame(frame, place):
    asked = {5: (GoalInput(1, 1, frame, [3.0, 1.0, 0.0]),)}
    goals = surroundings_of(story(N, goals=asked, **localised()), None).goals
    assert [pytest.approx((goal.x_m, goal.y_m)) for goal in goals] == ([] if place is None else [place])


def test_of_two_goals_in_a_tick_each_has_its_own_answer():
    asked = {5: (GoalInput(1, 1, "map", [3.0, 1.0, 0.0]), GoalInput(1, 1, "map", [4.0, 1.0, 0.0]))}
    events = {5: ("mission state=idle", "goal_refused x", "goal_accepted y")}
    goals = surroundings_of(story(N, goals=asked, events=events, **localised()), None).goals
    assert [goal.accepted for goal in goals] == [False, True]


def test_what_was_seen_stands_where_it_is():
    scans = np.full((N, BINS), np.inf, np.float32)
    scans[:, BINS // 2] = 2.0  # one degree to the left of ahead
    changes = localised() | {"odometry": np.zeros((N, 5))}
    around = surroundings_of(story(N, scans=scans, **changes), None)
    x, y = 10.0 - 2.0 * math.sin(math.radians(1.0)), 20.0 + 2.0 * math.cos(math.radians(1.0))
    assert around.seen.tolist() == [[math.floor(x / SEEN_CELL_M), math.floor(y / SEEN_CELL_M)]]


@given(st.lists(st.tuples(st.integers(-(2**25), 2**25), st.integers(-(2**25), 2**25), st.integers(1, 9)), max_size=30))
def test_cells_are_counted_once_each(rows):
    cells = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    once, counts = _counted(cells, np.array([row[2] for row in rows], np.int64))
    expected: dict[tuple[int, ...], int] = {}
    for row in rows:
        expected[row[:2]] = expected.get(row[:2], 0) + row[2]
    assert dict(zip(map(tuple, once.tolist()), counts.tolist(), strict=True)) == expected


def test_the_part_of_a_map_is_that_part_of_the_map():
    world, section = load_map("gdc1"), Config().scan
    walls = world.overlapping(section.z_min_m, section.z_max_m)
    rows, columns = np.nonzero(walls)
    middle = np.array([world.centre_of((int(rows[0]), int(columns[0])))])
    part = building_around("gdc1", middle, section)
    assert part.walls.shape < walls.shape
    for row, column in np.argwhere(part.walls)[:50].tolist():
        x, y = (column + 0.5) * part.cell_m, (row + 0.5) * part.cell_m
        c, s = math.cos(part.corner.yaw_rad), math.sin(part.corner.yaw_rad)
        at = (part.corner.x_m + c * x - s * y, part.corner.y_m + s * x + c * y)
        assert walls[world.cell_of(at)]
    assert share_within(part, middle) == 1.0
    assert share_within(part, middle + 100.0) == 0.0
    assert building_around("gdc1", middle + 1e5, section).walls.size <= CELLS_AT_MOST


def test_nothing_lies_beside_a_map():
    assert share_within(Building("", 1.0, Pose(0.0, 0.0, 0.0), np.zeros((2, 2), bool)), np.empty((0, 2))) == 1.0
