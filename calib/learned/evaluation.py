"""Roll-out errors of models on held-out rows: the table of paper 3. Needs no PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calib.learned.compiled_rollouts import Floats, Ints, forward_posed, roll_learned
from calib.learned.series import Series, history, lags_of, motion_by, seen_of, starts_in
from hil.physics.motion.learned import LearnedModel
from onboard.config.plant_model import Plant

LENGTHS = (1, 8, 64, 512, 4096, 32768)
MOST_WINDOWS = 2000
"""Windows overlap where there are fewer; longer roll-outs begin at fewer places."""
MOST_ROWS = 4_000_000


def plant_motion(series: Series, plant: Plant) -> Floats:
    """Return (n, 3) the motion of a second-order plant in each step, from each log's begin on."""
    return motion_by(seen_of(series, plant).nominal[:, :2], series.period_s)


def commanded_motion(series: Series) -> Floats:
    """Return (n, 3) the motion of a base that follows each command at once."""
    return motion_by(series.commands, series.period_s)


def learned_motion(series: Series, model: LearnedModel) -> Floats:
    """Return (n, 3) the motion of an egocentric model in each step, by the compiled step of the simulator."""
    motion = np.empty((len(series), 3))
    roll_learned(
        model.kind, model.numbers(), model.weights, model.sizes, series.commands, series.first, series.twists,
        model.memory(), motion,
    )  # fmt: skip
    return motion


def path_of(motion: Floats) -> Floats:
    """Return (n + 1, 3) poses from steps (n, 3), from the origin on."""
    yaw = np.concatenate([[0.0], np.cumsum(motion[:, 2])])
    c, s = np.cos(yaw[:-1]), np.sin(yaw[:-1])
    x = np.cumsum(c * motion[:, 0] - s * motion[:, 1])
    y = np.cumsum(s * motion[:, 0] + c * motion[:, 1])
    return np.column_stack([np.concatenate([[0.0], x]), np.concatenate([[0.0], y]), yaw])


def _starts(spans: Ints, length: int) -> Ints:
    starts = starts_in(spans, length)
    most = max(min(MOST_WINDOWS, MOST_ROWS // length), 1)
    chosen = np.linspace(0, len(starts) - 1, min(most, len(starts))).round().astype(np.int64)
    return np.asarray(starts[np.unique(chosen)])


def rmse_m(series: Series, motion: Floats, spans: Ints, lengths: Sequence[int]) -> dict[int, float]:
    """Return the step-average position error by roll-out length [m]: root of the mean square over windows and steps.

    Each roll-out begins at a measured pose. A length without a window is left out.
    """
    path, found = path_of(motion), {}
    for length in lengths:
        starts = _starts(spans, length)
        if len(starts):
            offsets = np.arange(1, length + 1)
            squares = [_squares(series, path, starts[i : i + 1], offsets) for i in range(len(starts))]
            found[length] = math.sqrt(float(np.mean(squares)))
    return found


def _squares(series: Series, path: Floats, starts: Ints, offsets: Ints) -> float:
    measured = series.relative(starts, offsets)
    origin = path[starts][:, None]
    away = path[starts[:, None] + offsets] - origin
    c, s = np.cos(origin[..., 2]), np.sin(origin[..., 2])
    x, y = c * away[..., 0] + s * away[..., 1], c * away[..., 1] - s * away[..., 0]
    return float(np.mean((x - measured[..., 0]) ** 2 + (y - measured[..., 1]) ** 2))


def posed_rmse_m(series: Series, model: LearnedModel, spans: Ints, lengths: Sequence[int]) -> dict[int, float]:
    """Return the same of a linear model without the egocentric transform."""
    window = history(series, lags_of(series.period_s) + 1).reshape(len(series), -1)
    inputs, outputs = model.sizes
    matrix, bias = model.weights[: inputs * outputs].reshape(inputs, outputs), model.weights[inputs * outputs :]
    moved = window @ matrix + bias
    found = {}
    for length in lengths:
        starts = _starts(spans, length)
        if len(starts):
            squares = []
            for start in starts:
                path = np.empty((1, length + 1, 3))
                path[:, 0] = series.poses[start]
                forward_posed(model.own, moved, np.array([start]), 2 if model.transform == "translational" else 0, path)
                away = path[0, 1:, :2] - series.poses[start + 1 : start + length + 1, :2]
                squares.append(float(np.mean(np.sum(away**2, axis=1))))
            found[length] = math.sqrt(float(np.mean(squares)))
    return found
