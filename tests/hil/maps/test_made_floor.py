"""Made floors: drawn by a seed, all of a piece, with ways that are longer than they look."""

from __future__ import annotations

import numpy as np
import pytest

from engines.train.drives.places import PlacesSection
from hil.maps.load import load_map
from hil.maps.made_floor import made_range
from hil.physics.collision_world import Body
from hil.physics.free_space import distance_field, free_space
from onboard.values.errors import InputError


def test_a_seed_makes_the_same_floor_again():
    first, again, other = (load_map(name) for name in ("made-5", "made-5", "made-6"))
    assert np.array_equal(first.gap, again.gap)
    assert first.gap.shape != other.gap.shape or not np.array_equal(first.gap, other.gap)


SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 24))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_room_can_be_reached_and_some_ways_are_long(seed):
    space = free_space(load_map(f"made-{seed}"), Body())
    inside = np.argwhere(space.standing)
    # Rooms have walls all around, so the middle of the floor is inside.
    row, column = inside[np.abs(inside - np.array(space.standing.shape) // 2).sum(axis=1).argmin()]
    field = distance_field(space, space.world.centre_of((int(row), int(column))))
    cell_m, margin = space.world.cell_m, round(2.3 / space.world.cell_m)
    indoors = space.standing[margin:-margin, margin:-margin]
    assert np.isfinite(field[margin:-margin, margin:-margin][indoors]).all()
    outside = field[: margin // 2]
    assert not np.isfinite(outside).any()
    rows, columns = np.nonzero(np.isfinite(field))
    straight_m = np.maximum(np.hypot(rows - row, columns - column) * cell_m, 3.0)
    assert (field[rows, columns] / straight_m).max() > 1.5


@pytest.mark.parametrize("name", ["made-", "made-x", "made--1", f"made-{10**10}"])
def test_a_name_without_a_seed_is_refused(name):
    with pytest.raises(InputError, match="must be made-SEED with a seed of 0 to 1000000000"):
        load_map(name)


def test_a_range_names_its_floors():
    assert made_range("made-3-5") == ["made-3", "made-4", "made-5"]
    assert made_range("depot") == ["depot"]
    assert PlacesSection(maps=("depot", "made-0-1")).maps == ("depot", "made-0", "made-1")
    for wrong in ("made-5-3", "made-0-1000"):
        with pytest.raises(ValueError, match="must name 1 to 1000 floors"):
            made_range(wrong)
