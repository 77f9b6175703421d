"""The dynamics of a base from its logs: the paper's fit, its adjustment, the refined fit, and their roll-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calib.dynamics.drift import drifts, path
from calib.dynamics.motion_log import Floats, MotionLog
from calib.dynamics.output_error_fit import (
    AxisFit,
    first_order_fit,
    model_speeds,
    plant_fit,
    refined_fit,
    with_dead_band,
)
from calib.dynamics.paper_fit import Fit, adjusted_fit, paper_fit
from calib.dynamics.plausibility import check, dead_band, gaps
from calib.dynamics.response_model import (
    FINE_STEP_S,
    KEYS,
    PLANT_STEP_S,
    AxisLogs,
    P,
    axis_logs,
    first_order_speeds,
)
from onboard.config.plant_model import Axis, BaseTable, Plant
from onboard.values.errors import InputError

DRIFT_S = 10.0
AXES = {"linear": "v", "angular": "w"}
GAIN_OFF = 0.1
"""A gain farther from 1 than this is reported."""
POOR_FIT = 0.15
"""Share of the speed's root mean square; a roll-out error above it makes the fit doubtful."""
DELAYS_DIFFER_S = 1.0 / 30.0
WIDE = 0.1
"""Half of an interval of f or delay, by the value; a wider one makes the fit doubtful."""


@dataclass(frozen=True, slots=True, eq=False)
class Identification:
    """The result for both axes.

    refined:   fit by axis name, "linear" and "angular"
    paper, adjusted: the paper's fit and the one with zeta = 0.7
    dead_band: greatest unanswered command by axis [m/s, rad/s]
    rmse:      roll-out error of the refined fit, as in the JSON
    plant:     the fit for the simulated base
    notes:     what the operator must know, a line each
    accepted:  whether the fit describes the logs
    """

    refined: dict[str, AxisFit]
    paper: dict[str, Fit]
    adjusted: dict[str, Fit]
    dead_band: dict[str, float]
    rmse: dict[str, float]
    plant: Plant
    notes: tuple[str, ...]
    accepted: bool

    def as_json(self) -> dict[str, Any]:
        """Return the result: the refined fit by axis, its errors and intervals, and the other fits."""
        refined = {name: fit.fit() for name, fit in self.refined.items()}
        return {
            **refined,
            "rollout_rmse": self.rmse,
            "ci95": {name: fit.intervals() for name, fit in self.refined.items()},
            "fits": {"paper": self.paper, "adjusted": self.adjusted, "refined": refined},
            "accepted": self.accepted,
            "notes": list(self.notes),
            "step_s": {name: fit.step_s for name, fit in self.refined.items()},
            "gain": {name: fit.gain for name, fit in self.refined.items()},
            "dead_band": self.dead_band,
        }


def identify(logs: Sequence[MotionLog]) -> Identification:
    """Return the dynamics. Raises InputError for logs from which no sound fit can come."""
    check(logs)
    dead = {name: dead_band(logs, axis) for name, axis in AXES.items()}
    refined = {name: refined_fit(logs, axis, dead[name]) for name, axis in AXES.items()}
    paper = {name: paper_fit(logs, axis) for name, axis in AXES.items()}
    adjusted = {name: adjusted_fit(fit) for name, fit in paper.items()}
    rmse = errors(logs, {name: _rolled(logs, name, fit, dead[name]) for name, fit in refined.items()})
    notes, accepted = _notes(logs, refined, dead)
    return Identification(refined, paper, adjusted, dead, rmse, _plant(logs, refined, dead), tuple(notes), accepted)


def _rolled(logs: Sequence[MotionLog], name: str, fit: AxisFit, dead: float) -> Floats:
    return model_speeds(with_dead_band(axis_logs(logs, AXES[name]), dead), fit.parameters, fit.step_s)


def errors(logs: Sequence[MotionLog], rolled: dict[str, Floats]) -> dict[str, float]:
    """Return the root mean square errors of speeds at all rows, and of the pose after 10 s.

    rolled: (n,) speeds of "linear" and "angular" over all logs. A log shorter than 10 s counts with its whole
    duration, and its drift is scaled to 10 s.
    """
    v, w = axis_logs(logs, "v"), axis_logs(logs, "w")
    away = []
    for log, begin, end in zip(logs, v.first[:-1], v.first[1:], strict=True):
        window_s = min(DRIFT_S, log.seconds)
        predicted = path(log.t_s, rolled["linear"][begin:end], rolled["angular"][begin:end])
        away.append(drifts(log.t_s, path(log.t_s, log.v, log.w), predicted, window_s) * (DRIFT_S / window_s))
    position, yaw = np.sqrt(np.mean(np.concatenate(away) ** 2, axis=0))
    return {
        "v": _rms(rolled["linear"] - v.speed),
        "w": _rms(rolled["angular"] - w.speed),
        "position_m_per_10s": float(position),
        "yaw_rad_per_10s": float(yaw),
    }


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _notes(logs: Sequence[MotionLog], refined: dict[str, AxisFit], dead: dict[str, float]) -> tuple[list[str], bool]:
    notes, accepted = gaps(logs), True
    if any(log.pose is None for log in logs):
        notes.append("without x_m, y_m and yaw_rad the units of v (m/s) and w (rad/s) cannot be verified: check them")
    for name, fit in refined.items():
        data, command = axis_logs(logs, AXES[name]), f"{AXES[name]}_cmd"
        values = fit.fit()
        if fit.rmse > POOR_FIT * _rms(data.speed):
            accepted = False
            notes.append(f"{name}: the roll-out error is {100 * fit.rmse / _rms(data.speed):.0f} % of the speed")
        for place in (P.F_UP, P.F_DOWN, P.DELAY_S):
            half, value = float(np.ptp(fit.interval[place])) / 2.0, float(fit.parameters[place])
            if place != P.DELAY_S and value * PLANT_STEP_S > 1.0:
                continue
            if half > WIDE * max(value, 0.1 if place == P.DELAY_S else 0.0):
                accepted = False
                notes.append(f"{name}: {KEYS[place]} = {value:.3g} is known only to within {half:.2g}")
        if lags := [
            f"{2e3 * fit.parameters[zeta] / fit.parameters[f]:.0f} ms ({KEYS[f]})"
            for f, zeta in ((P.F_UP, P.ZETA_UP), (P.F_DOWN, P.ZETA_DOWN))
            if fit.parameters[f] * PLANT_STEP_S > 1.0
        ]:
            notes.append(
                f"{name}: a ramp with a loop behind it that is faster than a tick: of f and zeta only the lag "
                f"2 zeta / f counts, {' and '.join(lags)}"
            )
        if abs(fit.gain - 1.0) > GAIN_OFF:
            accepted = False
            notes.append(
                f"{name}: the steady speed is {fit.gain:.2f} times {command}: check wheel radius and track "
                f"width in the base's driver; a plant has no such factor"
            )
        if dead[name] > 0.0:
            notes.append(
                f"{name}: no response to commands up to {dead[name]:.3g}: a dead band, which plant.toml cannot express"
            )
        open_ends = [KEYS[place] for place in (P.V_MAX, P.V_MIN, P.A_MAX_UP, P.A_MAX_DOWN) if not fit.reached[place]]
        if open_ends:
            notes.append(f"{name}: limit not reached, so the largest value seen: {', '.join(open_ends)}")
        fresh = float(np.mean(data.fresh))
        if fresh < 0.9:
            notes.append(
                f"{name}: {100 * (1 - fresh):.0f} % of the rows repeat an older measurement; they are not used"
            )
        if values["delay_s"] == 0.0 and fit.parameters[P.DELAY_S] < -0.01:
            notes.append(f"{name}: the speed leads its command by {-fit.parameters[P.DELAY_S]:.3f} s: check the clocks")
    first, second = (max(fit.parameters[P.DELAY_S], 0.0) for fit in refined.values())
    if abs(first - second) > DELAYS_DIFFER_S:
        notes.append(
            f"the delays differ, {first:.3f} s and {second:.3f} s; plant.toml has one delay, so it gets their mean"
        )
    return notes, accepted


def _plant(logs: Sequence[MotionLog], refined: dict[str, AxisFit], dead: dict[str, float]) -> Plant:
    """Return the fit for the simulated base: step of 1/30 s, and one delay.

    A limit of the acceleration that the base never reached is at least that of the other phase.

    The simulated base delays a command by whole steps, rounded up. So the delay is at most the nearest whole step.
    """
    mean_s = float(np.mean([max(fit.parameters[P.DELAY_S], 0.0) for fit in refined.values()]))
    delay_s = round(mean_s / PLANT_STEP_S) * PLANT_STEP_S
    stated_s = max(min(mean_s, delay_s - 1e-4), 0.0)
    axes = {}
    for name, fit in refined.items():
        fitted = plant_fit(logs, AXES[name], fit, delay_s, dead[name])
        value = {key: float(parameter) for key, parameter in zip(KEYS, fitted.parameters, strict=False)}
        both = value["a_max_up"], value["a_max_down"]
        up, down = (
            _round(rate if fitted.reached[place] else max(both))
            for rate, place in zip(both, (P.A_MAX_UP, P.A_MAX_DOWN), strict=True)
        )
        axes[name] = Axis(
            f_up=_round(value["f_up"]),
            f_down=_round(value["f_down"]),
            zeta_up=_round(value["zeta_up"]),
            zeta_down=_round(value["zeta_down"]),
            speed_min=_round(value["v_min"]),
            speed_max=_round(value["v_max"]),
            acceleration_max=up,
            deceleration_max=None if down == up else down,
        )
    return Plant(linear=axes["linear"], angular=axes["angular"], base=BaseTable(command_delay_s=round(stated_s, 4)))


def _round(value: float) -> float:
    return float(f"{value:.4g}")


# ---- Held-out logs


def held_out(logs: Sequence[MotionLog], every: int) -> dict[str, dict[str, float]]:
    """Return the errors of each model on every `every`-th log; the others are what the models are fitted to.

    Models: the paper's plain fit and its adjustment, a first-order lag with a delay, and the refined fit.

    Raises InputError for a single log.
    """
    if len(logs) < 2:
        raise InputError(f"{logs[0].name}: --held-out needs separate logs to fit and to judge: use at least two")
    judged = list(logs[::every])
    fitted = [log for number, log in enumerate(logs) if number % every]
    found = identify(fitted)
    rolled: dict[str, dict[str, Floats]] = {"paper": {}, "adjusted": {}, "first order with delay": {}, "refined": {}}
    for name, axis in AXES.items():
        data = axis_logs(judged, axis)
        for model, fits in (("paper", found.paper), ("adjusted", found.adjusted)):
            rolled[model][name] = _rolled_paper(data, fits[name])
        rolled["first order with delay"][name] = first_order_speeds(data, *first_order_fit(fitted, axis), FINE_STEP_S)
        rolled["refined"][name] = _rolled(judged, name, found.refined[name], found.dead_band[name])
    return {model: errors(judged, speeds) for model, speeds in rolled.items()}


def _rolled_paper(data: AxisLogs, fit: Fit) -> Floats:
    """Return the paper's roll-out: its fast loop of 1/30 s. A phase without a fit takes the other phase's."""
    values = dict(fit)
    for name, other in (("up", "down"), ("down", "up")):
        for key in ("f", "zeta", "a_max"):
            if values[f"{key}_{name}"] is None:
                values[f"{key}_{name}"] = fit[f"{key}_{other}"]
    if values["f_up"] is None:
        return np.zeros_like(data.speed)
    return model_speeds(data, np.array([float(values[key] or 0.0) for key in KEYS]), PLANT_STEP_S)
