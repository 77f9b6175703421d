"""Configuration of a training (`engines/train/*.toml`), checked at load; unknown keys are refused."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from engines.cli_options import MOST_SEED
from engines.encoder.config import EncoderSection, paths_from
from engines.network.network import COMPACT, PAPER, TINY, GoalFrom, Variant, Widths
from engines.runs.input_files import file_content, from_folder, map_content, robot_content
from engines.train.batched.config import UNTOLD, BatchedSection, TeacherSection
from engines.train.ppo_config import MOST_COLLECTORS, ReinforceSection
from engines.train.rollout.collector import DrivingSection, Rules
from engines.train.rollout.domain_randomization import DomainSection
from engines.train.rollout.optimizer_step import Precision
from engines.train.rollout.places import PlacesSection
from hil.drive.setting import Setting
from hil.evaluate.episode import robot_files
from hil.maps.world_grid import world_of_walls
from onboard import __version__
from onboard.config.config import Config, RatesSection, load_config
from onboard.config.toml_file import Fraction, Positive, PositiveFraction, Section, read_toml, validation_lines
from onboard.values.errors import ConfigError, InputError
from onboard.values.geometry import IDENTITY

SIZES: dict[str, Widths] = {
    "paper": PAPER,
    "small": replace(PAPER, memory_layers=1, memory=512),
    "compact": COMPACT,
    "tiny": TINY,
}


class NetworkSection(Section):
    """The network.

    size: "small" has one memory layer of 512 instead of the paper's two of 1024, for comparisons; "compact" also has
          smaller encoders, for robots without a GPU
    """

    size: Literal["paper", "small", "compact", "tiny"] = "paper"
    rgb: bool = True
    scan: bool = True
    loc: bool = True
    goal_from: GoalFrom = "pose"
    auxiliary: bool = True

    @property
    def widths(self) -> Widths:
        """Return the sizes."""
        return SIZES[self.size]

    @property
    def variant(self) -> Variant:
        """Return the inputs."""
        return Variant(self.rgb, self.scan, self.loc, self.goal_from, self.auxiliary)


class RobotFilesSection(Section):
    """The robot: an onboard.toml (None: the default robot), and a plant that replaces the plant of that file."""

    config: Path | None = None
    plant: Path | None = None


class ImitationSection(Section):
    """Imitation of the expert.

    chapters, rounds: a chapter has newly furnished buildings and ends with a checkpoint
    updates:          updates in a round
    batch:            least decisions in an update
    precision:        of matrix products in an update, on a CPU (`optimizer_step.py`)
    fresh:            share of a batch from the newest round, the rest from the chapter so far
    rate, warm_up:    largest learning rate, with a cosine decay to a twentieth, and updates until it is reached
    auxiliary:        weight of the goal compass' error
    colour:           share of drives with rendered images in the last `coloured` part of the chapters; with fewer than
                      1 / `coloured` chapters no chapter has images, and no encoder is trained
    collectors:       processes that drive; 0 drives in the trainer's process
    within_s:         end within about this time [s], by the clock of one call: the learning rate then falls with the
                      time, and the last chapter ends early. Such a training cannot be made again exactly
    validate_drives:  drives of the validation after a chapter, with images in the same share as in training
    """

    chapters: int = Field(24, ge=1)
    rounds: int = Field(32, ge=1)
    updates: int = Field(9, ge=1)
    batch: int = Field(256, ge=1)
    precision: Precision = "float32"
    fresh: Fraction = 0.5
    rate: PositiveFraction = 6e-4
    warm_up: int = Field(100, ge=0)
    clip: Positive = 1.0
    auxiliary: float = Field(0.5, ge=0.0)
    colour: Fraction = 0.1
    coloured: Fraction = 0.3
    collectors: int = Field(1, ge=0, le=MOST_COLLECTORS)
    within_s: Positive | None = None
    validate_drives: int = Field(48, ge=0)


class TrainConfig(Section):
    """One training.

    batched: trains in the batched world (None: encoder, imitation and reinforcement)
    """

    name: str = Field("onboard", min_length=1)
    seed: int = Field(0, ge=0, le=MOST_SEED)
    robot: RobotFilesSection = RobotFilesSection()
    network: NetworkSection = NetworkSection()
    places: PlacesSection = PlacesSection()
    domain: DomainSection = DomainSection()
    driving: DrivingSection = DrivingSection()
    encoder: EncoderSection = EncoderSection()
    imitation: ImitationSection = ImitationSection()
    reinforce: ReinforceSection = ReinforceSection()
    batched: BatchedSection | None = None

    _digests: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _fits_batched(self) -> TrainConfig:
        if self.batched is None:
            return self
        unused = [f"[{name}]" for name in STAGED if name in self.model_fields_set]
        unused += [f"driving.{key}" for key in sorted(self.driving.model_fields_set - BATCHED_DRIVING)]
        unused += [f"domain.{key}" for key in sorted(self.domain.model_fields_set & BATCHED_WITHOUT)]
        if unused:
            raise ValueError(f"{unused[0]} is not used with [batched]: omit it")
        if self.domain.limits < 1.0:
            raise ValueError(f"domain.limits: must be 1 with [batched] (is {self.domain.limits:g})")
        return self

    @property
    def first_coloured(self) -> int | None:
        """Return the first chapter of the imitation with rendered images, None without such a chapter.

        With None, no encoder is trained, and the reinforcement has no images either.
        """
        section = self.imitation
        first = math.ceil(section.chapters * (1.0 - section.coloured))
        sees = self.network.rgb and section.colour > 0.0 and first < section.chapters
        return first if sees else None

    def digest(self, stage: str) -> str:
        """Return a digest of everything that a stage's checkpoint depends on. It identifies the training.

        Files count by their content at the first call, which a training makes when it reads them.
        Raises ConfigError for a file that cannot be read.
        """
        if stage not in self._digests:
            self._digests[stage] = self._digest(stage)
        return self._digests[stage]

    def _digest(self, stage: str) -> str:
        tables = self.model_dump(mode="json", include=set(BATCHED if stage == "batched" else DEPENDS[stage]))
        for key in UNTOLD if "batched" in tables else ():
            del tables["batched"][key]
        for table in tables.values():
            for key, default in NEWER:
                if isinstance(table, dict) and key in table and table[key] == default:
                    del table[key]  # keeps the digests of older trainings
        # Files count by content, not by path.
        tables["robot"] = {"config": robot_content(self.robot.config), "plant": file_content(self.robot.plant)}
        tables["places"]["maps"] = [map_content(place) for place in self.places.maps]
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


STAGED = ("network", "encoder", "imitation", "reinforce")
BATCHED_DRIVING = {"max_s", "stuck_s"}
BATCHED_WITHOUT = {"late_localization", "camera_gone", "pedestrians"}
"""Tables that `[batched]` replaces, keys of `[driving]` that it uses, and keys of `[domain]` that it does not use."""
DRIVES = ("seed", "robot", "network", "places", "domain", "driving")
DEPENDS: dict[str, tuple[str, ...]] = {
    "imitation": (*DRIVES, "imitation"),
    "reinforce": (*DRIVES, "imitation", "reinforce"),
}
BATCHED = ("seed", "robot", "places", "domain", "driving", "batched")
"""Tables that a stage depends on, and the batched world's training. Files of earlier stages have their own digests."""
NEWER: tuple[tuple[str, Any], ...] = (
    ("precision", "float32"), ("buildings", None), ("within_s", None), ("detour_ratio", None),
    ("critic_first", 0), ("bf16", False), ("mirrored", False), ("teacher", TeacherSection().model_dump(mode="json")),
)  # fmt: skip
"""Keys that came after the first trainings, each with the value that changes nothing."""


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
    robot, places, encoder = (table.get(name) for name in ("robot", "places", "encoder"))
    if isinstance(robot, dict):
        robot.update({name: str(folder / path) for name, path in robot.items() if isinstance(path, str)})
    if isinstance(places, dict) and isinstance(places.get("maps"), list):
        places["maps"] = [from_folder(place, folder) for place in places["maps"]]
    if isinstance(encoder, dict):
        paths_from(encoder, folder)


def rules_of(config: TrainConfig, colour: float = 0.0) -> Rules:
    """Return the settings of the collectors. Raises ConfigError for the robot's files."""
    robot = Config() if config.robot.config is None else load_config(config.robot.config)
    if config.robot.plant is not None:
        section = robot.robot.model_copy(update={"plant": config.robot.plant})
        robot = robot.model_copy(update={"robot": section})
    files = robot_files(robot)
    setting = Setting(_NOWHERE, files.plant, files.body, files.mounts, files.config)
    return Rules(config.places, config.domain, config.driving, colour, setting)


def described(
    config: TrainConfig,
    stages: Sequence[str] = ("imitation",),
    init: str | None = None,
    began: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the description of a training for a manifest and a model card.

    stages: stages of the result, in order; the digest is of the last stage
    init:   the initial policy; began: the description of its training, if known
    Raises ConfigError for the robot's files.
    """
    rates = rules_of(config).robot.config.rates
    excluded: dict[str, Any] = {"encoder": {"views": {"mounts"}} if "encoder" in stages else True}
    excluded |= {"batched": True} if config.batched is None else _unused_by_batched()
    stated = config.model_dump(mode="json", exclude=excluded)
    for table in stated.values():
        for key, default in NEWER:
            if key != "precision" and isinstance(table, dict) and key in table and table[key] == default:
                del table[key]  # as in the manifests of older trainings, which state the precision
    return {
        "policy": config.name,
        "onboard": __version__,
        "seed": config.seed,
        "init": init,
        **({"began": dict(began)} if began else {}),
        "stages": list(stages),
        "digest": config.digest(stages[-1]),
        "training_delay_ticks": _delay_ticks(config.domain, rates),
        "control_hz": rates.control_hz,
        "decision_hz": rates.control_hz / rates.ticks_per_decision,
        "memory_reset_s": config.driving.memory_reset_s if config.batched is None else None,
        "config": stated,
    }


def _unused_by_batched() -> dict[str, Any]:
    """Return the tables and keys of a recipe that a training in the batched world does not use."""
    driving = {*DrivingSection.model_fields} - BATCHED_DRIVING
    return {**dict.fromkeys(STAGED, True), "driving": driving, "domain": BATCHED_WITHOUT}


def _delay_ticks(domain: DomainSection, rates: RatesSection) -> int:
    """Return the robot's delay if the training drew it, else the middle of the drawn delays."""
    least, most = domain.delay_ticks
    return rates.delay_ticks if least <= rates.delay_ticks <= most else (least + most) // 2


_NOWHERE = world_of_walls("nowhere", 1.0, IDENTITY, np.ones((1, 1), np.bool_))
"""Placeholder until a building is furnished."""
