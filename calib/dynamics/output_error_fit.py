"""The refined fit of one axis: parameters that make the roll-out of the model follow the measured speed.

The output-error method. No derivative of a noisy signal is taken, so noise does not bias the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from calib.dynamics.motion_log import Floats, MotionLog
from calib.dynamics.paper_fit import Fit, paper_fit
from calib.dynamics.response_model import (
    FINE_STEP_S,
    KEYS,
    PLANT_STEP_S,
    AxisLogs,
    P,
    axis_logs,
    first_order_speeds,
    greatest_rates,
    speeds,
)
from onboard.values.kernel import kernel

DELAYS_S = (0.0, 0.1, 0.2, 0.3, 0.4, 0.55)
FREQUENCIES = (3.0, 8.0)
"""Starts of the search."""
AGAIN_S = (0.02, 0.005)
"""The search begins again so far from the delay that it found: the error has a kink where a delay meets a row."""
ROUGH, FULL = 8, 60
"""Evaluations of a start and of the search from the best starts."""
START_RATE = 0.8
"""Start of the greatest acceleration, by the paper's estimate: low, so that it is active and can move."""
BEST_STARTS = 2
GAIN = len(P)
"""Place of the gain behind the parameters `P`: steady speed by commanded speed."""
LOWEST = np.array([0.3, 0.05, 0.3, 0.05, -0.05, 0.0, -np.inf, 1e-3, 1e-3, 0.05])
HIGHEST = np.array([50.0, 5.0, 50.0, 5.0, 1.5, np.inf, 0.0, 1e3, 1e3, 20.0])
LOGARITHMIC = [P.F_UP, P.ZETA_UP, P.F_DOWN, P.ZETA_DOWN, P.A_MAX_UP, P.A_MAX_DOWN, GAIN]
UNIT_GAIN = 0.05
"""The gain is 1 unless the sum of squares falls by more than this share with another."""
SURE = 10.0
"""Sum of squares, in variances of the residual, by which another integration step must be better than the logs' own."""
PART_S = 150.0
"""Duration of the logs on which the search starts."""
MOST_DAMPING = 1e6
DIFFERENCE = 1e-4
RESAMPLES = 400
BLOCK_S = 5.0
FEW_LOGS = 8
"""With fewer logs, the bootstrap draws blocks of `BLOCK_S` instead of logs."""
LIMITS = (P.V_MAX, P.V_MIN, P.A_MAX_UP, P.A_MAX_DOWN)


@dataclass(frozen=True, slots=True, eq=False)
class AxisFit:
    """The fit of an axis.

    parameters: (10,) in the order of `P`, then the gain
    step_s:     integration step for which the parameters hold
    sd:         (10,) of the bootstrap; 0 where the data do not state a parameter
    interval:   (10, 2) 95 % interval
    reached:    (10,) False for a limit that the base never reached; it is then the greatest value of the roll-outs
    rmse:       of the fresh rows
    """

    parameters: Floats
    step_s: float
    sd: Floats
    interval: Floats
    reached: npt.NDArray[np.bool_]
    rmse: float

    @property
    def gain(self) -> float:
        """Steady speed by commanded speed."""
        return float(self.parameters[GAIN])

    def fit(self) -> Fit:
        """Return the parameters by their names. A delay is at least 0."""
        values = {key: float(value) for key, value in zip(KEYS, self.parameters, strict=False)}
        return {**values, "delay_s": max(values["delay_s"], 0.0)}

    def intervals(self) -> dict[str, list[float] | None]:
        """Return the 95 % intervals by name; None for what the data do not state, and for limits not reached."""
        rows = zip(KEYS, self.interval, self.sd, self.reached, strict=False)
        return {
            key: [float(low), float(high)] if sd > 0.0 and reached else None for key, (low, high), sd, reached in rows
        }


def refined_fit(logs: Sequence[MotionLog], axis: str, dead_band: float = 0.0) -> AxisFit:
    """Return the fit of axis "v" or "w". dead_band: commands up to it count as zero.

    The search starts from several places on part of the logs. The integration step with the least error is taken.
    """
    data = with_dead_band(axis_logs(logs, axis), dead_band)
    part = with_dead_band(axis_logs(_part(logs), axis), dead_band)
    period_s = float(np.median(np.concatenate([np.diff(log.t_s) for log in logs])))
    steps = [PLANT_STEP_S, FINE_STEP_S]
    if 2 * FINE_STEP_S < period_s < PLANT_STEP_S / 1.5:
        steps.append(period_s)
    rate = START_RATE * max(
        (value for key in ("a_max_up", "a_max_down") if (value := paper_fit(logs, axis)[key])), default=1.0
    )
    starts = [
        _search(part, _start(data, f, delay_s, rate), steps[-1], ROUGH) for delay_s in DELAYS_S for f in FREQUENCIES
    ]
    starts.sort(key=lambda one: one[1])
    best = min((_search(part, start, steps[-1], FULL) for start, _ in starts[:BEST_STARTS]), key=lambda one: one[1])
    for away_s in AGAIN_S:
        again = (_search(data, _delayed(best[0], by_s), steps[-1], FULL) for by_s in (0.0, -away_s, away_s))
        best = min(again, key=lambda one: one[1])
    best = _with_unit_gain(data, best, steps[-1])
    fixed = (GAIN,) if best[0][GAIN] == 1.0 else ()
    fits = [(best, steps[-1]), *((_search(data, best[0], step_s, FULL, fixed), step_s) for step_s in steps[:-1])]
    (parameters, cost), step_s = min(fits, key=lambda one: one[0][1])
    own = next(fit for fit in fits if fit[1] == (PLANT_STEP_S if period_s > PLANT_STEP_S / 1.5 else steps[-1]))
    if own[0][1] - cost < SURE * _variance(data, parameters, step_s):
        (parameters, _), step_s = own
    return _with_intervals(data, logs, parameters, step_s)


def _variance(data: AxisLogs, parameters: Floats, step_s: float) -> float:
    residual = (model_speeds(data, parameters, step_s) - data.speed)[data.fresh]
    return float(np.median(np.abs(residual)) * 1.4826) ** 2


def _part(logs: Sequence[MotionLog]) -> list[MotionLog]:
    """Return logs of about `PART_S` in all, spread over all logs."""
    count = max(2, round(PART_S * len(logs) / sum(log.seconds for log in logs)))
    return list(logs[:: max(1, len(logs) // count)])


def plant_fit(
    logs: Sequence[MotionLog], axis: str, refined: AxisFit, delay_s: float, dead_band: float = 0.0
) -> AxisFit:
    """Return the fit for the simulated base: its integration step, and a given delay."""
    data = with_dead_band(axis_logs(logs, axis), dead_band)
    start = refined.parameters.copy()
    start[P.DELAY_S] = delay_s
    parameters, _ = _search(data, start, PLANT_STEP_S, FULL, fixed=(P.DELAY_S, GAIN))
    return _with_intervals(data, logs, parameters, PLANT_STEP_S)


def first_order_fit(logs: Sequence[MotionLog], axis: str) -> tuple[float, float]:
    """Return delay and time constant [s] of a first-order model, fitted by its roll-out error."""
    data = axis_logs(logs, axis)

    def residual(x: Floats) -> Floats:
        return (first_order_speeds(data, x[0], x[1], FINE_STEP_S) - data.speed)[data.fresh]

    options = {"bounds": ([0.0, 0.01], [1.5, 20.0]), "diff_step": 0.02, "loss": "soft_l1", "f_scale": _scale(data)}
    found = min(
        (least_squares(residual, [delay_s + 0.01, 0.3], **options) for delay_s in DELAYS_S), key=lambda s: s.cost
    )
    return float(found.x[0]), float(found.x[1])


def model_speeds(logs: AxisLogs, parameters: Floats, step_s: float) -> Floats:
    """Return (n,) the speeds of the model with its gain. parameters: (9,) or (10,)."""
    gain = parameters[GAIN] if len(parameters) > GAIN else 1.0
    scaled = logs if gain == 1.0 else replace(logs, command=logs.command * gain)
    return speeds(scaled, parameters, step_s)


def with_dead_band(logs: AxisLogs, dead_band: float) -> AxisLogs:
    """Return the logs with zero for each command within the dead band."""
    return replace(logs, command=np.where(np.abs(logs.command) <= dead_band, 0.0, logs.command))


def _start(data: AxisLogs, f: float, delay_s: float, rate: float) -> Floats:
    """Return a start of the search. Limits start low, where they are active and so can move."""
    high, low = np.percentile(data.speed, [99.8, 0.2])
    return np.array([f, 0.8, f, 0.8, delay_s, max(high, 1e-3), min(low, -1e-3), rate, rate, 1.0])


def _delayed(parameters: Floats, by_s: float) -> Floats:
    """Return the parameters with a longer delay, at least 0."""
    moved: Floats = parameters.copy()
    moved[P.DELAY_S] = max(0.0, moved[P.DELAY_S] + by_s)
    return moved


def _scale(data: AxisLogs) -> float:
    """Return the residual from which the loss is robust."""
    noise = 1.4826 * np.median(np.abs(np.diff(data.speed[data.fresh]))) / np.sqrt(2.0)
    return max(3.0 * float(noise), 0.05 * float(np.abs(data.speed).max()), 1e-6)


def _search(
    data: AxisLogs, start: Floats, step_s: float, evaluations: int, fixed: Sequence[int] = ()
) -> tuple[Floats, float]:
    """Return the parameters of the least robust sum of squares near a start, and the sum: Levenberg-Marquardt.

    scipy's `least_squares` takes an SVD of all rows at each step, which waits for the threads of BLAS; ten parameters
    need sums of products only.
    """
    free = np.array([place for place in range(len(start)) if place not in fixed])
    log = np.isin(free, LOGARITHMIC)

    def parameters(x: Floats) -> Floats:
        full: Floats = start.copy()
        full[free] = np.where(log, np.exp(np.where(log, x, 0.0)), x)
        return full

    def inner(values: Floats) -> Floats:
        inside: Floats = np.where(log, np.log(np.where(log, values[free], 1.0)), values[free])
        return inside

    def residual(x: Floats) -> Floats:
        away: Floats = (model_speeds(data, parameters(x), step_s) - data.speed)[data.fresh]
        return away

    low, high, scale = inner(LOWEST), inner(HIGHEST), _scale(data)
    x = np.clip(inner(start), low, high)
    now = residual(x)
    cost, damping, blocks = _cost(now, scale), 1e-3, np.zeros(len(now), np.int64)
    for _ in range(evaluations):
        jacobian = np.stack([(residual(x + step) - now) / DIFFERENCE for step in DIFFERENCE * np.eye(len(x))])
        normals, gradients = block_sums(jacobian, now, _weight(now, scale), blocks, 1)
        normal, gradient, before = normals[0], gradients[0], cost
        scaling = np.diag(normal) + 1e-9 * normal.max() + 1e-12
        while damping < MOST_DAMPING:
            tried = np.clip(x - np.linalg.solve(normal + damping * np.diag(scaling), gradient), low, high)
            moved = residual(tried)
            if _cost(moved, scale) < cost:
                x, now, cost, damping = tried, moved, _cost(moved, scale), max(damping / 5.0, 1e-9)
                break
            damping *= 4.0
        if before - cost < 1e-7 * before:
            break
    return parameters(x), cost


def _cost(residual: Floats, scale: float) -> float:
    """Return half the robust sum of squares (soft L1)."""
    return float(np.sum(scale * scale * (np.sqrt(1.0 + (residual / scale) ** 2) - 1.0)))


def _weight(residual: Floats, scale: float) -> Floats:
    """Return the weight of each squared residual in the gradient of the robust sum."""
    weight: Floats = (1.0 + (residual / scale) ** 2) ** -0.5
    return weight


@kernel
def block_sums(
    jacobian: Floats, residual: Floats, weight: Floats, blocks: npt.NDArray[np.int64], count: int
) -> tuple[Floats, Floats]:
    """Return (count, p, p) weighted J^T J and (count, p) weighted J^T r of each block of rows. jacobian: (p, n)."""
    size, rows = jacobian.shape
    normal, gradient = np.zeros((count, size, size)), np.zeros((count, size))
    for i in range(size):
        for row in range(rows):
            gradient[blocks[row], i] += weight[row] * jacobian[i, row] * residual[row]
        for j in range(i + 1):
            for row in range(rows):
                normal[blocks[row], i, j] += weight[row] * jacobian[i, row] * jacobian[j, row]
    for i in range(size):
        for j in range(i):
            normal[:, j, i] = normal[:, i, j]
    return normal, gradient


def _with_unit_gain(data: AxisLogs, best: tuple[Floats, float], step_s: float) -> tuple[Floats, float]:
    start = best[0].copy()
    start[GAIN] = 1.0
    unit = _search(data, start, step_s, FULL, fixed=(GAIN,))
    return unit if unit[1] <= best[1] * (1.0 + UNIT_GAIN) else best


def _with_intervals(data: AxisLogs, logs: Sequence[MotionLog], parameters: Floats, step_s: float) -> AxisFit:
    """Return the fit with its intervals, from one Gauss-Newton step for each resample of blocks."""
    residual = (model_speeds(data, parameters, step_s) - data.speed)[data.fresh]
    columns = []
    for place in range(len(parameters)):
        step = DIFFERENCE * max(abs(parameters[place]), 0.1)
        sides = [parameters.copy(), parameters.copy()]
        sides[0][place] += step
        sides[1][place] -= step
        high, low = (model_speeds(data, side, step_s)[data.fresh] for side in sides)
        columns.append((high - low) / (2.0 * step))
    jacobian = np.stack(columns)
    if parameters[GAIN] == 1.0:
        jacobian[GAIN] = 0.0
    blocks = _blocks(logs)[data.fresh]
    count = int(blocks.max()) + 1
    normal, gradient = block_sums(jacobian, residual, _weight(residual, _scale(data)), blocks, count)
    stated = np.flatnonzero(np.abs(jacobian).sum(axis=1) > 1e-6)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1.0 / count), RESAMPLES)
    moved = np.tile(parameters, (RESAMPLES, 1))
    for resample, weights in zip(moved, drawn, strict=True):
        matrix = np.tensordot(weights, normal, 1)[np.ix_(stated, stated)]
        resample[stated] -= np.linalg.lstsq(matrix, (weights @ gradient)[stated], rcond=1e-10)[0]
    spread = moved - moved.mean(axis=0) + parameters
    reached = np.isin(np.arange(len(parameters)), [*stated, *(p for p in range(len(parameters)) if p not in LIMITS)])
    up, down = greatest_rates(replace(data, command=data.command * parameters[GAIN]), parameters[: len(P)], step_s)
    model = model_speeds(data, parameters, step_s)
    seen = {
        P.V_MAX: max(float(model.max()), 0.0),
        P.V_MIN: min(float(model.min()), 0.0),
        P.A_MAX_UP: up,
        P.A_MAX_DOWN: down,
    }
    estimate = parameters.copy()
    for place, value in seen.items():
        if not reached[place]:
            estimate[place] = value
    return AxisFit(
        estimate, step_s, moved.std(axis=0), np.percentile(spread, [2.5, 97.5], axis=0).T, reached,
        float(np.sqrt(np.mean(residual**2))),
    )  # fmt: skip


def _blocks(logs: Sequence[MotionLog]) -> npt.NDArray[np.int64]:
    """Return the block of each row: its log, or its stretch of `BLOCK_S` where there are few logs."""
    numbers, count = [], 0
    for log in logs:
        inside = np.zeros(len(log.t_s), np.int64) if len(logs) >= FEW_LOGS else (log.t_s // BLOCK_S).astype(np.int64)
        numbers.append(inside + count)
        count = int(numbers[-1].max()) + 1
    return np.concatenate(numbers)
