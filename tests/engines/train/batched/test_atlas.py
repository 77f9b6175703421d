"""Floors in one grid, goals on them, and workers that draw both."""

from __future__ import annotations

import numpy as np
import pytest

from engines.train.batched.atlas import Generation, _check_length, build_floor, make_atlas, plan_floors
from engines.train.config import rules_of
from engines.train.drives.places import make_building
from hil.sensors.direct_scan_kernels import bits_of
from onboard.values.errors import ConfigError, InputError, OnboardError
from tests.rigs.train_rig import batched

MAPS = ("depot", "ase1")


@pytest.fixture(scope="module")
def rules():
    return rules_of(batched(places__maps=list(MAPS)))


@pytest.fixture(scope="module")
def generation(rules):
    """Floors and goals drawn in this process."""
    return Generation(rules, plan_floors(MAPS, 1, 0), 0, 0, 4)


def test_each_map_is_furnished_anew_in_each_variant():
    floors = plan_floors(MAPS, 3, 5)
    assert sorted(place for place, _ in floors) == sorted(MAPS * 3)
    assert len({seed for _, seed in floors}) == 6
    assert plan_floors(MAPS, 3, 5) == floors != plan_floors(MAPS, 3, 6)


def test_floors_stand_in_the_atlas_as_they_are(rules, generation):
    atlas = generation.atlas()
    for (place, seed), (row, column) in zip(plan_floors(MAPS, 1, 0), atlas.corners, strict=True):
        building = make_building(rules.places, place, seed, rules.robot)
        world, course = building.setting.world, building.course
        part = np.s_[row : row + world.gap.shape[0], column : column + world.gap.shape[1]]
        assert np.array_equal(atlas.blocked[part], course.blocked)
        assert np.array_equal(atlas.gap[part], world.gap)
    assert atlas.blocked[0].all()


def test_bits_are_those_of_the_scan(generation):
    building, packed = build_floor(generation._plan, 0)
    atlas, world, scan = make_atlas([packed]), building.setting.world, building.course.scan
    row, column = atlas.corners[0]
    by_column, _ = bits_of(world.low_m, world.high_m, scan.z_min_m, scan.z_max_m)
    for cell in range(0, world.gap.shape[1], 7):
        ours = np.unpackbits(atlas.by_column[column + cell].view(np.uint8), bitorder="little")[row:]
        theirs = np.unpackbits(by_column[cell].view(np.uint8), bitorder="little")[: world.gap.shape[0]]
        assert np.array_equal(ours[: len(theirs)], theirs)


def test_goals_depend_on_the_seed_alone_and_lie_on_their_floor(rules, generation):
    again = Generation(rules, plan_floors(MAPS, 1, 0), 0, 0, 4)
    atlas = generation.atlas()
    for goal, other in zip(generation.goals(at_least=3), again.goals(at_least=3), strict=True):
        assert (goal.floor, goal.xy_m, goal.row) == (other.floor, other.xy_m, other.row)
        assert np.array_equal(goal.field, other.field)
        assert np.array_equal(goal.starts, other.starts)
        for x_m, y_m in [goal.xy_m, *goal.starts[:, :2]]:
            assert not atlas.blocked[int(y_m / atlas.cell_m), int(x_m / atlas.cell_m)]
    assert generation.goals() == []


def test_maps_with_other_cells_and_drives_too_long_are_refused(rules, generation):
    generation.atlas()
    first, second = generation._floors.values()
    with pytest.raises(InputError, match=r"cells of 0\.1 m, but those of .* are 0\.05 m: maps that are"):
        make_atlas([first, second._replace(cell_m=0.1)])
    with pytest.raises(ConfigError, match=r"^places\.most_m: expected 131\.068 or less, found 200$"):
        _check_length(rules.places.model_copy(update={"most_m": 200.0}))


def test_workers_build_the_same_floors_and_one_that_dies_is_named(rules, generation):
    with Generation(rules, plan_floors(MAPS, 1, 0), 0, 2, 4) as workers:
        for ours, theirs in zip(workers.atlas(), generation.atlas(), strict=True):
            assert np.array_equal(ours, theirs)
        assert {goal.floor for goal in workers.goals(at_least=4)} == {0, 1}
        workers._workers[1].process.kill()
        with pytest.raises(OnboardError, match=r"^goal worker 1 was killed: most likely the machine ran out of"):
            workers.goals(at_least=1000)
    with pytest.raises(OnboardError, match="the generation of goals is closed"):
        workers.goals()
