"""Configuration of the colour encoder's training: views, augmentation, schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from engines.runs.input_files import from_folder
from hil.scene.furniture import DENSEST
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.toml_file import Fraction, NonNegative, Positive, PositiveFraction, Section

Count = Annotated[int, Field(ge=1)]
Spread = Annotated[float, Field(ge=0.0, lt=1.0)]
Degrees = Annotated[float, Field(ge=0.0, le=45.0)]


class BlurSection(Section):
    """Image augmentation. Fractions are shares of the views.

    soft:     Gaussian blur with a standard deviation of up to `soft_px`
    motion:   mean along a row over up to `motion_px`, as during a turn of the robot
    jpeg:     compression with a quality of at least `jpeg_quality`
    exposure: largest brightness factor and inverse of the smallest, log-uniform; `gamma` alike as an exponent
    tint:     the brightness factor of each channel lies within 1 -+ this
    colour:   least and most saturation factor
    noise:    largest standard deviation of pixel noise, in units of 0 to 255
    """

    soft: Fraction = 0.3
    soft_px: NonNegative = 1.2
    motion: Fraction = 0.3
    motion_px: int = Field(9, ge=1, le=64)
    jpeg: Fraction = 0.3
    jpeg_quality: int = Field(40, ge=1, le=95)
    exposure: float = Field(1.5, ge=1.0)
    gamma: float = Field(1.3, ge=1.0)
    tint: Spread = 0.08
    colour: tuple[NonNegative, NonNegative] = (0.5, 1.3)
    noise: NonNegative = 8.0


class ViewsSection(Section):
    """The views, and the errors of the camera's mount.

    maps:          names of shipped maps of the training split, or files
    count:         views, `per_building` of them in each furnished building; the maps take turns
    furniture:     density of the furniture placed by seed
    plain:         share of views in plain colours, all others in colours, patterns and light drawn by seed
    people:        share of views with one to three people or robots in front of the camera
    facing_m:      a pose with a shorter free distance ahead is kept with the probability `facing`
    tilt_deg:      largest pitch and roll error of the camera; `turn_deg`: largest yaw error
    height_m:      largest error of its height; `zoom`: largest relative error of its focal length
    mounts:        file of the robot's cameras; the first colour camera counts
    footprint_m:   radius of the body; `body_m`: its height
    blur:          image augmentation; None switches it off
    """

    maps: tuple[str, ...] = Field(("gdc1", "gdc3", "ghc7", "ase4", "depot"), min_length=1)
    count: Count = 9000
    per_building: Count = 150
    furniture: float = Field(1.0, ge=0.0, le=DENSEST)
    plain: Fraction = 0.15
    people: Fraction = 0.25
    facing_m: NonNegative = 0.3
    facing: Fraction = 0.25
    tilt_deg: Degrees = 3.0
    turn_deg: Degrees = 2.0
    height_m: NonNegative = 0.05
    zoom: Spread = 0.03
    mounts: Path = DEFAULT_ROBOT / "mounts.toml"
    footprint_m: Positive = 0.25
    body_m: Positive = 1.0
    blur: BlurSection | None = BlurSection()


class PhaseSection(Section):
    """A phase of the training with a fixed image size.

    shrink: images are averaged down by this factor along both axes
    epochs: passes over the views, not necessarily a whole number
    rate:   largest learning rate of the phase, as a share of the training's
    """

    shrink: Literal[1, 2, 4]
    epochs: Positive
    rate: PositiveFraction = 1.0


class EncoderSection(Section):
    """Pre-training of the colour encoder.

    phases:          in order; the last must have full-size images
    learning_rate:   the largest; each phase warms up for the share `warm_up` of its steps, then decays by a cosine to
                     the share `final`, because a new image size needs large steps again
    way_weight:      weight of the free distance's loss relative to the mean loss of the ranges
    huber:           threshold of the Huber loss of a logarithm's error
    gradient_norm:   largest norm of a gradient
    checkpoint_every: steps between checkpoints
    test_maps:       buildings of the report, never trained in; `test_count`: views of each sort in it
    """

    views: ViewsSection = ViewsSection()
    phases: tuple[PhaseSection, ...] = Field(
        (PhaseSection(shrink=2, epochs=6.0), PhaseSection(shrink=1, epochs=2.0, rate=0.5)), min_length=1
    )
    batch: Count = 16
    learning_rate: PositiveFraction = 1e-3
    warm_up: Fraction = 0.05
    final: Fraction = 0.01
    weight_decay: NonNegative = 1e-2
    way_weight: NonNegative = 0.5
    huber: Positive = 0.1
    gradient_norm: Positive = 5.0
    checkpoint_every: Count = 200
    test_maps: tuple[str, ...] = Field(("ahg2", "apartment", "lgrc1", "warehouse", "willow"), min_length=1)
    test_count: Count = 600

    @model_validator(mode="after")
    def _fits(self) -> EncoderSection:
        if self.phases[-1].shrink != 1:
            raise ValueError(f"phases: the last must have shrink 1, found {self.phases[-1].shrink}")
        if self.batch > self.views.count:
            raise ValueError(f"batch {self.batch} must not be above views.count {self.views.count}")
        return self


def paths_from(table: dict[str, Any], folder: Path) -> None:
    """Resolve the paths in an [encoder] table from a folder. Values of a wrong type stay, and fail at validation."""
    views = table.get("views")
    for inner, name in ((views, "maps"), (table, "test_maps")):
        if isinstance(inner, dict) and isinstance(inner.get(name), list):
            inner[name] = [from_folder(one, folder) for one in inner[name]]
    if isinstance(views, dict) and isinstance(views.get("mounts"), str):
        views["mounts"] = str(folder / views["mounts"])
