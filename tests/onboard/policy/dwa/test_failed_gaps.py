"""Gaps: narrow ones of the map are closed; one that the robot does not pass costs more for a while."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import barred
from onboard.policy.dwa.cost_to_go import STEEP, CostField, descent, make_prices
from onboard.policy.dwa.costmap import CELL_M, EMPTY, LocalMap, WayFinder
from onboard.policy.dwa.failed_gaps import MOST, NONE_FAILED, Failures, failures_of, patience_of
from onboard.policy.dwa.floor import floor_in
from onboard.policy.dwa.mapped import NONE_GONE, MapPlanner
from onboard.values.messages import Pose

HERE, GOAL = Pose(1.5, 4.0, 0.0), (4.5, 4.0)


def two_doors(width_m: float) -> OccupancyGrid:
    """Return two rooms of 3 m x 8 m: a gap of this width between them at y = 4 m, and a door of 1 m at y = 1 m."""
    percent = np.zeros((160, 120), np.int8)
    percent[[0, -1]] = percent[:, [0, -1]] = percent[:, 60] = 100
    first = 80 - round(width_m / 0.1)
    percent[first : first + round(width_m / 0.05), 60] = percent[10:30, 60] = 0
    return OccupancyGrid(0.05, Pose(0.0, 0.0, 0.0), percent)


def lowest_m(field: CostField) -> float:
    """Return the least y of the path from HERE to GOAL."""
    return float(descent(field, (HERE.x_m, HERE.y_m), GOAL, STEEP)[:, 1].min())


#   width of the gap, whether the path uses it
GAPS = [(0.3, False), (0.45, False), (0.6, False), (0.8, True), (1.0, True)]


@pytest.mark.parametrize(("width_m", "used"), GAPS)
def test_a_path_uses_a_gap_of_the_map_that_the_robot_has_room_in(width_m: float, used: bool) -> None:
    _, field = MapPlanner(two_doors(width_m), 0.25).around(EMPTY, NONE_GONE, HERE, GOAL)
    assert (lowest_m(field) > 3.0) is used


def test_a_line_of_cells_closes_a_narrow_gap_and_no_wider_one() -> None:
    occupied = two_doors(0.5).occupied
    closed = np.argwhere(barred(occupied, 0.05, 0.56))
    assert {(int(row), int(column)) for row, column in closed} == {(row, 60) for row in range(75, 85)}
    assert not barred(occupied, 0.05, 0.4).any()


def test_a_gap_of_the_map_opens_where_its_side_is_gone() -> None:
    grid, prices = two_doors(0.5), make_prices(0.3, CELL_M)
    floor = floor_in(grid, prices, 0.25)
    middle = 30, 40
    assert floor.fine[middle] == 0
    gone = np.array([(30, b) for b in range(43, 50)], np.float32)
    changed = floor.changed(gone, np.empty((0, 2), np.float32), (1.5, 4.0), prices)
    at = tuple(cell - first for cell, first in zip(middle, changed.first_fine, strict=True))
    assert changed.fine[at] > 0


USUAL = patience_of(1.0 / 3.0, 1.0)


def wall_with_two_gaps() -> LocalMap:
    """Return remembered obstacles: a wall at x = 3 m with a gap of 0.7 m at y = 4 m and one of 1.2 m at y = 0."""
    rows = [b for b in range(-40, 80) if not (37 <= b < 44 or -6 <= b < 6)]
    return LocalMap(np.array([(30, b, 1.0) for b in rows], np.float32))


def waiting(known: LocalMap, field: CostField, decisions: int, step_m: float = 0.0) -> Failures:
    failures = known.failures
    for k in range(decisions):
        failures = failures.after(Pose(HERE.x_m + 1.0 + k * step_m, 4.0, 0.0), GOAL, field, 0.2, USUAL)
    return failures


@pytest.mark.parametrize("planner", [None, MapPlanner(two_doors(0.9), 0.25)], ids=["reactive", "mapped"])
def test_after_ten_seconds_before_a_gap_the_path_leads_through_another(planner: MapPlanner | None) -> None:
    known = EMPTY if planner else wall_with_two_gaps()

    def field_of(failures: Failures) -> CostField:
        layer = LocalMap(known.cells, failures)
        if planner is None:
            return WayFinder(0.25).window(layer, HERE, GOAL)[2]
        return planner.around(layer, NONE_GONE, HERE, GOAL)[1]

    before = field_of(NONE_FAILED)
    assert lowest_m(before) > 3.0
    assert waiting(known, before, USUAL.stuck).gaps == ()
    failed = waiting(known, before, USUAL.stuck + 1)
    assert [math.dist(gap[:2], (3.0, 4.0)) < 0.5 for gap in failed.gaps] == [True]
    assert lowest_m(field_of(failed)) < 2.0
    for _ in range(USUAL.life):
        failed = failed.after(Pose(9.0, 9.0, 0.0), (9.0, 9.1), before, 0.2, USUAL)
    assert failed.gaps == ()


def test_a_robot_that_gets_on_or_is_at_its_goal_fails_nowhere() -> None:
    known = wall_with_two_gaps()
    field = WayFinder(0.25).window(known, HERE, GOAL)[2]
    assert waiting(known, field, 3 * USUAL.stuck, step_m=-0.04).gaps == ()
    at_goal = NONE_FAILED
    for _ in range(3 * USUAL.stuck):
        at_goal = at_goal.after(Pose(*GOAL, 0.0), GOAL, field, 0.2, USUAL)
    assert at_goal.gaps == ()


#   decisions a second, top speed, decisions until a robot that gets no farther has failed, and of a closed place
PATIENCE = [(3.0, 1.0, 30, 360), (10.0, 1.0, 100, 1200), (3.0, 0.1, 96, 360)]


@pytest.mark.parametrize(("rate_hz", "top_mps", "stuck", "life"), PATIENCE)
def test_patience_is_a_time_and_longer_for_a_slow_robot(rate_hz: float, top_mps: float, stuck: int, life: int) -> None:
    patience = patience_of(1.0 / rate_hz, top_mps)
    assert (patience.stuck, patience.life) == (stuck, life)


def test_packed_and_unpacked_the_failures_are_the_same() -> None:
    for count in (0, 1, MOST):
        failures = Failures((1.5, -2.0, 7.0), tuple((float(k), 0.5, 3.0) for k in range(count)))
        assert failures_of(failures.numbers()) == failures
