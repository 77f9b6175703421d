"""Files named by a recipe or a command: their paths, and digests of their content.

The content of its files identifies a training. Files that ship with the package count by name.
"""

from __future__ import annotations

from pathlib import Path

from hil.maps.load import files_of
from hil.maps.made_floor import GENERATOR, is_made
from onboard.config.config import DEFAULT_ROBOT, load_config
from onboard.policy.manifest import sha256_of


def from_folder(place: object, folder: Path) -> object:
    """Return a path resolved from a folder; other values, such as a shipped map's name, as they are."""
    return str(folder / place) if isinstance(place, str) and Path(place).suffix else place


def map_content(place: str) -> str:
    """Return a shipped map's name, a made floor's with its generator, or a digest of a map's file and what it names.

    Raises ConfigError for a file that cannot be read.
    """
    file = Path(place)
    if is_made(place):
        return f"{place}, generator {GENERATOR}"
    return _digest(*files_of(file)) if file.suffix else place


def robot_content(file: Path | None) -> str | None:
    """Return a digest of an onboard.toml with its mounts and plant; None for None.

    Raises ConfigError for a file that cannot be read or is not valid.
    """
    if file is None:
        return None
    robot = load_config(file).robot
    return _digest(file, *(one for one in (robot.mounts, robot.plant) if one.parent != DEFAULT_ROBOT))


def file_content(file: Path | None) -> str | None:
    """Return a digest of a file; None for None. Raises ConfigError if it cannot be read."""
    return None if file is None else sha256_of(file)


def _digest(*files: Path) -> str:
    return "-".join(sha256_of(file) for file in files)
