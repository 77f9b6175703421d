"""Statistics of real or simulated depth frames: noise on planes, quantisation, holes by cause, depth and size.

The cause of a hole is determined row by row:

    band     from the left border to the first depth
    shadow   between depths whose inverses differ by more than `EDGE_PER_M`, with the right depth nearer
    rim      the same with the left depth nearer
    dropout  between similar depths
    right    from the last depth to the right border
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.sensors.depth_calibration.kernels import blob_areas, runs_of
from hil.sensors.depth_noise_kernels import EDGE_PER_M

DEPTH_EDGES_M = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.0)
BAND_EDGES_M = (0.5, 0.7, 1.0, 1.4, 2.0)
"""At larger depths the band depends on surfaces without texture, not only on the disparity."""
JUMP_EDGES_PER_M = (0.10, 0.20, 0.35, 0.50, 0.70, 1.00, 1.50)
LENGTH_EDGES_PX = (1, 2, 4, 8, 16, 32)
"""Classes of the run length of dropouts; the last class is open."""
AREA_EDGES_PX = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
WINDOW_PX, WIDE_PX = 15, 31
"""Sides of the windows for plane fits."""
LAGS_PX = (1, 2, 3, 4, 6)
FLAT_QUARTILE = 25
"""Percentile of the windows' deviations that represents a plane; many windows are not on a plane."""
FLAT = 2.0
"""Windows with a deviation up to this factor times the percentile count for the correlation."""
HALF = 50
LEAST = 50
"""Least number of windows or rows for a result."""
MIDDLE = (16, 50, 84)
"""Percentiles for the median and the spread of a width."""
STEPS_M = (2.0, 6.0)
"""Depth range in which the quantisation step exceeds the unit of 1 mm."""
NEAREST_SHARE = 1e-4
"""Quantile of the depths that counts as the nearest depth, so that stray pixels do not count."""

Frames = npt.NDArray[np.float64]
"""(n, height, width) depth [m], 0 for no return."""
Row = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SurfaceStatistics:
    """Statistics of planes, by `DEPTH_EDGES_M`; nan for classes with too few windows.

    sd_per_m:    standard deviation of 1/depth in windows of `WINDOW_PX` about their planes, lower quartile [1/m]
    wide_per_m:  the same in windows of `WIDE_PX`, where the plane fit removes less noise [1/m]
    correlation: correlation of the deviations at `LAGS_PX` along rows
    step_per_m:  distance of neighbouring levels of 1/depth [1/m]
    """

    sd_per_m: Row
    wide_per_m: Row
    correlation: Row
    step_per_m: float

    @property
    def sd_m(self) -> Row:
        """Standard deviation of depth in the middle of each class [m]: depth squared times `sd_per_m`."""
        middle = np.sqrt(np.array(DEPTH_EDGES_M)[1:] * np.array(DEPTH_EDGES_M)[:-1])
        return np.asarray(self.sd_per_m * middle**2)


@dataclass(frozen=True, slots=True)
class HoleStatistics:
    """Statistics of holes.

    share:      fraction of holes among all pixels
    band, shadow, rim, dropout, right: fraction of holes of each cause among all pixels
    dropout_by_depth: fraction of dropouts in the surface at each depth, by `DEPTH_EDGES_M`
    band_px:    median width of the band by depth beside it (`BAND_EDGES_M`); nan for classes with too few rows
    shadow_px:  mean width of shadows by `JUMP_EDGES_PER_M`
    jump_per_m: mean step of 1/depth in the same classes
    rim_px, rim_sd_px: width of rims: median, and half of the middle 68 %
    run_share:  fraction of dropouts in runs of each length, by `LENGTH_EDGES_PX`
    specks:     fraction of single pixels among the dropouts
    blobs:      connected holes per frame, without those at the left border, by `AREA_EDGES_PX`
    nearest_m:  nearest depth, as the quantile `NEAREST_SHARE`
    """

    share: float
    band: float
    shadow: float
    rim: float
    dropout: float
    right: float
    dropout_by_depth: Row
    band_px: Row
    shadow_px: Row
    jump_per_m: Row
    rim_px: float
    rim_sd_px: float
    run_share: Row
    specks: float
    blobs: Row
    nearest_m: float


def measure_surfaces(frames: Frames) -> SurfaceStatistics:
    """Return the statistics of planes in the frames."""
    group, sd, beside = _about_planes(frames, WINDOW_PX)
    wide_group, wide_sd, _ = _about_planes(frames, WIDE_PX)
    sd_per_m = _percentiles(sd, group, len(DEPTH_EDGES_M) - 1, FLAT_QUARTILE)
    flat = np.isfinite(sd_per_m[group]) & (sd <= FLAT * sd_per_m[group])
    image = beside[flat].reshape(-1, WINDOW_PX, WINDOW_PX) / sd[flat, np.newaxis, np.newaxis]
    levels = np.unique(frames[(frames > STEPS_M[0]) & (frames < STEPS_M[1])])
    step = float(np.median(-np.diff(1.0 / levels))) if len(levels) > 1 else float("nan")
    wide_per_m = _percentiles(wide_sd, wide_group, len(DEPTH_EDGES_M) - 1, FLAT_QUARTILE)
    return SurfaceStatistics(sd_per_m, wide_per_m, _correlation(image), step)


def measure_holes(frames: Frames) -> HoleStatistics:
    """Return the statistics of holes in the frames."""
    runs, bands = runs_of(frames, EDGE_PER_M)
    (gap, left_m, right_m), (band, band_m) = runs.T, bands.T
    jump, total = 1.0 / right_m - 1.0 / left_m, frames.size
    edge, near_right = np.abs(jump) > EDGE_PER_M, jump > 0.0
    shadow, rims, dropout = edge & near_right, edge & ~near_right, ~edge
    seen = np.histogram(frames[frames > 0.0], DEPTH_EDGES_M)[0]
    lost = np.histogram(2.0 / (1.0 / left_m + 1.0 / right_m)[dropout], DEPTH_EDGES_M, weights=gap[dropout])[0]
    holes, parts = float((frames == 0.0).mean()), [gap[kind].sum() / total for kind in (shadow, rims, dropout)]
    lengths = np.histogram(gap[dropout], (*LENGTH_EDGES_PX, np.inf), weights=gap[dropout])[0]
    width = np.histogram(jump, JUMP_EDGES_PER_M, weights=gap)[0]
    jumps = np.histogram(jump, JUMP_EDGES_PER_M, weights=jump)[0]
    many = np.maximum(np.histogram(jump, JUMP_EDGES_PER_M)[0], 1)
    sharp = gap[jump < -JUMP_EDGES_PER_M[0]]
    rim = [float(value) for value in np.percentile(sharp, MIDDLE)] if len(sharp) else [0.0, 0.0, 0.0]
    areas = np.histogram(blob_areas(frames == 0.0), (*AREA_EDGES_PX, np.inf))[0]
    return HoleStatistics(
        share=holes, band=band.sum() / total, shadow=parts[0], rim=parts[1], dropout=parts[2],
        right=holes - band.sum() / total - sum(parts),
        dropout_by_depth=lost / np.maximum(seen + lost, 1),
        band_px=_percentiles(band, np.digitize(band_m, BAND_EDGES_M) - 1, len(BAND_EDGES_M) - 1, HALF),
        shadow_px=width / many, jump_per_m=jumps / many,
        rim_px=rim[1], rim_sd_px=(rim[2] - rim[0]) / 2.0,
        run_share=lengths / max(lengths.sum(), 1), specks=areas[0] / max(lengths.sum(), 1), blobs=areas / len(frames),
        nearest_m=float(np.quantile(frames[frames > 0.0], NEAREST_SHARE)),
    )  # fmt: skip


def _about_planes(frames: Frames, side_px: int) -> tuple[npt.NDArray[np.int64], Row, Row]:
    """Return (n,) depth class, (n,) sd about the fitted plane, (n, pixels) residuals of the tiled windows.

    Windows with holes, and windows outside `DEPTH_EDGES_M`, are left out.
    """
    count, height, width = frames.shape
    rows, columns = height // side_px, width // side_px
    cut = frames[:, : rows * side_px, : columns * side_px]
    windows = cut.reshape(count, rows, side_px, columns, side_px).swapaxes(2, 3).reshape(-1, side_px**2)
    windows = 1.0 / windows[(windows > 0.0).all(axis=1)]
    group = np.digitize(1.0 / windows.mean(axis=1), DEPTH_EDGES_M) - 1
    inside = (group >= 0) & (group < len(DEPTH_EDGES_M) - 1)
    windows, group = windows[inside], group[inside]
    side = np.arange(side_px) - side_px // 2
    down, right = (axis.ravel().astype(float) for axis in np.meshgrid(side, side, indexing="ij"))
    planes, _ = np.linalg.qr(np.stack([np.ones(len(down)), down, right], axis=1))
    beside = windows - (windows @ planes) @ planes.T
    return group, np.sqrt((beside**2).sum(axis=1) / (side_px**2 - planes.shape[1])), beside


def _correlation(image: Row) -> Row:
    """Return the correlation of (n, rows, columns) at `LAGS_PX` along rows; nan without windows."""
    if len(image) == 0:
        return np.full(len(LAGS_PX), np.nan)
    products = [(image[:, :, :-lag] * image[:, :, lag:]).mean() for lag in LAGS_PX]
    correlation: Row = np.array(products) / (image**2).mean()
    return correlation


def _percentiles(values: Row, group: npt.NDArray[np.int64], groups: int, percent: float) -> Row:
    """Return (groups,) a percentile of the values in each group; nan for groups of fewer than `LEAST` values."""
    members = [values[group == k] for k in range(groups)]
    return np.array([float(np.percentile(member, percent)) if len(member) >= LEAST else np.nan for member in members])
