"""Files that a recipe or a call names: where they lie, and what is in them and in those that they name in turn.

A training is told apart by the content of its files. What ships with the package is meant by its name alone.
"""

from __future__ import annotations

from pathlib import Path

from hil.maps.load import files_of
from onboard.config.config import DEFAULT_ROBOT, load_config, model_path
from onboard.policy.manifest import sha256_of
from onboard.values.errors import InputError


def from_folder(place: object, folder: Path) -> object:
    """Return a file's path as seen from a folder; the name of a shipped map, and what is no path, as it is."""
    return str(folder / place) if isinstance(place, str) and Path(place).suffix else place


def map_content(place: str) -> str:
    """Return the name of a shipped map, or a digest of a map's file and of those that it names.

    Raises ConfigError for a file that cannot be read.
    """
    file = Path(place)
    return _digest(*files_of(file)) if file.suffix else place


def robot_content(file: Path | None) -> str | None:
    """Return a digest of an onboard.toml, and of the mounts and the plant that it names; None of none.

    Raises ConfigError for a file that cannot be read or that is none.
    """
    if file is None:
        return None
    robot = load_config(file).robot
    return _digest(file, *(one for one in (robot.mounts, robot.plant) if one.parent != DEFAULT_ROBOT))


def file_content(file: Path | None) -> str | None:
    """Return a digest of a file, None of none. Raises ConfigError when it cannot be read."""
    return None if file is None else sha256_of(file)


def encoder_file(given: str | None) -> Path | None:
    """Return the file of `--encoder`: a path, or that of a policy that ships, by name; None of none.

    Raises InputError where there is none.
    """
    if given is None:
        return None
    file = model_path(given)
    if not file.is_file():
        raise InputError(f"--encoder {given}: no such file")
    return file


def _digest(*files: Path) -> str:
    return "-".join(sha256_of(file) for file in files)
