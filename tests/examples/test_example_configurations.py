"""The configurations in examples/ are valid, and state only what differs from the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboard.config.config import Config, load_config
from onboard.config.toml_file import read_toml

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.toml"))


def test_there_are_some() -> None:
    assert [file.name for file in FILES] == ["former.toml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_key_differs_from_its_default(file: Path) -> None:
    config, usual = load_config(file), Config()
    for name, table in read_toml(file).items():
        for key, value in table.items():
            assert getattr(getattr(config, name), key) == value != getattr(getattr(usual, name), key), f"{name}.{key}"
