"""Configuration of a training (`engines/train/*.toml`), checked at load; unknown keys are refused.

The content of its files identifies a training. Files that ship with the package count by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr, ValidationError

from engines.cli_options import MOST_SEED
from engines.train.batched.config import UNTOLD, BatchedSection
from engines.train.drives.domain import DomainSection, DrivingSection, Rules
from engines.train.drives.places import PlacesSection
from hil.drive.setting import Setting
from hil.evaluate.episode import robot_files
from hil.maps.load import files_of
from hil.maps.made_floor import GENERATOR, is_made
from hil.maps.world_grid import world_of_walls
from onboard import __version__
from onboard.config.config import DEFAULT_ROBOT, Config, RatesSection, load_config
from onboard.config.toml_file import Section, read_toml, validation_lines
from onboard.policy.manifest import sha256_of
from onboard.values.errors import ConfigError, InputError
from onboard.values.geometry import IDENTITY


class RobotFilesSection(Section):
    """The robot: an onboard.toml (None: the default robot), and a plant that replaces the plant of that file."""

    config: Path | None = None
    plant: Path | None = None


class TrainConfig(Section):
    """One training."""

    name: str = Field("onboard", min_length=1)
    seed: int = Field(0, ge=0, le=MOST_SEED)
    robot: RobotFilesSection = RobotFilesSection()
    places: PlacesSection = PlacesSection()
    domain: DomainSection = DomainSection()
    driving: DrivingSection = DrivingSection()
    batched: BatchedSection = BatchedSection()

    _digests: list[str] = PrivateAttr(default_factory=list)

    def digest(self) -> str:
        """Return a digest of everything that the checkpoint depends on. It identifies the training.

        Files count by their content at the first call, which a training makes when it reads them.
        Raises ConfigError for a file that cannot be read.
        """
        if not self._digests:
            self._digests.append(self._digest())
        return self._digests[0]

    def _digest(self) -> str:
        tables = self.model_dump(mode="json", exclude={"name": True, "batched": set(UNTOLD)})
        # Files count by content, not by path.
        tables["robot"] = {"config": robot_content(self.robot.config), "plant": file_content(self.robot.plant)}
        tables["places"]["maps"] = [map_content(place) for place in self.places.maps]
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def load_train_config(
    path: Path, changes: dict[str, object] | None = None, options: Mapping[str, str] | None = None
) -> TrainConfig:
    """Return the configuration in a file, with changes by "table.key".

    options: the command's option that gave each change, by key, for messages
    Relative paths in the file start at its folder, relative paths of changes at the working directory.
    Raises ConfigError naming file or options, field and limit.
    """
    options = options or {}
    table = read_toml(path)
    _from_folder(table, path.parent)
    for key, value in (changes or {}).items():
        *tables, last = key.split(".")
        inner = table
        for name in tables:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{options.get(key, key)}: {name} is a value, not a table")
        inner[last] = value
    try:
        return TrainConfig.model_validate(table)
    except ValidationError as error:
        raise ConfigError(_complaint(path, options, error)) from error
    except InputError as error:
        raise ConfigError(f"{path}: {error}") from error


def _complaint(path: Path, options: Mapping[str, str], error: ValidationError) -> str:
    """Return a line for each of pydantic's errors: the options that gave the field, or else the file, and the limit.

    An error about a table names all options for it.
    """
    lines = validation_lines(path, error).splitlines()
    fields = [[str(part) for part in one["loc"]] for one in error.errors()]
    return "\n".join(_by_options(path, options, *one) for one in zip(fields, lines, strict=False))


def _by_options(path: Path, options: Mapping[str, str], field: list[str], text: str) -> str:
    given = [key for key in options if all(part == other for part, other in zip(key.split("."), field, strict=False))]
    if not field or not given:
        return text
    text, source = text.removeprefix(f"{path}: "), ", ".join(options[key] for key in given)
    return f"{source}: {text.removeprefix('.'.join(field) + ': ') if given == ['.'.join(field)] else text}"


def _from_folder(table: dict[str, Any], folder: Path) -> None:
    """Resolve the paths in a file's tables from its folder. Values of a wrong type stay, and fail at validation."""
    robot, places = (table.get(name) for name in ("robot", "places"))
    if isinstance(robot, dict):
        robot.update({name: str(folder / path) for name, path in robot.items() if isinstance(path, str)})
    if isinstance(places, dict) and isinstance(places.get("maps"), list):
        places["maps"] = [from_folder(place, folder) for place in places["maps"]]


def rules_of(config: TrainConfig) -> Rules:
    """Return the settings of all drives. Raises ConfigError for the robot's files."""
    robot = Config() if config.robot.config is None else load_config(config.robot.config)
    if config.robot.plant is not None:
        section = robot.robot.model_copy(update={"plant": config.robot.plant})
        robot = robot.model_copy(update={"robot": section})
    files = robot_files(robot)
    setting = Setting(_NOWHERE, files.plant, files.body, files.mounts, files.config)
    return Rules(config.places, config.domain, config.driving, setting)


def described(config: TrainConfig, init: str | None = None, began: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the description of a training for a manifest and a model card.

    init: the initial policy; began: the description of its training, if known
    Raises ConfigError for the robot's files.
    """
    rates = rules_of(config).robot.config.rates
    return {
        "policy": config.name,
        "onboard": __version__,
        "seed": config.seed,
        "init": init,
        **({"began": dict(began)} if began else {}),
        "stages": ["batched"],
        "digest": config.digest(),
        "training_delay_ticks": _delay_ticks(config.domain, rates),
        "control_hz": rates.control_hz,
        "decision_hz": rates.control_hz / rates.ticks_per_decision,
        "memory_reset_s": None,
        "config": config.model_dump(mode="json"),
    }


def _delay_ticks(domain: DomainSection, rates: RatesSection) -> int:
    """Return the robot's delay if the training drew it, else the middle of the drawn delays."""
    least, most = domain.delay_ticks
    return rates.delay_ticks if least <= rates.delay_ticks <= most else (least + most) // 2


_NOWHERE = world_of_walls("nowhere", 1.0, IDENTITY, np.ones((1, 1), np.bool_))
"""Placeholder until a building is furnished."""


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
