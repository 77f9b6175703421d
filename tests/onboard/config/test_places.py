"""Named places: their file, and what is wrong in it."""

from __future__ import annotations

import math
import unicodedata
from pathlib import Path

import pytest

from onboard.config.config import Config, MapSection
from onboard.config.places import MOST_LETTERS, add_place, load_places, place_of, places_file
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose


def test_places_are_added_and_found_by_name(tmp_path: Path) -> None:
    config = Config(map=MapSection(file=tmp_path / "map.yaml"))
    file = places_file(config)
    assert load_places(file) == {}
    add_place(file, "kitchen", Pose(1.0, -2.0, math.pi / 2))
    add_place(file, "lab-2", Pose(3.0, 4.0, 0.0))
    assert list(load_places(file)) == ["kitchen", "lab-2"]
    assert place_of(config, "kitchen").pose.y_m == -2.0
    assert place_of(config, "kitchen").yaw_deg == 90.0


NAMES = ["Küche", "Ku\u0308che", "会議室-2", "Ξενών_1", "รับแขก", "a" * MOST_LETTERS]
NO_NAMES = [
    "",
    " ",
    "9to5",
    "-a",
    "two words",
    "a/b",
    "../a",
    "a.b",
    'a"b',
    "a\nb",
    "🤖",
    "a🤖",
    "\ud800",
    "a" * (MOST_LETTERS + 1),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_of_the_letters_of_any_language(tmp_path: Path, name: str) -> None:
    config = Config(map=MapSection(file=tmp_path / "map.yaml"))
    add_place(places_file(config), name, Pose(1.0, 2.0, 0.0))
    add_place(places_file(config), "b", Pose(3.0, 2.0, 0.0))
    assert place_of(config, name).x_m == 1.0
    assert list(load_places(places_file(config))) == [unicodedata.normalize("NFC", name), "b"]


@pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))
def test_what_is_no_name_is_refused_by_one_rule(tmp_path: Path, name: str) -> None:
    with pytest.raises(OnboardError, match="is not a name for a place: at most 40 letters"):
        add_place(tmp_path / "places.toml", name, Pose(0.0, 0.0, 0.0))
    assert not (tmp_path / "places.toml").exists()


#   file                                     name        its line
BAD = [
    ("", "nowhere", "there is no place nowhere; known places: none yet"),
    ("[a]\nx_m = 1\ny_m = 2\n[a]\nx_m = 1\ny_m = 2\n", "a", "not valid TOML"),
    ("[a]\nx_m = 1\n", "a", r"a: y_m"),
    ("[a]\nx_m = nan\ny_m = 2\n", "a", r"a: x_m"),
    ("[a]\nx_m = 1\ny_m = 2\nz = 3\n", "a", r"z"),
]


@pytest.mark.parametrize(("text", "name", "line"), BAD)
def test_a_bad_place_is_one_line(tmp_path: Path, text: str, name: str, line: str) -> None:
    config = Config(map=MapSection(file=tmp_path / "map.yaml"))
    if text:
        places_file(config).write_text(text)
    with pytest.raises(OnboardError, match=line):
        place_of(config, name)


def test_a_name_twice_or_no_map_is_refused(tmp_path: Path) -> None:
    add_place(tmp_path / "places.toml", "a", Pose(0.0, 0.0, 0.0))
    with pytest.raises(OnboardError, match="place a already exists"):
        add_place(tmp_path / "places.toml", "a", Pose(0.0, 0.0, 0.0))
    with pytest.raises(OnboardError, match=r"map\.file: places need the map"):
        places_file(Config())
