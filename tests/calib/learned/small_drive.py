"""A short drive of a base that slips in turns, and its series."""

from __future__ import annotations

import functools

import numpy as np

from calib.dynamics.motion_log import MotionLog
from calib.learned.evaluation import path_of
from calib.learned.series import Series, motion_by, seen_of, series_of
from onboard.config.plant_model import BaseTable, Plant
from tests.rigs.learned_models import PLANT

BASE = PLANT.model_copy(update={"base": BaseTable(command_delay_s=0.05)})
PERIOD_S = 1.0 / 60.0


@functools.cache
def slipping(rows: int = 4000, seed: int = 1) -> MotionLog:
    """Return a log of commands held for a while; the body turns less than its wheels, by 0.1 of |w|."""
    rng = np.random.default_rng(seed)
    held = 40
    commands = np.repeat(rng.uniform((-0.2, -2.0), (0.8, 2.0), (rows // held + 1, 2)), held, axis=0)[:rows]
    t_s = np.arange(rows) * PERIOD_S
    still = MotionLog("drive", t_s, commands[:, 0], commands[:, 1], np.zeros(rows), np.zeros(rows), np.zeros((rows, 3)))
    speeds = seen_of(series_of([still]), BASE).nominal[:, :2]
    slipped = speeds * np.column_stack([np.ones(rows), 1.0 - 0.1 * np.abs(speeds[:, 1])])
    poses = path_of(motion_by(slipped, PERIOD_S))[:-1]
    wheels = np.concatenate([[[0.0, 0.0]], speeds[:-1]])
    return MotionLog("drive", t_s, commands[:, 0], commands[:, 1], wheels[:, 0], wheels[:, 1], poses)


def series(rows: int = 4000) -> Series:
    """Return the series of such a drive."""
    return series_of([slipping(rows)])


def plant() -> Plant:
    """Return the plant of the wheels."""
    return BASE
