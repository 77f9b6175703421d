"""Conditions by name under which a policy is judged: conditions.toml, one row each. What a row means for a drive."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.odometry_noise import DECISION_S, FIX_PERIOD_S, FIX_SD, PRINTED_FIX_SD
from hil.scene.crowd_file import MOST_CHARACTERS
from onboard.config.config import Config, RatesSection, ScanSection
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Axis, Plant
from onboard.config.toml_file import NonNegative, Positive, Section, read_toml, validation_line
from onboard.values.errors import ConfigError, InputError

CONDITIONS_FILE = Path(__file__).parent / "conditions.toml"
ORDINARY = "robot"
"""The condition of a robot as it is, in which `evaluate` drives unless it is told another one."""
HEADLINE = "paper"
"""The condition in which a policy's figures are quoted."""
ALL = "all"
FIX_SDS = {"sd": FIX_SD, "variance": PRINTED_FIX_SD}
"""How the paper's diagonal (0.03, 0.03, 0.05) is read, and what a fix scatters by then."""
SCALED = ("f_up", "f_down", "acceleration_max")
"""Of a plant's axis, what `plant_scale` multiplies."""
LONGEST_DELAY_S = 2.0
"""A goal in the map is given 2.5 s after the robot was switched on; a fix must have come by then."""


class Condition(Section):
    """One row. Everything has the default of an ordinary simulated robot.

    what:            the condition in words
    base:            another row, whose values hold where this one says nothing
    drift_scale:     times the paper's odometry drift [1]
    localization:    whether there is an external localisation
    fix_noise:       "sd" or "variance": how the paper's localisation noise is read, see `FIX_SDS`; the robot is
                     configured for what it is
    fix_every_steps: least and largest time between fixes, uniform [decision steps of 1/3 s]
    fix_delay_s:     by so much a fix comes after it was taken [s]
    cameras_gone:    depth cameras that are not there: their sectors are blind
    plant_scale:     times the believed frequencies and accelerations of both axes [1]
    delay_ticks:     from an observation to its action [control ticks of 1/30 s]
    depth_noise:     whether scans are as noisy as those of real depth cameras
    pedestrians:     people who walk about
    blocked_s:       how long a door on the shortest way is closed when the robot comes [s], see `blockings`; 0 is no
                     door, and where no door would be in the way there is none
    memory_reset_s:  how often the runtime resets a policy's memory by the clock [s], or "never"; a recovery, which
                     there is only with the limits, clears it whatever this says
    limits:          whether the last word over commands and the recovery are in force
    """

    model_config = ConfigDict(strict=True)

    what: Annotated[str, Field(min_length=1)]
    base: str = ""
    drift_scale: NonNegative = 1.0
    localization: bool = True
    fix_noise: Literal["sd", "variance"] = "sd"
    fix_every_steps: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    fix_delay_s: Annotated[float, Field(ge=0.0, le=LONGEST_DELAY_S)] = 0.0
    cameras_gone: list[str] = Field(default_factory=list)
    plant_scale: Positive = 1.0
    delay_ticks: Annotated[int, Field(ge=1)] | None = None
    depth_noise: bool = False
    pedestrians: Annotated[int, Field(ge=0, le=MOST_CHARACTERS)] = 0
    blocked_s: NonNegative = 0.0
    memory_reset_s: Positive | Literal["never"] | None = None
    limits: bool = True

    def senses(self, ordinary: Senses) -> Senses:
        """Return how well wheels and localisation work."""
        steps = self.fix_every_steps
        return replace(
            ordinary,
            drift_scale=self.drift_scale,
            localization=self.localization,
            fix_sd=FIX_SDS[self.fix_noise],
            fix_period_s=FIX_PERIOD_S if steps is None else (steps[0] * DECISION_S, steps[1] * DECISION_S),
            fix_delay_s=self.fix_delay_s,
            depth_noise=ordinary.depth_noise or self.depth_noise,
        )

    def resets_every_s(self, ordinary_s: float | None) -> float | None:
        """Return how often the memory of a policy is reset, which has it so itself; None is never."""
        if self.memory_reset_s is None:
            return ordinary_s
        return None if self.memory_reset_s == "never" else self.memory_reset_s

    def of(self, setting: Setting) -> Setting:
        """Return a setting under this condition; who walks about is left to who knows the episode.

        Raises InputError where the robot has no such camera, or would have none left, or cannot have such a delay.
        """
        true_plant = scaled_plant(setting.plant, self.plant_scale) if self.plant_scale != 1.0 else None
        return replace(
            self.robot_of(setting),
            true_plant=true_plant,
            senses=self.senses(setting.senses),
            limits=setting.limits and self.limits,
        )

    def robot_of(self, setting: Setting) -> Setting:
        """Return a setting with the mounts and the configuration of this condition alone. Raises InputError as `of`."""
        return replace(setting, mounts=self._mounts(setting.mounts), config=self._config(setting.config))

    def check(self, mounts: Mounts, config: Config) -> None:
        """Raise InputError where `of` would, for a robot with these files."""
        self._mounts(mounts)
        self._config(config)

    def _mounts(self, mounts: Mounts) -> Mounts:
        for name in self.cameras_gone:
            if name not in mounts.depth:
                raise InputError(
                    f"cameras_gone: {mounts.path} has no depth camera {name}, only {', '.join(mounts.depth)}"
                )
        left = {name: mount for name, mount in mounts.depth.items() if name not in self.cameras_gone}
        if not left:
            raise InputError(f"cameras_gone: no depth camera is left of {', '.join(mounts.depth)}")
        return replace(mounts, depth=left) if self.cameras_gone else mounts

    def _config(self, config: Config) -> Config:
        changes: dict[str, Section] = {}
        if self.delay_ticks is not None:
            changes["rates"] = self._rates(config.rates)
        if self.cameras_gone:
            for name in ("scan", "limits_scan"):
                section = getattr(config, name)
                if section is not None and section.cameras:
                    changes[name] = self._scan(name, section)
        if self.fix_noise != "sd":  # who runs a localisation knows how well it works
            changes["odometry"] = config.odometry.model_copy(update={"localization_sd": FIX_SDS[self.fix_noise]})
        return config.model_copy(update=changes) if changes else config

    def _rates(self, rates: RatesSection) -> RatesSection:
        try:
            return RatesSection.model_validate({**rates.model_dump(), "delay_ticks": self.delay_ticks})
        except ValidationError as error:
            raise InputError(f"delay_ticks: {error.errors()[0]['msg']}") from error

    def _scan(self, name: str, section: ScanSection) -> ScanSection:
        left = [camera for camera in section.cameras if camera not in self.cameras_gone]
        if not left:  # a list without names means all of them
            raise InputError(f"cameras_gone: {name}.cameras has none but {', '.join(section.cameras)}")
        return section.model_copy(update={"cameras": left})


def without_cameras(setting: Setting, names: Sequence[str]) -> Setting:
    """Return a setting whose robot has some depth cameras no more, neither mounted nor named by its configuration.

    Raises InputError as `Condition.of` does.
    """
    return Condition(what="cameras gone", cameras_gone=list(names)).robot_of(setting)


def scaled_plant(plant: Plant, scale: float) -> Plant:
    """Return a base whose two axes answer faster or slower, see `SCALED`."""

    def scaled(axis: Axis) -> Axis:
        return axis.model_copy(update={name: scale * getattr(axis, name) for name in SCALED})

    return plant.model_copy(update={"linear": scaled(plant.linear), "angular": scaled(plant.angular)})


@functools.cache
def load_conditions(path: Path = CONDITIONS_FILE) -> Mapping[str, Condition]:
    """Return the rows of a file by name. Raises ConfigError with one line."""
    table = read_toml(path)
    conditions = {}
    for name in table:
        try:
            conditions[name] = Condition.model_validate(_with_base(path, table, name, ()))
        except ValidationError as error:
            raise ConfigError(validation_line(path, error).replace(": ", f": {name}: ", 1)) from error
    return conditions


def chosen(names: Sequence[str], known: Mapping[str, Condition] | None = None) -> list[str]:
    """Return the conditions that are meant, each once: the ordinary one of no name, and all of "all".

    Raises InputError.
    """
    rows = load_conditions() if known is None else known
    for name in names:
        if name not in rows and name != ALL:
            raise InputError(f"--condition {name}: must be {ALL}, or one of {', '.join(rows)}")
    if not names:
        return [ORDINARY]
    return list(rows) if ALL in names else list(dict.fromkeys(names))


def _with_base(path: Path, table: Mapping[str, Any], name: str, above: tuple[str, ...]) -> dict[str, Any]:
    """Return a row with what it takes over from its base, and that from its own."""
    row = table[name]
    if not isinstance(row, dict):
        raise ConfigError(f"{path}: {name}: must be a table")
    base = row.get("base", "")
    if not base:
        return dict(row)
    if base not in table:
        raise ConfigError(f"{path}: {name}: base: there is no row {base!r}")
    if base == name or base in above:
        raise ConfigError(f"{path}: {name}: base: {base} stands on {name} itself")
    return {**_with_base(path, table, base, (*above, name)), **row}
