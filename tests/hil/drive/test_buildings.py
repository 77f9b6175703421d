"""Every shipped map has a building, and with it a split: no floor of a test building passes for one of its own."""

from __future__ import annotations

import pytest

from hil.drive.episode_sets import BUILDINGS, FLOORS, SPLITS, building_of, split_of
from hil.drive.episodes import COMMITTED
from hil.maps.load import MAPS_FOLDER, map_names


def test_every_shipped_map_has_one_building():
    assert sorted(BUILDINGS) == map_names()
    listed = [plan.map_name for plan in COMMITTED] + [name for names in FLOORS.values() for name in names]
    assert len(listed) == len(set(listed))


def test_a_building_is_in_one_split():
    assert all(SPLITS[plan.building] == plan.split for plan in COMMITTED)


#   place                                split     a building that is among the evaluated
PLACES = [
    ("ahg2", "test", True),
    ("ahg1", "test", True),
    (str(MAPS_FOLDER / "willow.yaml"), "test", True),
    ("copies/ahg1.json", "test", True),
    ("gdc1", "train", True),
    ("gdc4", "train", True),
    ("home", None, True),
    ("my_building.yaml", None, False),
]


@pytest.mark.parametrize(("place", "split", "known"), PLACES)
def test_a_map_is_known_by_name_and_by_file(place, split, known):
    assert split_of(place) == split
    assert (building_of(place) is not None) == known
