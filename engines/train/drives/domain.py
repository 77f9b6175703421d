"""The robots of a training: each drive draws its base, its latency and its sensors around the configured robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from engines.train.drives.places import PlacesSection
from hil.drive.episode_sets import RESERVED_SEEDS
from hil.drive.setting import Setting
from onboard.config.config import RatesSection
from onboard.config.toml_file import Fraction, Section
from onboard.values.errors import ConfigError

MOST_DRIFT, LONGEST_S = 100.0, 3600.0
Drift = Annotated[float, Field(ge=0.0, le=MOST_DRIFT)]
Spread = Annotated[float, Field(ge=0.0, lt=1.0)]
Lasting = Annotated[float, Field(ge=1.0, le=LONGEST_S)]
"""Duration of a drive: long enough for a decision, at most an hour."""


class DomainSection(Section):
    """Ranges of the training's robots.

    plant_spread:      the true base's frequencies, damping and acceleration are scaled by a factor each, log-uniform
                       from 1 - this to 1 + this; the runtime keeps the plant of its file. With 0.3 the default plant
                       is stable in steps of 1/30 s
    delay_ticks:       least and most sense-to-act delay, in ticks of the robot's rates.control_hz
    drift_scale:       least and most factor on the paper's odometry drift; `drift_paper`: share of drives with 1
    no_localization:   share of drives without fixes; `often_localized`: with a fix every 1 to 2 s, not 3 to 4
    scan_noise:        most relative standard deviation of ranges; `scan_holes`: most share of bins that see nothing
    """

    plant_spread: Spread = 0.3
    delay_ticks: tuple[int, int] = (2, 4)
    drift_scale: tuple[Drift, Drift] = (0.0, 3.0)
    drift_paper: Fraction = 0.5
    no_localization: Fraction = 0.05
    often_localized: Fraction = 0.15
    scan_noise: Fraction = 0.02
    scan_holes: Fraction = 0.02

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


class DrivingSection(Section):
    """When a drive of the training ends: in all, and without progress towards the goal [s]."""

    max_s: Lasting = 60.0
    stuck_s: Lasting = 20.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of all drives. Raises ConfigError if domain or places do not fit the robot."""

    places: PlacesSection
    domain: DomainSection
    driving: DrivingSection
    robot: Setting

    def __post_init__(self) -> None:
        self.domain.check(self.robot.config.rates)
        self.places.check(self.robot.config.goal)


def furniture_seeds(seed: Sequence[int], count: int) -> list[int]:
    """Return seeds of furniture; the seeds reserved for the evaluation never occur."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(2**31, size=count)
    while (reserved := np.isin(numbers, list(RESERVED_SEEDS))).any():
        numbers[reserved] = rng.integers(2**31, size=int(reserved.sum()))
    return [int(number) for number in numbers]
