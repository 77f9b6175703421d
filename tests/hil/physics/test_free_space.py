"""Free space, geodesic distances, shortest paths, and random starts and goals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.maps.cell_kernels import line_is_free
from hil.maps.load import load_map
from hil.physics.collision_world import Body
from hil.physics.free_space import (
    PASSAGE_MARGIN_M,
    STANDING_MARGIN_M,
    distance_field,
    free_space,
    indoor_cells,
    is_indoors,
    is_within,
    path_length,
    pick_episode,
    shortest_path,
)
from onboard.values.errors import InputError
from tests.rigs.rooms import drawn, room

BODY = Body(radius_m=0.25, height_m=1.0)
POINT = Body(radius_m=0.01, height_m=1.0)
ROOM = free_space(room(6.0, 4.0), BODY)


def u_turn() -> str:
    """Return a room of 8 x 6 m in cells of 0.5 m with a wall from the left that ends 1 m before the right."""
    rows = ["." * 16] * 6 + ["#" * 14 + ".."] + ["." * 16] * 5
    return "\n".join(rows)


def test_free_cells_keep_the_margin_from_walls():
    for cells, margin in ((ROOM.passable, PASSAGE_MARGIN_M), (ROOM.standing, STANDING_MARGIN_M)):
        for row, column in np.argwhere(cells):
            x, y = ROOM.world.centre_of((int(row), int(column)))
            assert min(x, y, 6.0 - x, 4.0 - y) >= BODY.radius_m + margin - 1e-9
    assert ROOM.passable.sum() > ROOM.standing.sum() > 0


@pytest.mark.parametrize("limit_m", [1.0, 4.0, 11.0, math.inf])
def test_a_start_is_within_a_limit_where_the_field_is_finite(limit_m):
    space, goal = free_space(drawn(u_turn(), 0.5), POINT), (1.25, 1.25)
    field = distance_field(space, goal, limit_m)
    cells = np.argwhere(space.passable)
    for row, column in cells[:: max(1, len(cells) // 60)]:
        xy = space.world.centre_of((int(row), int(column)))
        assert is_within(space, xy, goal, limit_m) == np.isfinite(field[row, column])


def test_the_path_around_a_corner_is_shortest():
    """The path leads around the end of a wall at x = 7 m, y from 2.5 to 3 m."""
    space = free_space(drawn(u_turn(), 0.5), POINT)
    path = shortest_path(space, (0.75, 0.75), (0.75, 5.25))
    # Through the centres of the cells at the wall's end, (7.25, 2.25) and (7.25, 3.25).
    expected = math.dist((0.75, 0.75), (7.25, 2.25)) + 1.0 + math.dist((7.25, 3.25), (0.75, 5.25))
    assert path_length(path) == pytest.approx(expected, abs=1e-9)


def test_the_field_is_close_to_the_path_length():
    space = free_space(load_map("gdc1"), BODY)
    rng = np.random.default_rng(5)
    for _ in range(3):
        episode = pick_episode(space, rng, 5.0, 15.0)
        start = (episode.start.x_m, episode.start.y_m)
        field = distance_field(space, episode.goal_xy_m)[space.world.cell_of(start)]
        assert episode.geodesic_m - 1e-9 <= field <= 1.03 * episode.geodesic_m
        assert episode.geodesic_m >= math.dist(start, episode.goal_xy_m) - 1e-9
        back = shortest_path(space, episode.goal_xy_m, start)
        assert path_length(back) == pytest.approx(episode.geodesic_m, rel=0.005)


def test_the_field_stops_at_its_limit():
    field = distance_field(ROOM, (1.0, 1.0), 2.0)
    reached = field[np.isfinite(field)]
    assert 1.8 < reached.max() <= 2.0
    assert reached.min() == 0.0


def test_unreachable_and_blocked_goals():
    closed = free_space(drawn("....#....\n....#....\n....#....", 0.5), POINT)
    assert shortest_path(closed, (0.75, 0.75), (3.75, 0.75)) is None
    with pytest.raises(InputError, match=r"body does not fit at \(2\.25, 0\.75\)"):
        shortest_path(closed, (0.75, 0.75), (2.25, 0.75))
    with pytest.raises(InputError, match="does not fit"):
        distance_field(closed, (99.0, 0.0))


@pytest.mark.parametrize("seed", range(3))
def test_episodes_are_drawn_by_seed_within_the_bounds(seed):
    space = free_space(room(9.0, 9.0), BODY)
    first, again = (pick_episode(space, np.random.default_rng(seed), 3.0, 5.0) for _ in range(2))
    assert first == again
    assert 3.0 <= first.geodesic_m <= 5.0
    assert space.standing[space.world.cell_of((first.start.x_m, first.start.y_m))]
    assert space.standing[space.world.cell_of(first.goal_xy_m)]


def test_indoor_cells_agree_with_is_indoors():
    """`indoor_cells` tests once per half metre, so cells near the edge of a yard may differ."""
    world = load_map("home")
    judged = indoor_cells(world)
    free = np.argwhere(world.gap > 0)
    rng = np.random.default_rng(3)
    picked = [(int(row), int(column)) for row, column in free[rng.integers(len(free), size=300)]]
    same = [judged[cell] == is_indoors(world, cell) for cell in picked]
    assert np.mean(same) > 0.95
    assert 0.2 < np.mean([judged[cell] for cell in picked]) < 0.8
    assert not judged[world.gap == 0].any()


cells = st.tuples(st.integers(0, 15), st.integers(0, 15))


@given(cells, cells, st.lists(cells, max_size=30))
def test_a_line_is_free_both_ways_or_neither(a, b, blocked):
    free = np.ones((16, 16), np.bool_)
    free[tuple(np.array(blocked, np.int64).reshape(-1, 2).T)] = False
    assert line_is_free(free, a, b) == line_is_free(free, b, a)


@given(cells, cells, cells)
def test_a_line_is_blocked_by_the_cells_that_it_crosses(a, b, blocked):
    """The definition: the line contains a point of the open square of the cell, or one of its corners."""
    free = np.ones((16, 16), np.bool_)
    free[blocked] = False
    (y0, x0), (y1, x1) = (a[0] + 0.5, a[1] + 0.5), (b[0] + 0.5, b[1] + 0.5)
    enter, leave = 0.0, 1.0
    for start, end, low in ((x0, x1, blocked[1]), (y0, y1, blocked[0])):
        if start == end:
            if not low < start < low + 1:
                enter = 2.0
        else:
            near, far = sorted(((low - start) / (end - start), (low + 1 - start) / (end - start)))
            enter, leave = max(enter, near), min(leave, far)
    if abs(enter - leave) > 1e-9:
        assert line_is_free(free, a, b) == (enter > leave)
