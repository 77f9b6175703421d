"""Noise model of a stereo depth camera (RealSense D400): noise, quantisation, occlusion, edge rims and dropouts.

The left imager is the reference. Pixels that the right imager cannot see have no depth: a band at the left border, and
the background to the left of near objects. The matching window also removes a rim of background at all edges.
Disparity is quantised, so noise and steps are uniform in 1/depth and grow with depth squared. Dropouts are further
holes in surfaces; they become more frequent with distance.

`onboard-hil depth-noise` measured the numbers in depth_noise.toml (method: depth_calibration/fit.py). Not modelled:
dropouts that persist between frames, and different dropout rates of surfaces.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from pydantic import Field

from hil.sensors.depth_noise_kernels import hide_unseen, noisy_units, smooth_field
from onboard.config.toml_file import NonNegative, Positive, Section, checked, read_toml
from onboard.values.errors import ConfigError

NUMBERS_FILE = Path(__file__).parent / "depth_noise.toml"
NEVER = 1e-9
"""Lower limit of the dropout probability of a threshold."""
Depth = npt.NDArray[np.uint16]
Curve = npt.NDArray[np.float32]


class NoiseTable(Section):
    """Parameters of the noise model. Lengths in pixels are for an image with focal length `focal_px`.

    disparity_px_m:  disparity times depth: focal length times baseline [px m]
    step_per_m:      quantisation step of 1/depth [1/m]
    least_m:         least measurable depth
    rim_px, rim_sd_px: mean and standard deviation of the width of the rim at edges
    band_px:         width of the rim at the left border
    depth_m:         depths for `sd_per_m` and `dropout`, ascending
    sd_per_m:        standard deviation of 1/depth on a plane, without quantisation [1/m]
    dropout:         fraction of dropouts in surfaces
    noise_px:        correlation length of the noise
    dropout_px:      correlation lengths of small and large dropouts
    dropout_fine:    fraction of the small dropouts
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
    """The noise model with the parameters `numbers`."""

    numbers: NoiseTable

    def apply(self, depth: Depth, focal_px: float, unit_m: float, seed: Sequence[int]) -> Depth:
        """Return (height, width) noisy depth from true depth; both in units of `unit_m`, 0 for no return.

        The image rows are parallel to the camera's baseline, as in every D400.

        focal_px: focal length of this image; smaller images are subsampled images of the real camera
        seed: for example (seed of the drive, camera index, frame index); the same seed gives the same frame
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
    """Return the model with the parameters of a file. Raises ConfigError."""
    with checked(path):
        numbers = NoiseTable.model_validate(read_toml(path))
    for name, row in (("sd_per_m", numbers.sd_per_m), ("dropout", numbers.dropout)):
        if len(row) != len(numbers.depth_m):
            raise ConfigError(f"{path}: {name}: must have {len(numbers.depth_m)} numbers as depth_m has")
    if any(later <= earlier for earlier, later in zip(numbers.depth_m, numbers.depth_m[1:], strict=False)):
        raise ConfigError(f"{path}: depth_m: must ascend")
    return DepthNoise(numbers)


@functools.cache
def _curves(numbers: NoiseTable) -> tuple[Curve, Curve, Curve, Curve]:
    """Return 1/depth (ascending), sd, and dropout thresholds of the coarse and the fine field at these 1/depth."""
    normal = NormalDist()

    def thresholds(part: float) -> list[float]:
        return [normal.inv_cdf(1.0 - max(share * part, NEVER)) for share in numbers.dropout]

    fine = numbers.dropout_fine
    columns = [[1.0 / depth_m for depth_m in numbers.depth_m], list(numbers.sd_per_m)]
    columns += [thresholds(1.0 - fine), thresholds(fine)]
    per_m, sd, coarse, small = (np.array(column[::-1], np.float32) for column in columns)
    return per_m, sd, coarse, small


def _field(rng: np.random.Generator, height: int, width: int, length_px: float) -> npt.NDArray[np.float32]:
    """Return (height, width) normal noise, mean 0, sd 1, correlation length `length_px`; white up to one pixel."""
    if length_px <= 1.0:
        return rng.standard_normal((height, width), np.float32)
    knots = rng.standard_normal((int(height / length_px) + 3, int(width / length_px) + 3), np.float32)
    return smooth_field(knots, height, width, length_px, *rng.random(2))


# ---- The effect of depth noise and dropouts on a cast scan, without images

NEARER, SCATTER = 0.1, 0.5
"""Mean and standard deviation of a bin's error in 1/range, in standard deviations of one pixel."""
EMPTY = 0.008
"""Fraction of empty bins; 0.005 to 0.011 in four maps."""
STREAM = 7
"""Random stream beside a drive's seed, independent of the drive's other noise."""

Ranges = npt.NDArray[np.float32]


def noisy_scan(ranges_m: Ranges, seed: int, tick: int, scatter: bool = True, nearer_per_m: float = 0.0) -> Ranges:
    """Return (180,) ranges with the noise of a scan fused from real cameras; deterministic in seed and tick [m].

    inf stays inf. scatter: without it, only `nearer_per_m` [1/m] shifts 1/range
    """
    numbers, rng = load_depth_noise().numbers, np.random.default_rng((seed, STREAM, tick))
    error, lost = rng.standard_normal(len(ranges_m)), rng.random(len(ranges_m)) < EMPTY
    seen = np.isfinite(ranges_m) & (ranges_m > 0.0)
    true_m = ranges_m[seen].astype(np.float64)
    sd_per_m = np.interp(true_m, numbers.depth_m, numbers.sd_per_m)
    per_m = 1.0 / true_m + nearer_per_m
    if scatter:
        per_m += sd_per_m * (NEARER + SCATTER * error[seen])
    noisy: Ranges = ranges_m.copy()
    noisy[seen] = 1.0 / np.maximum(per_m, np.finfo(np.float32).tiny)
    if scatter:
        noisy[lost] = np.inf
    return noisy
