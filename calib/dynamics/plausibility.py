"""What is wrong with motion logs, before anything is fitted: too little data, swapped signs or axes, degrees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from calib.dynamics.motion_log import Floats, MotionLog
from onboard.values.errors import InputError

LEAST_SECONDS = 10.0
LEAST_ROWS = 200
LEAST_CHANGES = 3
"""Fewest changes of a command, over all logs."""
AVERAGE_S = 1.0
"""Commands and speeds are compared after a moving average of this duration, which hides the response."""
LAGS_S = np.arange(0.0, 1.01, 0.1)
CLEAR = 0.4
"""Share of the variance from which a column explains another."""
FASTEST_RADPS = 4.0 * math.pi
"""Two turns a second: a faster base is taken for one that states degrees."""
SPEED_UNITS = {
    "mm/s": 1000.0, "cm/s": 100.0, "in/s": 39.370, "km/h": 3.6, "ft/s": 3.2808, "mph": 2.2369, "knots": 1.9438,
}  # fmt: skip
TURN_UNITS = {"degrees a second": 180.0 / math.pi, "rpm": 30.0 / math.pi, "turns a second": 0.5 / math.pi}
"""Number that other units state instead of 1 m/s, or 1 rad/s."""
FASTEST_MPS = 15.0
"""A faster base is taken for one that states another unit."""
GAINS = {"v": (0.05, 1.6), "w": (0.2, 3.0)}
"""Ratios of a speed and its command beyond these are a mix of units. A base may stay far below a command, not above."""
ALIKE, STEADY, FOLLOWS = 0.06, 0.1, 0.8
"""A lower ratio is a mix of units, too: within the first of a unit's, alike within the second for slow and fast
commands, where the command explains this share of the variance."""
LEAST_PATH_M, PATH_RATIO = 1.0, 1.55
"""Path and speed are compared from the first on; beyond the second they are of different units."""
LEAST_STEP = 0.25
"""Share of the longest step from which a step counts: turning on the spot moves a frame that is off the axle."""
YAW_RATIO = 3.0
"""Yaw and yaw rate; wheels that slip sideways as they turn state up to twice the yaw rate."""
LEVEL_S, SETTLED_S = 1.5, 0.4
"""A command held for longer than the first shows a steady answer in its last part."""
DEAD_SHARE = 0.3
"""A steady answer below this share of the command is none."""
LEAST_LEVELS = 2
GAP_STEPS, LEAST_GAP_S = 5.0, 0.1
"""A step of this many usual ones is a gap, if it is as long as the response of a quick base."""
AGREE = 0.9
"""Share of the commands on either side of the band's edge that must agree with it."""


def check(logs: Sequence[MotionLog]) -> None:
    """Raise InputError in one line if no sound fit can come of the logs."""
    names = named(logs)
    rows, seconds = sum(len(log.t_s) for log in logs), sum(log.seconds for log in logs)
    if rows < LEAST_ROWS or seconds < LEAST_SECONDS:
        raise InputError(
            f"{names}: {rows} rows in {seconds:.1f} s, must be at least {LEAST_ROWS} rows in {LEAST_SECONDS:g} s"
        )
    for column in ("v_cmd", "w_cmd"):
        changes = sum(int(np.count_nonzero(np.diff(getattr(log, column)))) for log in logs)
        if changes < LEAST_CHANGES:
            raise InputError(
                f"{names}: {column} changes {changes} times, must be at least {LEAST_CHANGES}: a constant command "
                f"shows no response; drive `onboard-calib drive-pattern`"
            )
    _check_axes(names, *check_units(logs))


def check_units(logs: Sequence[MotionLog]) -> tuple[Floats, Floats]:
    """Raise InputError in one line for units that are not SI, and for speeds against the recorded pose.

    Returns the averaged commands and speeds, (2, n) each.
    """
    names = named(logs)
    commands, measured = _averaged(logs)
    for axis, (column, units) in enumerate((("v", SPEED_UNITS), ("w", TURN_UNITS))):
        _check_ratio(names, column, commands[axis], measured[axis], units)
    for log in logs:
        if log.pose is not None:
            _check_yaw(log)
            _check_distance(log)
    for column, fastest in (("v", FASTEST_MPS), ("w", FASTEST_RADPS)):
        fast = float(np.percentile(np.abs(np.concatenate([getattr(log, column) for log in logs])), 99))
        if fast > fastest:
            unit, seems = ("m/s", "mm/s or cm/s") if column == "v" else ("rad/s", "degrees a second or rpm")
            raise InputError(
                f"{names}: {column} reaches {fast:.4g}: this seems to be {seems}; must be {unit}, at most {fastest:.3g}"
            )
    return commands, measured


def gaps(logs: Sequence[MotionLog]) -> list[str]:
    """Return a line for each log with gaps in which the response of the base cannot be seen."""
    lines = []
    for log in logs:
        steps_s = np.diff(log.t_s)
        long = np.flatnonzero(steps_s > max(GAP_STEPS * float(np.median(steps_s)), LEAST_GAP_S))
        if long.size:
            at = int(np.argmax(steps_s))
            lines.append(
                f"{log.name}: {long.size} gaps, the longest {steps_s[at]:.2g} s from t_s {log.t_s[at]:g}: commands in "
                "a gap are unknown; record again, or let a column `log` part the file there"
            )
    return lines


def named(logs: Sequence[MotionLog]) -> str:
    """Return the logs in words."""
    return logs[0].name if len(logs) == 1 else f"{logs[0].name} and {len(logs) - 1} other logs"


def _averaged(logs: Sequence[MotionLog]) -> tuple[Floats, Floats]:
    """Return (2, n) commands and (2, n) speeds, averaged; commands at the lag that explains the speeds best."""
    best: tuple[float, Floats, Floats] | None = None
    for lag_s in LAGS_S:
        commands, measured = [], []
        for log in logs:
            at = np.searchsorted(log.t_s, log.t_s - lag_s, side="right") - 1
            inside = at >= 0
            if inside.sum() < 3:
                continue
            width = max(1, min(round(AVERAGE_S * (len(log.t_s) - 1) / log.seconds), int(inside.sum())))
            average = np.ones(width) / width
            commands.append([np.convolve(column[at[inside]], average, "valid") for column in (log.v_cmd, log.w_cmd)])
            measured.append([np.convolve(column[inside], average, "valid") for column in (log.v, log.w)])
        x, y = np.concatenate(commands, axis=1), np.concatenate(measured, axis=1)
        total = sum(_explained(x[i], y[j]) for i in range(2) for j in range(2))
        if best is None or total > best[0]:
            best = total, x, y
    assert best is not None
    return best[1], best[2]


def _explained(x: Floats, y: Floats) -> float:
    """Return the share of y's variance that a line in x explains."""
    spread = float(np.std(x) * np.std(y))
    return 0.0 if spread < 1e-12 else float(np.mean((x - x.mean()) * (y - y.mean())) / spread) ** 2


def _slope(x: Floats, y: Floats) -> float:
    return float(np.dot(x, y) / max(float(np.dot(x, x)), 1e-12))


def _check_axes(names: str, commands: Floats, measured: Floats) -> None:
    own = [_explained(commands[axis], measured[axis]) for axis in range(2)]
    cross = [_explained(commands[1 - axis], measured[axis]) for axis in range(2)]
    for axis, (speed, command, other) in enumerate((("v", "v_cmd", "w_cmd"), ("w", "w_cmd", "v_cmd"))):
        if cross[axis] > CLEAR and cross[axis] > 2.0 * own[axis]:
            raise InputError(
                f"{names}: {speed} follows {other} ({100 * cross[axis]:.0f} % of its variance) and not {command} "
                f"({100 * own[axis]:.0f} %): axes are swapped; check the columns, or the axis of the yaw rate"
            )
        slope = _slope(commands[axis], measured[axis])
        if own[axis] > CLEAR and slope < 0.0:
            raise InputError(
                f"{names}: {speed} is {slope:.2f} times {command}: the sign is swapped; v is positive forward, "
                f"w to the left (REP-103)"
            )
        if own[axis] < 0.02:
            raise InputError(
                f"{names}: {speed} does not respond to {command} ({100 * own[axis]:.1f} % of its variance): "
                f"check the columns"
            )


def _check_ratio(names: str, column: str, command: Floats, measured: Floats, units: Mapping[str, float]) -> None:
    """Raise InputError if a speed and its command are of different units."""
    if _explained(command, measured) <= CLEAR:
        return
    ratio, (least, most) = abs(_slope(command, measured)), GAINS[column]
    wrong, unit = _mixed(column, ratio, units)
    if least < ratio < most and not (ratio < 1.0 and _scaled(command, measured, ratio, wrong, units[unit])):
        return
    other = column if wrong != column else f"{column}_cmd"
    raise InputError(
        f"{names}: {wrong} is {ratio if wrong == column else 1.0 / max(ratio, 1e-9):.4g} times {other}: {wrong} seems "
        f"to be in {unit} (factor {units[unit]:.4g}); both must be {'m/s' if column == 'v' else 'rad/s'}"
    )


def _mixed(column: str, ratio: float, units: Mapping[str, float]) -> tuple[str, str]:
    """Return the column and the unit whose factor is nearest to a ratio of speed and command."""
    powers = [(power, name, unit) for power, name in ((1.0, column), (-1.0, f"{column}_cmd")) for unit in units]
    _, name, unit = min(powers, key=lambda one: abs(math.log(max(ratio, 1e-9)) - one[0] * math.log(units[one[2]])))
    return name, unit


def _scaled(command: Floats, measured: Floats, ratio: float, wrong: str, factor: float) -> bool:
    """Return whether a base that stays below its commands does so by a unit's factor, at slow and at fast ones."""
    slow = np.abs(command) <= np.median(np.abs(command))
    parts = [abs(_slope(command[part], measured[part])) for part in (slow, ~slow)]
    away = abs(math.log(ratio) - (math.log(factor) if wrong in ("v", "w") else -math.log(factor)))
    steady = all(abs(one / ratio - 1.0) < STEADY for one in parts)
    return away < ALIKE and steady and _explained(command, measured) > FOLLOWS


def _check_distance(log: MotionLog) -> None:
    """Compare v with the recorded path, over steps of a second: the middle ratio of the long ones."""
    assert log.pose is not None
    at = np.unique(np.searchsorted(log.t_s, np.arange(0.0, log.seconds, 1.0)))
    path_m = np.hypot(*np.diff(log.pose[at, :2], axis=0).T)
    driven_m = np.abs(np.diff(np.concatenate([[0.0], np.cumsum(log.v[:-1] * np.diff(log.t_s))])[at]))
    if driven_m.sum() <= LEAST_PATH_M:
        return
    far = driven_m > LEAST_STEP * driven_m.max()
    ratio = float(np.median(path_m[far] / driven_m[far]))
    if not 1.0 / PATH_RATIO < ratio < PATH_RATIO:
        wrong, unit = _mixed("v", 1.0 / max(ratio, 1e-9), SPEED_UNITS)
        seems = f"v in {unit}" if wrong == "v" else f"x_m, y_m in {unit.removesuffix('/s')}"
        raise InputError(
            f"{log.name}: the path by x_m and y_m is {ratio:.4g} times the integral of v: one is not in metres "
            f"({seems}?)"
        )


def _check_yaw(log: MotionLog) -> None:
    assert log.pose is not None
    turned = np.diff(np.unwrap(log.pose[:, 2]))
    integrated = log.w[:-1] * np.diff(log.t_s)
    if _explained(integrated, turned) > CLEAR:
        slope = _slope(integrated, turned)
        if slope < 0.0:
            raise InputError(
                f"{log.name}: yaw_rad turns against w: the sign of one is swapped (REP-103: left is positive)"
            )
        if not 1.0 / YAW_RATIO < slope < YAW_RATIO:
            _, unit = _mixed("w", 1.0 / slope, TURN_UNITS)
            raise InputError(
                f"{log.name}: yaw_rad is {slope:.3g} times the integral of w: one seems to be in {unit}; must be rad "
                "and rad/s"
            )


def dead_band(logs: Sequence[MotionLog], axis: str) -> float:
    """Return the greatest command that the base does not answer, 0 if it answers all.

    It takes at least `LEAST_LEVELS` held commands within the band; most beyond it must be answered.
    """
    levels = []
    for log in logs:
        command, speed = (log.v_cmd, log.v) if axis == "v" else (log.w_cmd, log.w)
        edges = [0, *(np.flatnonzero(np.diff(command)) + 1), len(command)]
        for begin, end in itertools.pairwise(edges):
            end_s = log.t_s[min(end, len(command) - 1)]
            if command[begin] != 0.0 and end_s - log.t_s[begin] >= LEVEL_S:
                settled = log.t_s[begin:end] >= end_s - SETTLED_S
                if settled.any():
                    answer = float(np.mean(speed[begin:end][settled])) / float(command[begin])
                    levels.append((abs(float(command[begin])), abs(answer) < DEAD_SHARE))
    best = 0.0
    for edge in sorted(level for level, none in levels if none):
        within = [none for level, none in levels if level <= edge]
        beyond = [none for level, none in levels if level > edge]
        if beyond and len(within) >= LEAST_LEVELS and np.mean(within) >= AGREE and np.mean(beyond) <= 1.0 - AGREE:
            best = edge
    return best
