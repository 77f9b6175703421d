"""Pallets beside the path leave a way; people who cross it walk on before a robot."""

from __future__ import annotations

import numpy as np
import pytest

from hil.physics.collision_world import Body, blocked_cells
from hil.physics.free_space import Episode, free_space
from hil.scene.on_the_way import CROSSING_MPS, PALLET_HEIGHT_M, PALLET_M, crossing_people, pallets_beside
from hil.scene.walkers import BUMP_M, bodies_of, walk
from onboard.values.messages import Pose
from tests.rigs.rooms import room

WORLD = room(10.0, 4.0)
SPACE, SOLID = free_space(WORLD, Body()), blocked_cells(WORLD, Body())
EPISODE = Episode(Pose(1.0, 2.0, 0.0), (9.0, 2.0), 8.0)


@pytest.mark.parametrize("seed", range(5))
def test_pallets_are_beside_the_path(seed: int) -> None:
    pallets = pallets_beside(SPACE, SOLID, EPISODE, seed, 3)
    assert 2 <= len(pallets) <= 3
    assert set(pallets[:, 4]) == {PALLET_HEIGHT_M}
    assert np.abs(np.abs(pallets[:, 1] - 2.0) - PALLET_M - 0.1).max() < 0.15
    np.testing.assert_array_equal(pallets, pallets_beside(SPACE, SOLID, EPISODE, seed, 3))


def test_a_corridor_without_room_has_none() -> None:
    narrow = room(10.0, 1.2)
    space, solid = free_space(narrow, Body()), blocked_cells(narrow, Body())
    path = Episode(Pose(1.0, 0.6, 0.0), (9.0, 0.6), 8.0)
    assert len(pallets_beside(space, solid, path, 1, 3)) == 0
    assert len(crossing_people(space, solid, path, 1, 2).state) == 0


def test_a_crossing_person_walks_into_a_robot_and_then_turns_back() -> None:
    crowd, robot_m = crossing_people(SPACE, SOLID, EPISODE, 1, 1), 0.25
    x, y = (float(value) for value in crowd.state[0, :2])
    gaps_m, steps_m = [], []
    for _ in range(240):
        before, crowd = y, walk(crowd, 1.0 / 30.0, (x, 2.0), robot_m)
        y, radius_m = (float(value) for value in bodies_of(crowd)[0, 1:3])
        gaps_m.append(abs(y - 2.0) - radius_m - robot_m)
        steps_m.append(abs(y - before))
    assert -BUMP_M <= min(gaps_m) < 0.0, "it does not slow down, and the robot stops it"
    np.testing.assert_allclose(steps_m[: int(np.argmin(gaps_m)) - 1], CROSSING_MPS / 30.0)
    assert max(gaps_m[int(np.argmin(gaps_m)) :]) > 0.3, "it turns back"
