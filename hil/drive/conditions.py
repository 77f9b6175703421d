"""The conditions for judging a policy, by name: rows of conditions.toml. Each row changes the setting of a drive."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationError

from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.odometry_noise import DECISION_S, FIX_PERIOD_S, FIX_SD, PRINTED_FIX_SD
from hil.scene.walkers import MOST_CHARACTERS
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import Config, RatesSection, ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.config.plant_model import Axis, Plant
from onboard.config.toml_file import NonNegative, Positive, Section, checked, read_toml
from onboard.values.errors import ConfigError, InputError

CONDITIONS_FILE = Path(__file__).parent / "conditions.toml"
ORDINARY = "robot"
"""The condition of the ordinary robot; `evaluate` uses it by default."""
ALL = "all"
FIX_SDS = {"sd": FIX_SD, "variance": PRINTED_FIX_SD, "none": (0.0, 0.0, 0.0)}
"""Reading of the paper's diagonal (0.03, 0.03, 0.05) -> standard deviations of a fix, x, y [m], yaw [rad]."""
SCALED = ("f_up", "f_down", "acceleration_max", "deceleration_max")
"""Fields of a plant's axis that `plant_scale` multiplies."""
LONGEST_DELAY_S = 2.0
"""A goal in the map comes 2.5 s after power-on. A fix must come before the goal."""


class Condition(Section):
    """A row of conditions.toml. The defaults describe the ordinary simulated robot.

    what:            the condition in words
    base:            name of another row; its values hold for keys that this row omits
    drift_scale:     factor on the paper's odometry drift [1]
    localization:    whether there is an external localisation
    fix_noise:       "sd" or "variance": reading of the paper's localisation noise, see `FIX_SDS`; the robot's
                     configuration has the same noise. "none": fixes are exact, and the robot does not know it
    fix_every_steps: least and largest time between fixes, uniform [decision steps of 1/3 s]
    fix_delay_s:     latency of a fix [s]
    cameras_gone:    names of the missing depth cameras: their sectors are blind
    plant_scale:     factor on the assumed frequencies and accelerations of both axes [1]
    delay_ticks:     latency from an observation to its action [control ticks of 1/30 s]
    depth_noise:     whether scans have the noise of real depth cameras
    pedestrians:     number of walking people
    slip:            most that the wheels report beyond the way driven, drawn for each drive [1]
    camera_hz:       least and largest rate of a depth camera, drawn for each; without it all take images at once, 15 Hz
    camera_age_s:    least and largest age of an image on arrival, drawn for each camera [s]
    nearer_per_m:    how much too near a cast surface reads, in 1/range [1/m]
    tilt_deg:        largest pitch and roll of the moving body
    look_down_deg:   how much farther down the depth cameras look: table tops leave their view near the robot
    ramp:            a base that ramps v and w with these accelerations before a quick loop, as the robot knows
                     [m/s^2, rad/s^2]
    pallets:         pallets of 14 cm beside the path, where there is room
    crossing:        people who walk back and forth across the path at 1 m/s and ignore everybody, where there is room
    blocked_s:       time for which a door on the shortest path stays closed when the robot comes [s]; 0 for no door;
                     some paths have no place for a door, see hil/scene/doors.py
    memory_reset_s:  period of the policy's memory reset by the runtime [s], or "never"; a recovery (only with limits)
                     resets the memory in any case
    limits:          whether limits (`onboard.safety.limits`) and recovery are active
    known_map:       the map of a policy with a map, as of `--known-map`; "" for its own
    goals:           places that a drive visits one after the other, without a reset; it ends at the first that it
                     does not reach
    tracker:         whether the robot localises itself by its map (`map.tracker`); its first fix is the initial pose
    """

    model_config = ConfigDict(strict=True)

    what: Annotated[str, Field(min_length=1)]
    base: str = ""
    drift_scale: NonNegative = 1.0
    localization: bool = True
    fix_noise: Literal["sd", "variance", "none"] = "sd"
    fix_every_steps: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    fix_delay_s: Annotated[float, Field(ge=0.0, le=LONGEST_DELAY_S)] = 0.0
    cameras_gone: list[str] = Field(default_factory=list)
    plant_scale: Positive = 1.0
    delay_ticks: Annotated[int, Field(ge=1)] | None = None
    depth_noise: bool = False
    pedestrians: Annotated[int, Field(ge=0, le=MOST_CHARACTERS)] = 0
    slip: Annotated[float, Field(ge=0.0, le=0.5)] = 0.0
    camera_hz: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    camera_age_s: Annotated[list[NonNegative], Field(min_length=2, max_length=2)] = Field(default=[0.0, 0.0])
    nearer_per_m: NonNegative = 0.0
    tilt_deg: NonNegative = 0.0
    look_down_deg: NonNegative = 0.0
    ramp: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    pallets: Annotated[int, Field(ge=0, le=20)] = 0
    crossing: Annotated[int, Field(ge=0, le=20)] = 0
    blocked_s: NonNegative = 0.0
    memory_reset_s: Positive | Literal["never"] | None = None
    limits: bool = True
    known_map: Literal["", "day_old", "made"] = ""
    goals: Annotated[int, Field(ge=1, le=100)] = 1
    tracker: bool = False

    def senses(self, ordinary: Senses) -> Senses:
        """Return the senses of the simulated robot under this condition."""
        steps = self.fix_every_steps
        return replace(
            ordinary,
            drift_scale=self.drift_scale,
            localization=self.localization,
            fix_sd=FIX_SDS[self.fix_noise],
            fix_period_s=FIX_PERIOD_S if steps is None else (steps[0] * DECISION_S, steps[1] * DECISION_S),
            fix_delay_s=self.fix_delay_s,
            depth_noise=ordinary.depth_noise or self.depth_noise,
            slip=self.slip,
            flaws=Flaws(
                None if self.camera_hz is None else (self.camera_hz[0], self.camera_hz[1]),
                (self.camera_age_s[0], self.camera_age_s[1]),
                self.nearer_per_m,
                self.tilt_deg,
            ),
            depth_every=ordinary.depth_every if self.camera_hz is None else 1,
        )

    def resets_every_s(self, ordinary_s: float | None) -> float | None:
        """Return the period of the memory reset [s], None for never. ordinary_s: the policy's own period."""
        if self.memory_reset_s is None:
            return ordinary_s
        return None if self.memory_reset_s == "never" else self.memory_reset_s

    def of(self, setting: Setting) -> Setting:
        """Return a setting under this condition, without pedestrians and doors: the caller adds them for each episode.

        Raises InputError if a camera of `cameras_gone` is unknown, no camera would be left, or the delay is invalid.
        """
        if self.ramp is not None:
            setting = replace(setting, plant=ramped_plant(setting.plant, self.ramp[0], self.ramp[1]))
        true_plant = scaled_plant(setting.plant, self.plant_scale) if self.plant_scale != 1.0 else None
        return replace(
            self.robot_of(setting),
            true_plant=true_plant,
            senses=self.senses(setting.senses),
            limits=setting.limits and self.limits,
        )

    def robot_of(self, setting: Setting) -> Setting:
        """Return a setting with only mounts and configuration of this condition. Raises InputError like `of`."""
        return replace(setting, mounts=self._mounts(setting.mounts), config=self._config(setting.config))

    def check(self, mounts: Mounts, config: Config) -> None:
        """Raise InputError if `of` would raise for a robot with these mounts and this configuration."""
        self._mounts(mounts)
        self._config(config)

    def _mounts(self, mounts: Mounts) -> Mounts:
        for name in self.cameras_gone:
            if name not in mounts.depth:
                raise InputError(
                    f"cameras_gone: {mounts.path} has no depth camera {name}, only {', '.join(mounts.depth) or 'none'}"
                )
        left = {name: mount for name, mount in mounts.depth.items() if name not in self.cameras_gone}
        if self.cameras_gone and not left:
            raise InputError(f"cameras_gone: no depth camera is left of {', '.join(mounts.depth)}")
        if self.look_down_deg:
            left = {name: looking_down(mount, math.radians(self.look_down_deg)) for name, mount in left.items()}
        return replace(mounts, depth=left) if self.cameras_gone or self.look_down_deg else mounts

    def _config(self, config: Config) -> Config:
        changes: dict[str, Section] = {}
        if self.delay_ticks is not None:
            changes["rates"] = self._rates(config.rates)
        if self.cameras_gone:
            for name in ("scan", "limits_scan"):
                section = getattr(config, name)
                if section is not None and section.cameras:
                    changes[name] = self._scan(name, section)
        if self.fix_noise == "variance":  # the operator knows the noise of the localisation
            changes["odometry"] = config.odometry.model_copy(update={"localization_sd": FIX_SDS[self.fix_noise]})
        if self.tracker:
            changes["map"] = config.map.model_copy(update={"tracker": True})
        return config.model_copy(update=changes) if changes else config

    def _rates(self, rates: RatesSection) -> RatesSection:
        try:
            return RatesSection.model_validate({**rates.model_dump(), "delay_ticks": self.delay_ticks})
        except ValidationError as error:
            raise InputError(f"delay_ticks: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from error

    def _scan(self, name: str, section: ScanSection) -> ScanSection:
        left = [camera for camera in section.cameras if camera not in self.cameras_gone]
        if not left:  # an empty list would mean all cameras
            raise InputError(f"cameras_gone: {name}.cameras has none but {', '.join(section.cameras)}")
        return section.model_copy(update={"cameras": left})


def without_cameras(setting: Setting, names: Sequence[str]) -> Setting:
    """Return a setting without the named depth cameras, both in the mounts and in the configuration.

    Raises InputError like `Condition.of`.
    """
    return Condition(what="cameras gone", cameras_gone=list(names)).robot_of(setting)


def scaled_plant(plant: Plant, scale: float) -> Plant:
    """Return a plant with the fields `SCALED` of both axes multiplied by `scale`."""

    def scaled(axis: Axis) -> Axis:
        given = {name: getattr(axis, name) for name in SCALED}
        return axis.model_copy(update={name: scale * value for name, value in given.items() if value is not None})

    return plant.model_copy(update={"linear": scaled(plant.linear), "angular": scaled(plant.angular)})


RAMPED_F, RAMPED_ZETA = 40.0, 0.7
"""The quick loop behind a ramp."""


def ramped_plant(plant: Plant, mps2: float, radps2: float) -> Plant:
    """Return a plant that ramps both speeds before a quick loop, as `onboard-calib dynamics` writes it."""

    def ramped(axis: Axis, rate: float) -> Axis:
        quick = {"f_up": RAMPED_F, "f_down": RAMPED_F, "zeta_up": RAMPED_ZETA, "zeta_down": RAMPED_ZETA}
        return axis.model_copy(update={**quick, "acceleration_max": rate, "deceleration_max": None})

    return plant.model_copy(update={"linear": ramped(plant.linear, mps2), "angular": ramped(plant.angular, radps2)})


def looking_down(mount: Mount, angle_rad: float) -> Mount:
    """Return a mount that looks farther down, turned about the horizontal line across its view.

    Its lens is so much wider that it still looks as far aside at the horizon: views that met do not come apart.
    """
    forward = mount.base_from_camera[:3, 2]
    x, y = np.array([-forward[1], forward[0]]) / math.hypot(forward[0], forward[1])
    across = np.array([[0.0, 0.0, y], [0.0, 0.0, -x], [-y, x, 0.0]])
    rotation = np.eye(3) + math.sin(angle_rad) * across + (1.0 - math.cos(angle_rad)) * across @ across
    turned = mount.base_from_camera.copy()
    turned[:3, :3] = rotation @ turned[:3, :3]
    wider = math.hypot(*turned[:2, 2]) / math.hypot(*forward[:2])
    return replace(mount, base_from_camera=turned, fx=mount.fx * wider, fy=mount.fy * wider)


@functools.cache
def load_conditions(path: Path = CONDITIONS_FILE) -> Mapping[str, Condition]:
    """Return the rows of a file by name. Raises ConfigError with a message of one line."""
    table = read_toml(path)
    conditions = {}
    for name in table:
        with checked(f"{path}: {name}"):
            conditions[name] = Condition.model_validate(_with_base(path, table, name, ()))
    return conditions


def chosen(names: Sequence[str]) -> list[str]:
    """Return the names of the chosen conditions, each once. No name gives `ORDINARY`; "all" gives every row.

    Raises InputError.
    """
    rows = load_conditions()
    for name in names:
        if name not in rows and name != ALL:
            raise InputError(f"--condition {name}: must be {ALL}, or one of {', '.join(rows)}")
    if not names:
        return [ORDINARY]
    return list(rows) if ALL in names else list(dict.fromkeys(names))


def _with_base(path: Path, table: Mapping[str, Any], name: str, above: tuple[str, ...]) -> dict[str, Any]:
    """Return a row merged with its base row, recursively. above: the rows that lead to this row, to find loops."""
    row = table[name]
    if not isinstance(row, dict):
        raise ConfigError(f"{path}: {name}: must be a table")
    base = row.get("base", "")
    if not base:
        return dict(row)
    if base not in table:
        raise ConfigError(f"{path}: {name}: base: there is no row {base!r}")
    if base == name or base in above:
        raise ConfigError(f"{path}: {name}: base: {base} is based on {name} itself")
    return {**_with_base(path, table, base, (*above, name)), **row}
