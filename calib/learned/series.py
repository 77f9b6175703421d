"""Logs as series of one period: what the models learn from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calib.dynamics.motion_log import Floats, MotionLog
from calib.learned.compiled_rollouts import roll_plant
from hil.physics.motion.learned import STATE, history_rows
from onboard.config.plant_model import Plant
from onboard.values.errors import InputError

Ints = npt.NDArray[np.int64]

WINDOW_S = 0.2
"""The command window of paper 3."""
LEAST_ROWS = 3
PAUSE_S = 0.5
"""A log with a longer time between two rows is two logs: the motion in between is unknown."""
WHOLE_RATE = 5e-3
"""Rounded stamps make a rate differ from a whole number by less than this share."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Rows of all logs, one log after the other, `period_s` apart.

    commands: (n, 2) current command from the row to the next [m/s, rad/s]
    poses:    (n, 3) measured x, y [m], yaw [rad] without jumps of a turn
    twists:   (logs, 2) measured twist in the first row of each log
    first:    (logs + 1,) first row of each log, and n
    """

    period_s: float
    commands: Floats
    poses: Floats
    twists: Floats
    first: Ints

    def __len__(self) -> int:
        return len(self.commands)

    def spans(self, begin: float, end: float) -> Ints:
        """Return (logs, 2) the rows from share `begin` to share `end` of each log."""
        count = np.diff(self.first)
        rows = [self.first[:-1] + np.round(share * count).astype(np.int64) for share in (begin, end)]
        return np.stack(rows, axis=1)

    def relative(self, starts: Ints, offsets: Ints) -> Floats:
        """Return (starts, offsets, 3) measured poses in the frame of the pose at each start."""
        origin = self.poses[starts][:, None]
        away = self.poses[starts[:, None] + offsets] - origin
        c, s = np.cos(origin[..., 2]), np.sin(origin[..., 2])
        x, y = c * away[..., 0] + s * away[..., 1], c * away[..., 1] - s * away[..., 0]
        return np.stack([x, y, away[..., 2]], axis=-1)


def starts_in(spans: Ints, length: int, every: int = 1) -> Ints:
    """Return the rows, each `every`, from which a roll-out of `length` steps stays within its span."""
    return np.concatenate([np.arange(a, b - length, every) for a, b in spans])


def longest_in(spans: Ints) -> int:
    """Return the steps of the longest span."""
    return int(np.diff(spans, axis=1).max()) - 1


def series_of(logs: Sequence[MotionLog], period_s: float | None = None) -> Series:
    """Return logs of any rates as one series. period_s: None for that of the first log's rows

    Poses are interpolated, commands held. Raises InputError for logs without pose, or too short.
    """
    for log in logs:
        if log.pose is None:
            raise InputError(f"{log.name}: no pose: x_m, y_m and yaw_rad are needed in addition to the commands")
    period = _period_s(logs[0]) if period_s is None else period_s
    commands, poses, twists, first = [], [], [], [0]
    for log in logs:
        assert log.pose is not None
        t_s = np.arange(math.floor(log.seconds / period + 1e-3) + 1) * period
        if len(t_s) < LEAST_ROWS:
            raise InputError(f"{log.name}: {log.seconds:.3g} s, must be at least {(LEAST_ROWS - 1) * period:.3g} s")
        held = np.searchsorted(log.t_s, t_s + 1e-3 * period, side="right") - 1
        commands.append(np.column_stack([log.v_cmd[held], log.w_cmd[held]]))
        columns = (log.pose[:, 0], log.pose[:, 1], np.unwrap(log.pose[:, 2]))
        poses.append(np.column_stack([np.interp(t_s, log.t_s, column) for column in columns]))
        twists.append((log.v[0], log.w[0]))
        first.append(first[-1] + len(t_s))
    return Series(period, np.concatenate(commands), np.concatenate(poses), np.array(twists), np.array(first))


def without_pauses(logs: Sequence[MotionLog]) -> list[MotionLog]:
    """Return the logs, each split where two rows lie more than `PAUSE_S` apart; parts of too few rows are dropped."""
    parts = []
    for log in logs:
        edges = [0, *(np.flatnonzero(np.diff(log.t_s) > PAUSE_S) + 1), len(log.t_s)]
        for a, b in itertools.pairwise(edges):
            if b - a >= LEAST_ROWS or len(edges) == 2:
                columns = {name: getattr(log, name)[a:b] for name in ("t_s", "v_cmd", "w_cmd", "v", "w")}
                parts.append(replace(log, **columns, pose=None if log.pose is None else log.pose[a:b]))
    return parts


def fitting_period_s(period_s: float, tick_s: float) -> float:
    """Return the period nearest to `period_s` of which a simulated tick is a whole number."""
    return tick_s / max(1, round(tick_s / period_s))


def _period_s(log: MotionLog) -> float:
    """Return the median time between rows; where the rate is nearly a whole number, that of the whole number."""
    period = float(np.median(np.diff(log.t_s)))
    rate = round(1.0 / period)
    return 1.0 / rate if rate and abs(1.0 / period - rate) < WHOLE_RATE * rate else period


# ---- What a model sees in each row


def lags_of(period_s: float) -> int:
    """Return how many older commands the window holds in addition to the present one."""
    return max(round(WINDOW_S / period_s), 1)


def history(series: Series, rows: int) -> Floats:
    """Return (n, rows, 2) the commands of now and of earlier rows, newest first.

    Before its first row a base is taken to follow a command equal to its first speed, as in `response_model.speeds`.
    """
    table = np.empty((len(series), rows, 2))
    for log, (a, b) in enumerate(zip(series.first[:-1], series.first[1:], strict=True)):
        padded = np.concatenate([np.repeat(series.twists[log][None], rows - 1, axis=0), series.commands[a:b]])
        for lag in range(rows):
            table[a:b, lag] = padded[rows - 1 - lag : rows - 1 - lag + b - a]
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What models see of a series.

    window:  (n, 2 (lags + 1)) commands v, w of now, then of each earlier row of the window
    late:    (n, 2) command after the latency of the plant
    nominal: (n, 4) state of the plant at the end of the row's step: v, w and their rates
    before:  (n, 4) the same at its begin
    """

    window: Floats
    late: Floats
    nominal: Floats
    before: Floats


def seen_of(series: Series, plant: Plant) -> Seen:
    """Return what models see. plant: the analytic part"""
    lags, late = lags_of(series.period_s), plant.base.command_delay_s / series.period_s
    table = history(series, history_rows(lags, late))
    older, share = math.floor(late), late - math.floor(late)
    delayed = np.ascontiguousarray((1.0 - share) * table[:, older] + share * table[:, older + 1])
    window = np.ascontiguousarray(table[:, : lags + 1].reshape(len(series), -1))
    initial = np.concatenate([series.twists, np.zeros_like(series.twists)], axis=1)
    nominal, before = np.empty((len(series), STATE)), np.empty((len(series), STATE))
    roll_plant(delayed, series.first[:-1], initial, axes_of(plant), series.period_s, nominal, before)
    return Seen(window, delayed, nominal, before)


def axes_of(plant: Plant) -> Floats:
    """Return (2, 7) both axes."""
    return np.stack([plant.linear.as_array(), plant.angular.as_array()])


def motion_by(speeds: Floats, period_s: float) -> Floats:
    """Return (n, 3) the motion of each step in the frame of its begin, by speeds (n, 2), as `plant_model.step` does."""
    turned, way = period_s * speeds[:, 1], period_s * speeds[:, 0]
    return np.column_stack([way * np.cos(turned), way * np.sin(turned), turned])
