"""Goals of the training: wherever there is one it is found, and where there is none that is known for certain."""

from __future__ import annotations

import numpy as np

from engines.train.drives.places import any_goal, drawn_goal
from hil.maps.world_grid import world_of_walls
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space, indoor_cells, is_indoors
from onboard.values.geometry import IDENTITY

BODY = Body(radius_m=0.1)
CELL_M = 0.1


def space_of(wall, yard=False):
    return free_space(world_of_walls("test", CELL_M, IDENTITY, wall, yard), BODY)


def hut():
    """Return 30 m of open ground with a hut of 2 m in it, its door open."""
    wall = np.zeros((300, 300), np.bool_)
    wall[100:121, 100:121] = True
    wall[101:120, 101:120] = False
    wall[107:114, 120] = False
    return space_of(wall, yard=True)


def test_what_is_hardly_ever_drawn_is_found_all_the_same():
    space, rng = hut(), np.random.default_rng(0)
    assert drawn_goal(space, (1.0, 6.0), rng, 40) is None
    found = any_goal(space, (1.0, 6.0), rng)
    again = any_goal(space, (1.0, 6.0), np.random.default_rng(4))
    assert found is not None
    assert again is not None
    cell = space.world.cell_of(found.goal.xy_m)
    assert indoor_cells(space.world)[cell]
    assert is_indoors(space.world, cell)
    near_m = found.goal.field_m[found.near]
    assert 1.0 <= near_m.min() <= near_m.max() <= 6.0
    same = any_goal(space, (1.0, 6.0), np.random.default_rng(4))
    assert same is not None
    assert same.goal.xy_m == again.goal.xy_m != found.goal.xy_m
