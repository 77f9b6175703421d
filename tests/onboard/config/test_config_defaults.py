"""An empty configuration file equals no file: for each key, and for the robot."""

from __future__ import annotations

from pathlib import Path

from onboard.config.config import DEFAULT_ROBOT, Config, load_config


def test_a_file_that_says_nothing_is_the_default_robot(tmp_path: Path) -> None:
    empty = tmp_path / "onboard.toml"
    empty.write_text("")
    loaded, default = (load_config(file).model_dump() for file in (empty, DEFAULT_ROBOT / "onboard.toml"))
    assert loaded == default
    assert Config().model_dump() == default


def test_a_file_that_names_one_key_changes_that_key_alone(tmp_path: Path) -> None:
    file = tmp_path / "onboard.toml"
    file.write_text("[robot]\nheight_m = 0.5\n")
    loaded, default = load_config(file).model_dump(), Config().model_dump()
    assert loaded["robot"].pop("height_m") == 0.5
    del default["robot"]["height_m"]
    assert loaded == default


def test_the_default_robot_drives_by_the_rule_and_looks_for_stairs() -> None:
    assert Config().policy.model == "reactive"
    assert Config().scan.drop_m > 0.0
