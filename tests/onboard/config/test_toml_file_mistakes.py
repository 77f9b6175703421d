"""A file's mistakes are named at once, each in a line with file, key, value, limit and the nearest known key."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboard import __version__
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.config.toml_file import MOST_MISTAKES
from onboard.values.errors import ConfigError

#   text of the file                              lines behind the file's name
OTHER = f"onboard {__version__} has no such key: was the file written for another version?"
FILES = [
    ("[robot]\nfootprint_radius = 1\n", ["unknown key robot.footprint_radius; did you mean robot.footprint_radius_m?"]),
    ("[rate]\ncontrol_hz = 20\n", ["unknown key rate; did you mean rates?"]),
    ("footprint_radius_m = 0.3\n", ["unknown key footprint_radius_m; did you mean robot.footprint_radius_m?"]),
    ("[robot]\ndrop_m = 0.1\n", ["unknown key robot.drop_m; did you mean scan.drop_m?"]),
    ("[limits_scan]\ntopics = 3\n", ["unknown key limits_scan.topics; did you mean limits_scan.topic?"]),
    ("[robot]\nzzz = 1\n", [f"unknown key robot.zzz; {OTHER}"]),
    ('"a\\nb" = 1\n', [f"unknown key 'a\\nb'; {OTHER}"]),
    (
        "[rates]\ncontrol_hz = 5\nspeed = 1\n[limits]\ncreep_mps = 2\n",
        [
            "rates.control_hz: Input should be greater than or equal to 10 (is 5)",
            "unknown key rates.speed; did you mean zones.speed?",
            "limits.creep_mps: Input should be less than or equal to 0.3 (is 2)",
        ],
    ),
]


@pytest.mark.parametrize(("text", "lines"), FILES)
def test_all_mistakes_of_a_file_are_named(text: str, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "onboard.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).splitlines() == [f"{path}: {line}" for line in lines]


def test_the_nearest_key_of_a_camera_is_of_the_camera(tmp_path: Path) -> None:
    path = tmp_path / "mounts.toml"
    path.write_text("[cameras.front]\nlook_degrees = [0, 0, 0]\n")
    with pytest.raises(ConfigError) as caught:
        load_mounts(path)
    assert f"{path}: unknown key cameras.front.look_degrees; did you mean cameras.front.look_deg?" in str(caught.value)


def test_a_file_of_nothing_but_mistakes_ends_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "onboard.toml"
    path.write_text("".join(f"q{number} = 1\n" for number in range(1000)))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    *named, last = str(caught.value).splitlines()
    assert len(named) == MOST_MISTAKES
    assert last == f"{path}: {1000 - MOST_MISTAKES} more mistakes"
