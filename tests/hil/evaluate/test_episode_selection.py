"""What `--map` means: names, files and folders; and that no file of one's own is driven which cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.drive.episodes import COMMITTED, make_episodes
from hil.evaluate.episode_selection import DRAWN, OWN_SPLIT, find_sets, load_set, rearranged
from hil.physics.collision_world import Body
from onboard.values.errors import InputError

BODY = Body()
CORNERS = [(0.0, 0.0), (9.0, 0.0), (9.0, 7.0), (0.0, 7.0)]


def vector_map(folder: Path, name: str = "hall.json") -> Path:
    """Write a room of 9 m x 7 m."""
    ends = zip(CORNERS, [*CORNERS[1:], CORNERS[0]], strict=True)
    rows = [{"p0": {"x": a[0], "y": a[1]}, "p1": {"x": b[0], "y": b[1]}} for a, b in ends]
    (folder / name).write_text(json.dumps(rows))
    return folder / name


def episode_file(folder: Path, count: int = 3, **changes: Any) -> Path:
    """Write episodes in that room, with changes to the last one."""
    hall = vector_map(folder)
    (folder / "sets").mkdir()
    file = make_episodes(str(hall), 4, count, folder / "sets")
    table = json.loads(file.read_text())
    table["episodes"][-1].update(changes)
    file.write_text(json.dumps(table))
    return file


def test_nothing_is_all_committed_sets() -> None:
    sources = find_sets([], None, 1, BODY)
    assert {source.name: source.count for source in sources} == {plan.map_name: plan.count for plan in COMMITTED}


def test_a_slow_robot_gets_more_time_in_its_own_maps_only(tmp_path: Path) -> None:
    hall = str(vector_map(tmp_path))
    usual, longer = (find_sets([hall], 2, 1, BODY, furniture=0.0, limit_s=limit_s)[0] for limit_s in (None, 333.0))
    assert (usual.limit_s, longer.limit_s) == (100.0, 333.0)
    assert longer.identity == [*usual.identity, {"limit_s": 333.0}]
    with pytest.raises(InputError, match="--limit 333: willow has its own episodes, with their time limit"):
        find_sets(["willow"], None, 1, BODY, limit_s=333.0)


def test_so_many_of_each_are_spread_over_the_set() -> None:
    sources = find_sets(["willow", "depot"], 4, 1, BODY)
    assert [(source.name, source.count) for source in sources] == [("willow", 4), ("depot", 4)]
    for source in sources:
        whole = find_sets([source.name], None, 1, BODY)[0].indices
        assert whole == list(range(len(whole)))
        assert source.indices == [number * len(whole) // 4 for number in range(4)]


def test_a_map_without_episodes_gets_some_by_seed(tmp_path: Path) -> None:
    hall = vector_map(tmp_path)
    one, again, other = (find_sets([str(hall)], 3, seed, BODY)[0] for seed in (1, 1, 2))
    assert one == again != other
    known = load_set(one)
    assert (len(known.episodes), known.split or OWN_SPLIT) == (3, OWN_SPLIT)
    assert find_sets([str(hall)], None, 1, BODY)[0].count == DRAWN


def test_an_episode_file_and_its_world(tmp_path: Path) -> None:
    (source,) = find_sets([str(episode_file(tmp_path))], None, 1, BODY)
    known = load_set(source)
    assert (source.name, source.count, len(known.episodes)) == ("hall", 3, 3)


def test_a_folder_means_its_files(tmp_path: Path) -> None:
    vector_map(tmp_path, "b.json")
    vector_map(tmp_path, "a.json")
    (tmp_path / "notes.txt").touch()
    assert [source.name for source in find_sets([str(tmp_path)], 1, 1, BODY)] == ["a", "b"]


def test_rearranged_furniture_is_elsewhere_in_the_same_walls(tmp_path: Path) -> None:
    (source,) = find_sets([str(episode_file(tmp_path))], None, 1, BODY)
    known = load_set(source)
    other = rearranged(source, known)
    before, after = ((world.low_m <= 2.4) & (world.high_m >= 2.4) for world in (known.world, other))
    np.testing.assert_array_equal(before.any(axis=2), after.any(axis=2))  # nothing but walls is so high
    assert not np.array_equal(known.world.gap, other.gap)


def test_a_file_that_changes_under_way_is_noticed(tmp_path: Path) -> None:
    file = episode_file(tmp_path)
    (source,) = find_sets([str(file)], None, 1, BODY)
    file.write_text(file.read_text() + "\n")
    with pytest.raises(InputError, match="has changed"):
        load_set(source)


#   what                         changes of the last episode          said
UNREACHABLE = [
    ("goal outside", {"goal_x_y": [500.0, 3.0]}, "episode 2: .*does not fit at \\(500.00, 3.00\\)"),
    ("goal beyond the wall", {"goal_x_y": [-1.0, 3.5]}, "episode 2: there is no path"),
    ("start in the wall", {"start_x_y_yaw": [0.0, 3.5, 0.0]}, "episode 2: .*does not fit"),
    ("goal is no number", {"goal_x_y": [float("nan"), 3.5]}, "finite"),
    ("no length", {"geodesic_m": 0.0}, "geodesic_m 0.0 must be positive"),
]


@pytest.mark.parametrize(("what", "changes", "expected"), UNREACHABLE, ids=[one[0] for one in UNREACHABLE])
def test_what_cannot_be_reached_is_refused(tmp_path: Path, what: str, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        find_sets([str(episode_file(tmp_path, **changes))], None, 1, BODY)


#   what                 text of the file      said
BAD_FILES = [
    ("no episodes", '{"episodes": []}', "holds no episodes"),
    ("not JSON", "{", "not valid JSON"),
    ("empty map", "[]", "at least one segment"),
    ("not text", "\udcff\udcfe", "not valid JSON: 'utf-8' codec can't decode"),
]


@pytest.mark.parametrize(("what", "text", "expected"), BAD_FILES, ids=[bad_file[0] for bad_file in BAD_FILES])
def test_bad_files(tmp_path: Path, what: str, text: str, expected: str) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=expected):
        find_sets([str(tmp_path / "bad.json")], None, 1, BODY)


@pytest.mark.parametrize(
    ("places", "episodes", "expected"),
    [
        (["gdc1"], 0, "--episodes 0"),
        (["gdc1"], 26, "gdc1 has 25"),
        (["nowhere"], None, "no such file or folder"),
        (["nowhere.json"], None, "cannot be read"),
        (["gdc1", "gdc1"], None, "is already selected"),
    ],
)
def test_bad_options(places: list[str], episodes: int | None, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        find_sets(places, episodes, 1, BODY)
