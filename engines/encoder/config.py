"""The numbers of the colour encoder's training: what is looked at, how it is blurred, how long it is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from engines.runs.input_files import from_folder
from hil.evaluate.episode_selection import DENSEST
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.toml_file import Fraction, NonNegative, Positive, PositiveFraction, Section

Count = Annotated[int, Field(ge=1)]
Spread = Annotated[float, Field(ge=0.0, lt=1.0)]
Degrees = Annotated[float, Field(ge=0.0, le=45.0)]


class BlurSection(Section):
    """What happens to an image between the scene and the policy; each as a share of the views that it happens to.

    soft:     Gaussian blur with a standard deviation of up to `soft_px`
    motion:   mean along a row over up to `motion_px`, as when the robot turns
    jpeg:     compression at a quality of `jpeg_quality` at least
    exposure: most brightness factor, both ways, log-uniform; `gamma` alike as an exponent
    tint:     each channel's own brightness factor lies within 1 -+ this
    colour:   least and most saturation factor
    noise:    most standard deviation of each pixel's noise, in units of 0 to 255
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
    """Which views are drawn, and how the camera differs from its mount.

    maps:          names of shipped maps of the training split, or files of one's own
    count:         views, `per_building` of them in each furnished building; the maps take turns
    furniture:     density of the furniture placed by seed
    plain:         share of views in plain colours, all others in colours, patterns and light drawn by seed
    people:        share of views with one to three people or robots before the camera
    facing_m:      a place from which the body comes less far than this straight ahead is kept with a chance `facing`
    tilt_deg:      most pitch and roll of the camera about its mount, either way; `turn_deg`: most yaw
    height_m:      most error of its height; `zoom`: most relative error of its focal length
    mounts:        file of the robot's cameras; its first colour camera is meant
    footprint_m:   radius of the body; height_m of it is `body_m`
    blur:          what happens to the image after it was taken; None is nothing
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
    """A part of the training at one size of image.

    shrink: images are averaged down by this along both axes
    epochs: how often each view is seen, not necessarily a whole number
    rate:   its highest learning rate, as a part of the training's
    """

    shrink: Literal[1, 2, 4]
    epochs: Positive
    rate: PositiveFraction = 1.0


class EncoderSection(Section):
    """Pre-training of the colour encoder.

    phases:          one after the other; the last must be at full size
    learning_rate:   the highest; each phase reaches its own after `warm_up` of its steps, and a cosine takes it down
                     to `final` of that: a new size of images needs steps that are not small
    way_weight:      weight of the free way's loss beside the mean of the ranges' losses
    huber:           where the loss of a logarithm's error turns from square to linear
    gradient_norm:   longer gradients are shortened to this
    checkpoint_every: steps between checkpoints
    test_maps:       buildings that nothing was trained in, for the report; `test_count`: views of each sort in it
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
    """Let the paths in an [encoder] table begin at a folder, where they have the form that they should have."""
    views = table.get("views")
    for inner, name in ((views, "maps"), (table, "test_maps")):
        if isinstance(inner, dict) and isinstance(inner.get(name), list):
            inner[name] = [from_folder(one, folder) for one in inner[name]]
    if isinstance(views, dict) and isinstance(views.get("mounts"), str):
        views["mounts"] = str(folder / views["mounts"])
