"""The committed sets by name: counts, detours, splits and seeds as promised, and ways that exist."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.drive import episode_sets
from hil.drive.episode_sets import RESERVED_SEEDS, SEALED, SETS, building_of, split_of
from hil.drive.episodes import COMMITTED, DETOUR, MAX_M, MIN_M, load_episodes, make_set, straight_m
from hil.evaluate.episode_selection import find_sets, load_set
from hil.maps.load import MAPS_FOLDER
from hil.physics.collision_world import Body
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
    drawn = [name for name in SETS if not name.endswith(SEALED)]  # a sealed half is of the same draw as its open half
    assert len({SETS[name].plans[0].seed for name in drawn}) == len(drawn)
    assert {file.name for chosen in SETS.values() for file in chosen.folder.iterdir()} == {
        f"{plan.map_name}.json" for plan in COMMITTED
    }


#   set        episodes in both halves   length [m]
HALVES = [("habitat", 500, (1.0, 30.0)), ("hard", 250, (10.0, 30.0))]


@pytest.mark.parametrize(("name", "count", "lengths_m"), HALVES, ids=[row[0] for row in HALVES])
def test_a_benchmark_is_what_its_rule_says_and_no_episode_is_in_both_halves(
    name: str, count: int, lengths_m: tuple[float, float]
) -> None:
    halves = [tables(half) for half in (name, name + SEALED)]
    assert {table["map"] for half in halves for table in half} == TEST
    sizes = [[len(table["episodes"]) for table in half] for half in halves]
    assert sizes == [[count // 10] * 5] * 2
    rows = [row for half in halves for table in half for row in table["episodes"]]
    assert len({json.dumps(row) for row in rows}) == count
    assert all(lengths_m[0] <= row["geodesic_m"] <= lengths_m[1] for row in rows)
    ratios = np.array([row["geodesic_m"] / row["straight_m"] for row in rows])
    if name == "hard":
        assert ratios.min() >= 1.5 - 1e-3
    else:  # the rule keeps under 0.3 of the draws below 1.1, so few of them are left
        assert 0.02 < (ratios < 1.1).mean() < 0.2
    again = tables(name + SEALED + "-2")
    assert [len(table["episodes"]) for table in again] == sizes[1]
    assert not {json.dumps(row) for row in rows} & {json.dumps(row) for table in again for row in table["episodes"]}
    assert all(lengths_m[0] <= row["geodesic_m"] <= lengths_m[1] for table in again for row in table["episodes"])
    by = SETS[name].rule
    assert (by.limit_s, by.noise_seeds, by) == (180.0, 3, SETS[name + SEALED].rule)
    assert by == SETS[name + SEALED + "-2"].rule


@pytest.mark.parametrize("name", ["habitat", "hard"])
def test_the_halves_are_drawn_from_their_seed(name: str) -> None:
    """The first draws of a map: even ones in the open half, odd ones in the sealed half."""
    plan = next(plan for plan in SETS[name].plans if plan.map_name == "willow")
    drawn = make_set("willow", plan.seed, 4, draw=name).episodes
    for first, half in enumerate((name, name + SEALED)):
        kept = load_episodes("willow", SETS[half].folder).episodes[:2]
        for one, other in zip(drawn[first::2], kept, strict=True):
            assert one.goal_xy_m == pytest.approx(other.goal_xy_m, abs=1e-4)
            assert one.geodesic_m == pytest.approx(other.geodesic_m, abs=1e-4)


def test_a_benchmark_drawn_anew_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = SETS["hard"]
    for name in chosen.maps:
        text = (chosen.folder / f"{name}.json").read_text()
        (tmp_path / f"{name}.json").write_text(text.replace('"seed": 6026', '"seed": 6027'))
    monkeypatch.setitem(episode_sets.SETS, "hard", replace(chosen, folder=tmp_path))
    with pytest.raises(InputError, match=r"--set hard: not the benchmark: the episodes in .* are not the committed"):
        find_sets([], None, 1, BODY, "hard")


@pytest.mark.parametrize("name", ["hard-sealed", "hard-sealed-2", "habitat-sealed", "habitat-sealed-2"])
def test_a_sealed_set_is_driven_for_a_release_only(name: str) -> None:
    with pytest.raises(InputError, match=f"--set {name}: sealed: driven only for a release, with --release"):
        find_sets([], None, 1, BODY, name)
    assert len(find_sets([], None, 1, BODY, name, release=True)) == len(TEST)
    assert SETS[name].digest


@pytest.mark.parametrize("draw", ["habitat", "hard"])
def test_own_maps_are_drawn_by_the_same_rule(draw: str, tmp_path: Path) -> None:
    """A hall with a wall in the middle, open at one end."""
    (tmp_path / "hall.json").write_text(
        json.dumps([[0, 0, 20, 0], [20, 0, 20, 8], [20, 8, 0, 8], [0, 8, 0, 0], [0, 4, 16, 4]])
    )
    (source,) = find_sets([str(tmp_path / "hall.json")], 3, 1, BODY, draw=draw, furniture=0.0)
    assert (source.limit_s, source.drives, len(source.drawn)) == (180.0, 9, 3)
    assert load_set(source).episodes == make_set(tmp_path / "hall.json", 1, 3, density=0.0, draw=draw).episodes
    assert source.identity[5:] == [0.0, {"draw": draw, "noise_seeds": 3}]
    if draw == "hard":
        assert all(one.geodesic_m >= 1.5 * straight_m(one) and one.geodesic_m >= 10.0 for one in source.drawn)


def test_a_set_is_found_by_its_name() -> None:
    sources = find_sets([], 7, 1, BODY, "unseen")
    assert [(source.name, source.count, source.set) for source in sources] == [
        (place, 7, "unseen") for place in sorted(TEST)
    ]
    (one,) = find_sets(["apartment"], None, 1, BODY, "unseen")
    assert load_set(one).seed != load_set(find_sets(["apartment"], None, 1, BODY)[0]).seed


#   places         set           said
BAD = [
    (
        [],
        "seen",
        "--set seen: must be one of committed, unseen, validation, habitat, habitat-sealed, hard, hard-sealed, "
        "habitat-sealed-2, hard-sealed-2",
    ),
    (["home"], "hard", "--map home: not the benchmark hard, which has ahg2, apartment, lgrc1, warehouse, willow; "),
    (["hard.json"], "hard", "to draw episodes in your own map, use --draw hard without --set"),
    (["gdc1"], "unseen", "--map gdc1: not in the set unseen, which has ahg2, apartment, lgrc1, warehouse, willow"),
    (["willow"], "validation", "--map willow: not in the set validation"),
]


@pytest.mark.parametrize(("places", "name", "expected"), BAD)
def test_what_is_not_there_is_said(places: list[str], name: str, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        find_sets(places, None, 1, BODY, name)
    assert expected in str(refused.value)


#   options                              said
BAD_OPTIONS = [
    ({"draw": "long"}, "--draw long: must be one of habitat, hard"),
    ({"draw": "hard"}, "--draw hard: willow has its own episodes; use --draw only for maps without episodes"),
    ({"noise_seeds": 0}, "--noise-seeds 0: must be 1 to 100"),
    ({"furniture": 2.0, "set_name": "hard"}, "--furniture 2: willow has its own episodes"),
]


@pytest.mark.parametrize(("options", "expected"), BAD_OPTIONS)
def test_what_does_not_fit_is_said(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as refused:
        find_sets(["willow"], None, 1, BODY, **options)
    assert expected in str(refused.value)


# ---- Every shipped map has a building, and with it a split: no floor of a test building passes for one of its own


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
