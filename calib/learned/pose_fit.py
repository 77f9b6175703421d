"""The analytic model with parameters fitted to measured poses, as the tuned hand formula of paper 3."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from calib.learned.compiled_rollouts import Floats, Ints
from calib.learned.evaluation import path_of, plant_motion
from calib.learned.series import Series, longest_in, starts_in
from onboard.config.plant_model import BaseTable, Plant

LENGTH, WINDOWS, POINTS = 512, 200, 32
"""Steps of the roll-outs that are compared, how many begin in the rows, and points of each."""
LOWEST, HIGHEST = (1.0,) * 4 + (0.3,) * 4 + (0.0,), (30.0,) * 4 + (3.0,) * 4 + (0.4,)
"""Bounds of frequencies [1/s], dampings [1] and latency [s]; a step of 1/60 s is stable within them."""
NAMES = ("f_up", "f_down", "zeta_up", "zeta_down")


def fitted_to_poses(series: Series, plant: Plant, spans: Ints) -> Plant:
    """Return the plant whose roll-outs leave the least square error to the poses of `spans`, (k, 2) rows.

    Frequencies, dampings and latency are fitted; the limits of speed and acceleration stay those of `plant`.
    """
    length = min(LENGTH, longest_in(spans))
    starts = starts_in(spans, length)
    starts = starts[np.linspace(0, len(starts) - 1, min(WINDOWS, len(starts))).round().astype(np.int64)]
    offsets = np.linspace(1, length, min(POINTS, length)).round().astype(np.int64)
    measured = series.relative(starts, offsets)
    spread = np.sqrt(np.mean(measured**2, axis=(0, 1)))
    spread[:2] = np.hypot(*spread[:2])

    def away(parameters: Floats) -> Floats:
        path = path_of(plant_motion(series, _with(plant, parameters)))
        rolled = Series(series.period_s, series.commands, path[:-1], series.twists, series.first)
        return np.asarray(((rolled.relative(starts, offsets) - measured) / spread).ravel())

    axes = (plant.linear, plant.angular)
    begun = [getattr(axis, name) for name in NAMES for axis in axes] + [plant.base.command_delay_s]
    begun = np.clip(begun, np.array(LOWEST) + 1e-3, np.array(HIGHEST) - 1e-3)
    found = least_squares(away, begun, bounds=(LOWEST, HIGHEST), diff_step=1e-3, x_scale=np.array(HIGHEST), max_nfev=40)
    return _with(plant, found.x)


def _with(plant: Plant, parameters: Floats) -> Plant:
    own = [dict(zip(NAMES, parameters[side:8:2].tolist(), strict=True)) for side in (0, 1)]
    return plant.model_copy(
        update={
            "linear": plant.linear.model_copy(update=own[0]),
            "angular": plant.angular.model_copy(update=own[1]),
            "base": BaseTable(command_delay_s=float(parameters[8]), command_timeout_s=plant.base.command_timeout_s),
        }
    )
