"""What a stereo depth camera makes of true depth: noise, steps, shadows, rims and holes, as real frames show them.

The left imager of a RealSense D400 is the reference. What the right one cannot see has no depth: a band at the left
side of the image, and the background beside the left side of everything near. The matching window eats a rim of the
background at all edges besides. Depth comes in steps of disparity, so noise and steps are even in 1/depth and grow
with depth squared. What remains are holes in surfaces, more of them far away.

The numbers (depth_noise.toml) were measured by `onboard-hil depth-noise` (depth_noise_fit.py says how). Not modelled:
that the holes of one surface stay from frame to frame, and that some surfaces have more of them than others.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from hil.sensors.depth_noise_kernels import hide_unseen, noisy_units, smooth_field
from onboard.config.toml_file import NonNegative, Positive, Section, read_toml, validation_line
from onboard.values.errors import ConfigError

NUMBERS_FILE = Path(__file__).parent / "depth_noise.toml"
NEVER = 1e-9
"""Least share of holes that a threshold is made of."""
Depth = npt.NDArray[np.uint16]
Curve = npt.NDArray[np.float32]


class NoiseTable(Section):
    """The file of numbers. Lengths in pixels are those of an image whose focal length is `focal_px`.

    disparity_px_m:  disparity times depth: focal length times baseline [px m]
    step_per_m:      step of 1/depth [1/m]
    least_m:         nearest depth that is seen
    rim_px, rim_sd_px: width of the rim at edges
    band_px:         width of the rim at the left border
    depth_m:         depths of the next two, ascending
    sd_per_m:        standard deviation of 1/depth on a plane, without the steps [1/m]
    dropout:         share of holes in surfaces
    noise_px:        length over which the noise is even
    dropout_px:      the same of the holes, small and large ones; dropout_fine is the share of the small ones
    """

    source: str
    licence: str
    focal_px: Positive
    disparity_px_m: Positive
    step_per_m: Positive
    least_m: NonNegative
    rim_px: NonNegative
    rim_sd_px: NonNegative
    band_px: NonNegative
    depth_m: tuple[Positive, ...] = Field(min_length=2)
    sd_per_m: tuple[NonNegative, ...]
    dropout: tuple[NonNegative, ...]
    noise_px: Positive
    dropout_px: tuple[Positive, Positive]
    dropout_fine: NonNegative


@dataclass(frozen=True, slots=True)
class DepthNoise:
    """A camera's faults; `numbers` as in the file."""

    numbers: NoiseTable

    def apply(self, depth: Depth, focal_px: float, unit_m: float, seed: Sequence[int]) -> Depth:
        """Return (height, width) what the camera delivers of true depth; both in units of `unit_m`, 0 for no return.

        The rows of the image lie along the camera's baseline, as they do in every D400 however it is mounted.

        focal_px: of this image: smaller images are those of the real camera with pixels left out
        seed: such as (seed of the drive, number of the camera, number of the frame); the same gives the same frame
        """
        numbers, rng = self.numbers, np.random.default_rng(seed)
        scale = focal_px / numbers.focal_px
        height, width = depth.shape

        def field(length_px: float) -> npt.NDArray[np.float32]:
            return _field(rng, height, width, length_px * scale)

        per_m = np.zeros(depth.shape, np.float32)
        np.divide(1.0 / unit_m, depth, out=per_m, where=depth > 0)
        rim_px = scale * np.maximum(numbers.rim_px + numbers.rim_sd_px * field(numbers.rim_px), 0.0)
        rim_px += rng.random((height, width), np.float32)
        hidden = hide_unseen(per_m, rim_px, numbers.disparity_px_m * scale, (numbers.band_px - numbers.rim_px) * scale)
        fine, coarse = (field(length_px) for length_px in numbers.dropout_px)
        return noisy_units(
            per_m, hidden, field(numbers.noise_px), coarse, fine, *_curves(numbers),
            numbers.step_per_m, 1.0 / max(numbers.least_m, unit_m), 1.0 / unit_m,
        )  # fmt: skip


@functools.cache
def load_depth_noise(path: Path = NUMBERS_FILE) -> DepthNoise:
    """Return the model with the numbers of a file. Raises ConfigError."""
    try:
        numbers = NoiseTable.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(validation_line(path, error)) from error
    for name, row in (("sd_per_m", numbers.sd_per_m), ("dropout", numbers.dropout)):
        if len(row) != len(numbers.depth_m):
            raise ConfigError(f"{path}: {name}: must have {len(numbers.depth_m)} numbers as depth_m has")
    if any(later <= earlier for earlier, later in zip(numbers.depth_m, numbers.depth_m[1:], strict=False)):
        raise ConfigError(f"{path}: depth_m: must ascend")
    return DepthNoise(numbers)


@functools.cache
def _curves(numbers: NoiseTable) -> tuple[Curve, Curve, Curve, Curve]:
    """Return, by 1/depth ascending: 1/depth, sd, and the thresholds of the coarse and the fine field of holes."""
    normal = NormalDist()

    def thresholds(part: float) -> list[float]:
        return [normal.inv_cdf(1.0 - max(share * part, NEVER)) for share in numbers.dropout]

    fine = numbers.dropout_fine
    columns = [[1.0 / depth_m for depth_m in numbers.depth_m], list(numbers.sd_per_m)]
    columns += [thresholds(1.0 - fine), thresholds(fine)]
    per_m, sd, coarse, small = (np.array(column[::-1], np.float32) for column in columns)
    return per_m, sd, coarse, small


def _field(rng: np.random.Generator, height: int, width: int, length_px: float) -> npt.NDArray[np.float32]:
    """Return (height, width) normal noise, mean 0, sd 1, even over about `length_px`; below one pixel independent."""
    if length_px <= 1.0:
        return rng.standard_normal((height, width), np.float32)
    knots = rng.standard_normal((int(height / length_px) + 3, int(width / length_px) + 3), np.float32)
    return smooth_field(knots, height, width, length_px, *rng.random(2))


# ---- What the noise and holes of real depth images do to a scan that is cast, without the images

NEARER, SCATTER = 0.9, 0.65
"""Mean and standard deviation of a bin's error in 1/range, in standard deviations of one pixel's."""
EMPTY = 0.008
"""Share of bins that see nothing; 0.005 to 0.011 in four maps."""
STREAM = 7
"""Beside a drive's seed, so that its other noise is another."""

Ranges = npt.NDArray[np.float32]


def noisy_scan(ranges_m: Ranges, seed: int, tick: int) -> Ranges:
    """Return (180,) ranges as real cameras would let them be fused; the same for the same seed and tick [m].

    What is inf stays so.
    """
    numbers, rng = load_depth_noise().numbers, np.random.default_rng((seed, STREAM, tick))
    error, lost = rng.standard_normal(len(ranges_m)), rng.random(len(ranges_m)) < EMPTY
    seen = np.isfinite(ranges_m) & (ranges_m > 0.0)
    true_m = ranges_m[seen].astype(np.float64)
    sd_per_m = np.interp(true_m, numbers.depth_m, numbers.sd_per_m)
    per_m = 1.0 / true_m + sd_per_m * (NEARER + SCATTER * error[seen])
    noisy: Ranges = ranges_m.copy()
    noisy[seen] = 1.0 / np.maximum(per_m, np.finfo(np.float32).tiny)
    noisy[lost] = np.inf
    return noisy
