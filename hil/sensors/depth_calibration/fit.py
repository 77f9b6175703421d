"""Fit the parameters of `hil/sensors/depth_noise.py` to real depth frames, and simulate the same scenes.

Quantisation, disparity, rims, dropouts and the nearest depth follow directly from the statistics. The deviation on
planes is measured in windows, and the plane fit removes a part of it. A search over simulated noise, measured in the
same way, finds this part and the correlation lengths of noise and dropouts.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hil.sensors.depth_calibration.kernels import fill_holes
from hil.sensors.depth_calibration.statistics import (
    BAND_EDGES_M,
    DEPTH_EDGES_M,
    Frames,
    HoleStatistics,
    Row,
    SurfaceStatistics,
    measure_holes,
    measure_surfaces,
)
from hil.sensors.depth_noise import DepthNoise, NoiseTable
from hil.sensors.depth_noise_kernels import EDGE_PER_M
from onboard.commands.scan import read_depth_image
from onboard.values.errors import InputError

UNIT_M = 0.001
FOCAL_PX = 384.0
"""Assumed focal length of the real frames; their intrinsics are unknown (tests/data/realsense-office/README.md)."""
MOST_FRAMES = 400
"""Upper limit of the frames read, about a gigabyte."""
NOISE_PX = (2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 16.0)
DROPOUT_PX = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
"""Candidate values for `noise_px` and `dropout_px`."""
FLOOR = slice(1, 4)
"""Depth classes that are mostly floor, a plane, in the real frames: 0.7 to 2.0 m."""
TRIAL_PER_M = 0.5
TRIAL_SD_PER_M = 1e-3
TRIAL_DROPOUT = 0.005
TRIAL_SHAPE = (480, 640)
TRIALS = 3
UNIFORM_SD = 1.0 / math.sqrt(12.0)
"""Standard deviation of the rounding error at a step of 1."""


def read_frames(folder: Path) -> tuple[list[str], Frames]:
    """Return the names and the frames of the depth images (PNG, PGM) in a folder. Raises InputError."""
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in (".png", ".pgm"))
    if not files:
        raise InputError(f"{folder}: no .png or .pgm with depth in it")
    if len(files) > MOST_FRAMES:
        raise InputError(f"{folder}: {len(files)} frames, the limit is {MOST_FRAMES}")
    frames = [read_depth_image(file) for file in files]
    for file, frame in zip(files, frames, strict=True):
        if frame.shape != frames[0].shape:
            raise InputError(f"{file}: {frame.shape} pixels, {files[0].name} has {frames[0].shape}")
    if not any(frame.any() for frame in frames):
        raise InputError(f"{folder}: no depth in any of {len(files)} frames")
    return [file.name for file in files], np.array(frames) * np.float64(UNIT_M)


def fit(surfaces: SurfaceStatistics, holes: HoleStatistics, source: str, licence: str) -> NoiseTable:
    """Return the parameters for these statistics. Raises InputError if the statistics are insufficient."""
    many, flat = holes.shadow_px > 0.0, np.isfinite(surfaces.sd_per_m)
    if many.sum() < 2 or flat.sum() < 2 or not flat[FLOOR].any() or not np.isfinite(holes.band_px).any():
        raise InputError(
            f"the frames show planes in {flat.sum()} of {len(flat)} classes of depth and shadows at steps of "
            f"{many.sum()} of {len(many)} classes; two of each are needed, with floor at 0.7 to 2 m and a left band"
        )
    disparity_px_m = float(np.polyfit(holes.jump_per_m[many], holes.shadow_px[many], 1)[0])
    noise_px, gain = _noise_length(surfaces)
    fine_px, coarse_px, fine = _dropout_lengths(_sizes(holes))
    middle = np.sqrt(np.array(BAND_EDGES_M)[1:] * np.array(BAND_EDGES_M)[:-1])
    band_px = float(np.nanmean(holes.band_px - disparity_px_m / middle))
    known = np.flatnonzero(flat)
    depth_m = [math.sqrt(DEPTH_EDGES_M[k] * DEPTH_EDGES_M[k + 1]) for k in known]
    steps = UNIFORM_SD * surfaces.step_per_m
    sd = [math.sqrt(max(surfaces.sd_per_m[k] ** 2 - steps**2, 0.0)) / gain for k in known]
    return NoiseTable(
        source=source, licence=licence, focal_px=FOCAL_PX, disparity_px_m=round(disparity_px_m, 2),
        step_per_m=_short(surfaces.step_per_m), least_m=_short(holes.nearest_m), rim_px=holes.rim_px,
        rim_sd_px=holes.rim_sd_px, band_px=round(max(band_px, 0.0), 1),
        depth_m=[_short(one) for one in depth_m], sd_per_m=[_short(one) for one in sd],
        dropout=[_short(float(holes.dropout_by_depth[k])) for k in known], noise_px=noise_px,
        dropout_px=(fine_px, coarse_px), dropout_fine=fine,
    )  # fmt: skip


def same_scenes(model: DepthNoise, frames: Frames) -> Frames:
    """Return the model's output for the frames, with holes first filled by the background."""
    return _seen(model, fill_holes(frames, EDGE_PER_M))


def slanted_planes(model: DepthNoise, count: int) -> Frames:
    """Return the model's output for a floor from the nearest to the farthest depth class."""
    per_m = np.linspace(1.0 / DEPTH_EDGES_M[-1], 1.0 / DEPTH_EDGES_M[0], TRIAL_SHAPE[0])
    frame = np.repeat(1.0 / per_m[:, np.newaxis], TRIAL_SHAPE[1], axis=1)
    return _seen(model, np.repeat(frame[np.newaxis], count, axis=0))


def as_toml(numbers: NoiseTable) -> str:
    """Return the parameters as TOML text for `load_depth_noise`."""
    rows = numbers.model_dump(mode="json").items()
    text = "".join(f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {value}\n" for name, value in rows)
    return f"# Written by `onboard-hil depth-noise --out`; what each number is: NoiseTable in depth_noise.py.\n{text}"


def _seen(model: DepthNoise, frames: Frames) -> Frames:
    units = np.round(frames / UNIT_M).astype(np.uint16)
    return np.array([model.apply(frame, FOCAL_PX, UNIT_M, (k,)) for k, frame in enumerate(units)]) * UNIT_M


def _trial(**changes: float | tuple[float, ...]) -> Frames:
    """Return frames of a wall from a model whose only faults are the given changes."""
    none = NoiseTable(
        source="", licence="", focal_px=FOCAL_PX, disparity_px_m=1e-9, step_per_m=1e-9, least_m=0.0, rim_px=0.0,
        rim_sd_px=0.0, band_px=0.0, depth_m=(1.0, 10.0), sd_per_m=(0.0, 0.0), dropout=(0.0, 0.0), noise_px=1.0,
        dropout_px=(1.0, 1.0), dropout_fine=0.0,
    )  # fmt: skip
    wall = np.full((TRIALS, *TRIAL_SHAPE), 1.0 / TRIAL_PER_M)
    return _seen(DepthNoise(none.model_copy(update=changes)), wall)


def _noise_length(surfaces: SurfaceStatistics) -> tuple[float, float]:
    """Return (correlation length of the noise, fraction of the deviation that windows show).

    The length is the candidate whose deviation grows most like the measured one from windows to wide windows.
    """
    wanted = float(np.nanmedian((surfaces.wide_per_m / surfaces.sd_per_m)[FLOOR]))
    sd_per_m = (TRIAL_SD_PER_M, TRIAL_SD_PER_M)
    trials = [measure_surfaces(_trial(noise_px=length, sd_per_m=sd_per_m)) for length in NOISE_PX]
    shown = [float(np.nanmax(trial.sd_per_m)) for trial in trials]
    grown = [float(np.nanmax(trial.wide_per_m)) / sd for trial, sd in zip(trials, shown, strict=True)]
    best = int(np.argmin([abs(growth - wanted) for growth in grown]))
    return NOISE_PX[best], shown[best] / TRIAL_SD_PER_M


def _dropout_lengths(sizes: Row) -> tuple[float, float, float]:
    """Return (fine length, coarse length, fraction of fine) of the mixture with the best match of dropout sizes."""
    trial_share = (TRIAL_DROPOUT, TRIAL_DROPOUT)
    alone = [
        _sizes(measure_holes(_trial(dropout_px=(length, length), dropout_fine=0.0, dropout=trial_share)))
        for length in DROPOUT_PX
    ]
    best, least = (DROPOUT_PX[0], DROPOUT_PX[0], 1.0), math.inf
    for coarse in range(1, len(alone)):
        for fine in range(coarse):
            apart = alone[fine] - alone[coarse]
            part = min(max(float((sizes - alone[coarse]) @ apart / (apart @ apart)), 0.0), 1.0)
            error = float(((part * apart + alone[coarse] - sizes) ** 2).sum())
            if error < least:
                best, least = (DROPOUT_PX[fine], DROPOUT_PX[coarse], _short(part)), error
    return best


def _sizes(holes: HoleStatistics) -> Row:
    """Return the size distribution of dropouts: fraction in runs of each length, and fraction in single pixels."""
    return np.append(holes.run_share, holes.specks)


def _short(value: float) -> float:
    return float(f"{value:.3g}")
