"""The committed sets by name: counts, detours, splits and seeds as promised, and ways that exist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hil.drive.episode_sets import BUILDINGS, FLOORS, RESERVED_SEEDS, SETS, SPLITS, building_of, split_of
from hil.drive.episodes import COMMITTED, DETOUR, MAX_M, MIN_M, is_detour, load_episodes, make_set
from hil.evaluate.episode_selection import find_sets, load_set
from hil.maps.load import MAPS_FOLDER, map_names
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space, path_length, shortest_path
from onboard.values.errors import InputError

BODY = Body()
TRAIN = {plan.map_name for plan in COMMITTED if plan.split == "train"}
TEST = {plan.map_name for plan in COMMITTED if plan.split == "test"}


def tables(name: str) -> list[dict[str, Any]]:
    chosen = SETS[name]
    return [json.loads((chosen.folder / f"{plan.map_name}.json").read_text()) for plan in chosen.plans]


def detours(table: dict[str, Any]) -> int:
    return sum(row["geodesic_m"] > DETOUR * row["straight_m"] for row in table["episodes"])


#   set          maps   split    at least
NAMED = [("unseen", TEST, "test", 500), ("validation", TRAIN, "train", 100)]


@pytest.mark.parametrize(("name", "maps", "split", "least"), NAMED, ids=[row[0] for row in NAMED])
def test_a_set_is_what_its_plan_says(name: str, maps: set[str], split: str, least: int) -> None:
    read = tables(name)
    rows = [row for table in read for row in table["episodes"]]
    assert {table["map"] for table in read} == maps
    assert {table["split"] for table in read} == {split}
    assert len(rows) >= least
    assert sum(detours(table) for table in read) >= len(rows) / 3
    assert all(MIN_M <= row["geodesic_m"] <= MAX_M for row in rows)
    for table, plan in zip(read, SETS[name].plans, strict=True):
        assert (table["seed"], table["furniture"]["seed"]) == (plan.seed, plan.seed)
        assert len(table["episodes"]) == plan.count
        assert detours(table) >= plan.detours


def test_every_set_has_furniture_of_its_own() -> None:
    seeds = [plan.seed for chosen in SETS.values() for plan in chosen.plans]
    assert set(seeds) == RESERVED_SEEDS
    assert len({chosen.plans[0].seed for chosen in SETS.values()}) == len(SETS)
    assert {file.name for chosen in SETS.values() for file in chosen.folder.iterdir()} == {
        f"{plan.map_name}.json" for plan in COMMITTED
    }


@pytest.mark.parametrize(("name", "place"), [("unseen", "willow"), ("validation", "gdc3")])
def test_the_first_episodes_can_be_driven(name: str, place: str) -> None:
    known = load_episodes(place, SETS[name].folder)
    space = free_space(known.world, BODY)
    for episode in known.episodes[:10]:
        way = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
        assert way is not None
        assert path_length(way) == pytest.approx(episode.geodesic_m, rel=0.02)


def test_detours_are_kept_in_the_order_drawn() -> None:
    """The same draws without a quota hold all that is kept, in the same order, and only ordinary ones beside."""
    some = make_set("apartment", 5, 4, detours=1).episodes
    drawn = make_set("apartment", 5, 12).episodes
    assert set(some[:3]) <= set(drawn)
    assert [episode for episode in drawn if episode in some] == [episode for episode in some if episode in drawn]
    assert any(is_detour(episode) for episode in some)


def test_a_set_is_found_by_its_name() -> None:
    sources = find_sets([], 7, 1, BODY, "unseen")
    assert [(source.name, source.count, source.set) for source in sources] == [
        (place, 7, "unseen") for place in sorted(TEST)
    ]
    (one,) = find_sets(["apartment"], None, 1, BODY, "unseen")
    assert load_set(one).seed != load_set(find_sets(["apartment"], None, 1, BODY)[0]).seed


#   places         set           said
BAD = [
    ([], "seen", "--set seen: must be one of committed, unseen, validation"),
    (["gdc1"], "unseen", "--map gdc1: not in the set unseen, which has ahg2, apartment, lgrc1, warehouse, willow"),
    (["willow"], "validation", "--map willow: not in the set validation"),
]


@pytest.mark.parametrize(("places", "name", "said"), BAD)
def test_what_is_not_there_is_said(places: list[str], name: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        find_sets(places, None, 1, BODY, name)
    assert said in str(refused.value)


# ---- Every shipped map has a building, and with it a split: no floor of a test building passes for one of its own


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
