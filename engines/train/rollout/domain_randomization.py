"""Domain randomization: each drive of a training draws its robot, its sensors and the people around it.

All values are drawn around the configured robot. The limits are active in a share of the drives: the policy learns
their effect, but does not learn to rely on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from engines.train.rollout.places import Building
from hil.drive.conditions import without_cameras
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.evaluate.episode import Others
from hil.maps.materials import draw_appearance
from hil.physics.free_space import Episode
from hil.physics.odometry_noise import FIX_PERIOD_S, TRAINING_FIX_PERIOD_S
from hil.scene.walkers import Crowd
from onboard.config.config import RatesSection
from onboard.config.plant_model import Axis, Plant
from onboard.config.toml_file import Fraction, Section
from onboard.values.errors import ConfigError, InputError

MOST_DRIFT = 100.0
Drift = Annotated[float, Field(ge=0.0, le=MOST_DRIFT)]
Spread = Annotated[float, Field(ge=0.0, lt=1.0)]
MOST_SEED = 2**31
MOST_PEOPLE = 3
LATEST_FIX_S = 1.0
"""Largest delay of a late fix."""


class DomainSection(Section):
    """Ranges of the training's robots.

    plant_spread:      the true base's frequencies, damping and acceleration are scaled by a factor each, log-uniform
                       from 1 - this to 1 + this; the runtime keeps the plant of its file. With 0.3 the default plant
                       is stable in steps of 1/30 s
    delay_ticks:       least and most sense-to-act delay, in ticks of the robot's rates.control_hz
    drift_scale:       least and most factor on the paper's odometry drift; `drift_paper`: share of drives with 1
    no_localization:   share of drives without fixes; `often_localized`: with a fix every 1 to 2 s, not 3 to 4
    late_localization: share of drives with fixes delayed by up to `LATEST_FIX_S`
    camera_gone:       share of drives with one depth camera missing, of robots that have more than one
    scan_noise:        most relative standard deviation of ranges; `scan_holes`: most share of bins that see nothing
    pedestrians:       share of drives with one to three people about, near start and goal
    limits:            share of the drives with all cameras in which the runtime's limits have the last word
    """

    plant_spread: Spread = 0.3
    delay_ticks: tuple[int, int] = (2, 4)
    drift_scale: tuple[Drift, Drift] = (0.0, 3.0)
    drift_paper: Fraction = 0.5
    no_localization: Fraction = 0.05
    often_localized: Fraction = 0.15
    late_localization: Fraction = 0.1
    camera_gone: Fraction = 0.15
    scan_noise: Fraction = 0.02
    scan_holes: Fraction = 0.02
    pedestrians: Fraction = 0.05
    limits: Fraction = 0.5

    @model_validator(mode="after")
    def _ordered(self) -> DomainSection:
        for name, (least, most) in (("delay_ticks", self.delay_ticks), ("drift_scale", self.drift_scale)):
            if not 0 <= least <= most:
                raise ValueError(f"{name}: expected 0 <= least <= most, found {least}, {most}")
        return self

    def check(self, rates: RatesSection) -> None:
        """Raise ConfigError unless a robot with these rates can have every delay that is drawn."""
        least, most = self.delay_ticks
        if not (least >= 1 and most < rates.ticks_per_decision):
            raise ConfigError(
                f"domain.delay_ticks: expected 1 or more and below the robot's rates.ticks_per_decision "
                f"{rates.ticks_per_decision}, found {least}, {most}"
            )


@dataclass(frozen=True, slots=True)
class ScanFaults:
    """Faults of the policy's scan in one drive: relative noise, and the share of bins without a range."""

    noise: float = 0.0
    holes: float = 0.0


NO_FAULTS = ScanFaults()


@dataclass(frozen=True, slots=True)
class DomainSample:
    """The drawn robot of one drive."""

    setting: Setting
    faults: ScanFaults


def draw_sample(section: DomainSection, building: Building, episode: Episode, rng: np.random.Generator) -> DomainSample:
    """Return the robot of one drive, drawn around the robot of the building's setting."""
    base = building.setting
    plant = _draw_plant(section, base.base_plant, rng)
    delay = int(rng.integers(section.delay_ticks[0], section.delay_ticks[1] + 1))
    rates = base.config.rates.model_copy(update={"delay_ticks": delay})
    setting = replace(
        _draw_cameras(section, base, rng),
        true_plant=plant,
        senses=_draw_senses(section, base.senses, rng),
        look=draw_appearance(int(rng.integers(MOST_SEED))),
    )
    # With a camera missing, the limits hardly let the robot drive; without limits the policy learns to cope.
    limits = bool(rng.random() < section.limits) and setting.mounts is base.mounts
    faults = ScanFaults(section.scan_noise * float(rng.random()), section.scan_holes * float(rng.random()))
    config = setting.config.model_copy(update={"rates": rates})
    crowd = _draw_crowd(building, episode, rng) if rng.random() < section.pedestrians else None
    return DomainSample(replace(setting, config=config, limits=limits, crowd=crowd), faults)


def _draw_cameras(section: DomainSection, base: Setting, rng: np.random.Generator) -> Setting:
    """Return the robot, in a share of drives without one of the scan's cameras; at least one camera is left."""
    cameras = sorted(base.config.scan.cameras or base.mounts.depth)
    if rng.random() >= section.camera_gone or len(cameras) < 2:
        return base
    return without_cameras(base, [str(rng.choice(cameras))])


def _draw_crowd(building: Building, episode: Episode, rng: np.random.Generator) -> Crowd | None:
    """Return people near both ends of the drive, drawn as in the evaluation; None if there is no room."""
    seed, people = int(rng.integers(MOST_SEED)), int(rng.integers(1, MOST_PEOPLE + 1))
    try:
        return Others(people, 0.0, building.walkable, None, None).crowd(episode, seed)
    except InputError:
        return None


def with_faults(ranges_m: np.ndarray, faults: ScanFaults, rng: np.random.Generator) -> np.ndarray:
    """Return (180,) float32 ranges with noise and holes; a hole sees nothing (inf)."""
    if faults == NO_FAULTS:
        return ranges_m
    noisy = ranges_m * (1.0 + faults.noise * rng.standard_normal(len(ranges_m)))
    holes = rng.random(len(ranges_m)) < faults.holes
    return np.asarray(np.where(holes, np.inf, noisy), np.float32)


def _draw_plant(section: DomainSection, plant: Plant, rng: np.random.Generator) -> Plant:
    return plant.model_copy(update={name: _draw_axis(section, getattr(plant, name), rng) for name in _AXES})


_AXES = ("linear", "angular")
_DRAWN = ("f_up", "f_down", "zeta_up", "zeta_down", "acceleration_max")


def _draw_axis(section: DomainSection, axis: Axis, rng: np.random.Generator) -> Axis:
    spread = section.plant_spread
    factors = np.exp(rng.uniform(np.log1p(-spread), np.log1p(spread), len(_DRAWN)))
    drawn = {name: getattr(axis, name) * float(factor) for name, factor in zip(_DRAWN, factors, strict=True)}
    return axis.model_copy(update=drawn)


def _draw_senses(section: DomainSection, senses: Senses, rng: np.random.Generator) -> Senses:
    paper, often = rng.random() < section.drift_paper, rng.random() < section.often_localized
    drawn = float(rng.uniform(*section.drift_scale))
    late, delay_s = rng.random() < section.late_localization, float(rng.uniform(0.0, LATEST_FIX_S))
    return replace(
        senses,
        drift_scale=1.0 if paper else drawn,
        localization=bool(rng.random() >= section.no_localization),
        fix_period_s=FIX_PERIOD_S if often else TRAINING_FIX_PERIOD_S,
        fix_delay_s=delay_s if late else senses.fix_delay_s,
    )
