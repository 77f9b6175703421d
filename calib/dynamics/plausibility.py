"""What is wrong with motion logs, before anything is fitted: too little data, swapped signs or axes, degrees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

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
DEGREES = 180.0 / math.pi
DEGREE_RATIO = 20.0
"""A ratio of w and w_cmd beyond this is taken for a mix of degrees and radians (57.3)."""
FASTEST_RADPS = 4.0 * math.pi
"""Two turns a second: a faster base is taken for one that states degrees."""
SPEED_UNITS = {1000.0: "mm/s", 100.0: "cm/s", 3.6: "km/h"}
FASTEST_MPS = 15.0
"""A faster base is taken for one that states another unit."""
MOST_GAIN, LEAST_GAIN = 3.0, 0.05
"""A ratio of v and v_cmd beyond these is taken for a mix of units. A base may stay far below a command, not above."""
LEAST_PATH_M, PATH_RATIO = 1.0, 20.0
"""Path and speed are compared from the first on; beyond the second they are of different units."""
LEVEL_S, SETTLED_S = 1.5, 0.4
"""A command held for longer than the first shows a steady answer in its last part."""
DEAD_SHARE = 0.3
"""A steady answer below this share of the command is none."""
LEAST_LEVELS = 2
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
    """Raise InputError in one line for degrees in place of radians, and for w against the recorded yaw.

    Returns the averaged commands and speeds, (2, n) each.
    """
    names = named(logs)
    commands, measured = _averaged(logs)
    _check_speed_unit(names, commands, measured, np.concatenate([log.v for log in logs]))
    _check_units(names, commands, measured, np.concatenate([log.w for log in logs]))
    for log in logs:
        if log.pose is not None:
            _check_yaw(log)
            _check_distance(log)
    return commands, measured


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
                f"{names}: {speed} does not answer {command} ({100 * own[axis]:.1f} % of its variance): "
                f"check the columns"
            )


def _check_speed_unit(names: str, commands: Floats, measured: Floats, v: Floats) -> None:
    if _explained(commands[0], measured[0]) > CLEAR:
        gain = abs(_slope(commands[0], measured[0]))
        if not LEAST_GAIN < gain < MOST_GAIN:
            column, ratio = ("v", gain) if gain > 1.0 else ("v_cmd", 1.0 / max(gain, 1e-9))
            unit = min(SPEED_UNITS, key=lambda one: abs(math.log(one / ratio)))
            raise InputError(
                f"{names}: {column} is {ratio:.4g} times {'v_cmd' if column == 'v' else 'v'}: {column} seems to be in "
                f"{SPEED_UNITS[unit]}; both must be m/s"
            )
    fast = float(np.percentile(np.abs(v), 99))
    if fast > FASTEST_MPS:
        raise InputError(f"{names}: v reaches {fast:.4g}: this seems to be mm/s or cm/s; must be m/s")


def _check_distance(log: MotionLog) -> None:
    """Compare v with the recorded path, over steps of a second."""
    assert log.pose is not None
    at = np.unique(np.searchsorted(log.t_s, np.arange(0.0, log.seconds, 1.0)))
    path_m = float(np.hypot(*np.diff(log.pose[at, :2], axis=0).T).sum())
    driven_m = float(np.abs(np.diff(np.concatenate([[0.0], np.cumsum(log.v[:-1] * np.diff(log.t_s))])[at])).sum())
    if driven_m > LEAST_PATH_M and not 1.0 / PATH_RATIO < path_m / driven_m < PATH_RATIO:
        raise InputError(
            f"{log.name}: the path by x_m and y_m is {path_m / driven_m:.4g} times the integral of v: "
            "one is not in metres"
        )


def _check_units(names: str, commands: Floats, measured: Floats, w: Floats) -> None:
    if _explained(commands[1], measured[1]) > CLEAR:
        slope = abs(_slope(commands[1], measured[1]))
        for ratio, column in ((slope, "w"), (1.0 / max(slope, 1e-9), "w_cmd")):
            if ratio > DEGREE_RATIO:
                other = "w_cmd" if column == "w" else "w"
                raise InputError(
                    f"{names}: {column} is {ratio:.1f} times {other}: {column} seems to be in degrees a second "
                    f"(factor {DEGREES:.1f}); must be rad/s"
                )
    fast = float(np.percentile(np.abs(w), 99))
    if fast > FASTEST_RADPS:
        raise InputError(
            f"{names}: w reaches {fast:.1f}: this seems to be degrees a second; must be rad/s, at most "
            f"{FASTEST_RADPS:.1f}"
        )


def _check_yaw(log: MotionLog) -> None:
    """Compare w with the recorded yaw."""
    assert log.pose is not None
    turned = np.diff(np.unwrap(log.pose[:, 2]))
    integrated = log.w[:-1] * np.diff(log.t_s)
    if _explained(integrated, turned) > CLEAR:
        slope = _slope(integrated, turned)
        if slope < 0.0:
            raise InputError(
                f"{log.name}: yaw_rad turns against w: the sign of one is swapped (REP-103: left is positive)"
            )
        if not 1.0 / DEGREE_RATIO < slope < DEGREE_RATIO:
            raise InputError(f"{log.name}: yaw_rad is {slope:.3g} times the integral of w: one seems to be in degrees")


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
