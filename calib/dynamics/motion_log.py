"""Motion logs: what was commanded and what the base did, from our recordings or from CSV files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.recordings.csv_table import read_csv
from hil.recordings.recording import IMPORTED_COMMANDS, TICK, Recording, open_recording
from onboard.drivers.dds.ros_convert import twist_from_ros
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError, naming

Floats = npt.NDArray[np.float64]

COLUMNS = ("t_s", "v_cmd", "w_cmd", "v", "w")
POSE_COLUMNS = ("x_m", "y_m", "yaw_rad")
LOG_COLUMN = "log"
RECORDING_SUFFIX = ".mcap"
LEAST_ROWS = 10
"""Fewest rows of one log."""
LONGEST_STEP_S = 1.0
"""At longer steps no response of a base can be seen."""
LONGEST_GAP_S = 2.0
"""A longer gap between two rows of a CSV file parts two logs."""


@dataclass(frozen=True, slots=True, eq=False)
class MotionLog:
    """One continuous stretch of driving: n rows in the order of time.

    name:  file, with the log's name inside the file if there are several
    t_s:   (n,) ascending time [s]
    v_cmd: (n,) current command [m/s]; it holds from its row to the next (zero-order hold)
    w_cmd: (n,) likewise [rad/s]
    v, w:  (n,) measured body twist [m/s, rad/s]
    pose:  (n, 3) the base's own x, y [m] and yaw [rad] in its odometry frame; None if not recorded
    """

    name: str
    t_s: Floats
    v_cmd: Floats
    w_cmd: Floats
    v: Floats
    w: Floats
    pose: Floats | None = None

    @property
    def seconds(self) -> float:
        """Duration [s]."""
        return float(self.t_s[-1] - self.t_s[0])


@dataclass(frozen=True, slots=True, eq=False)
class MotionLogs:
    """Logs of one base. sha256: digest of the files' bytes, in the order of their names on the command line."""

    logs: tuple[MotionLog, ...]
    sha256: str


def read_logs(paths: Sequence[Path]) -> MotionLogs:
    """Return the logs of recordings (.mcap) and of CSV files, in the order given.

    A CSV file has the columns t_s, v_cmd, w_cmd, v, w; optional are x_m, y_m, yaw_rad, and `log`, which separates
    several logs of one file. Raises InputError naming file, line and limit.
    """
    logs: list[MotionLog] = []
    digest = hashlib.sha256()
    for path in paths:
        with naming(path), path.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):  # read before the next file
                digest.update(block)
        logs += _from_recording(path) if path.suffix == RECORDING_SUFFIX else _from_csv(path)
    if not logs:
        raise InputError("no logs are named")
    return MotionLogs(tuple(logs), digest.hexdigest())


# ---- CSV


def _from_csv(path: Path) -> list[MotionLog]:
    table = read_csv(path, COLUMNS)
    if not table.lines:
        raise InputError(f"{path}: 0 rows, must be at least {LEAST_ROWS}")
    wanted = (*COLUMNS, *(POSE_COLUMNS if set(POSE_COLUMNS) <= set(table.columns) else ()))
    numbers = np.column_stack([table.numbers(name) for name in wanted])
    labels = table.columns.get(LOG_COLUMN, [""] * len(table.lines))
    starts = [at for at in range(len(labels)) if at == 0 or labels[at] != labels[at - 1]]
    return [
        _checked(
            _log_of(f"{path}: log {labels[first]}" if labels[first] else str(path), numbers[first:last]),
            path,
            table.lines[first:last],
        )
        for first, last in zip(starts, [*starts[1:], len(labels)], strict=True)
    ]


def _log_of(name: str, table: Floats) -> MotionLog:
    columns = [np.ascontiguousarray(column) for column in table[:, : len(COLUMNS)].T]
    t_s, v_cmd, w_cmd, v, w = columns
    pose = table[:, len(COLUMNS) :].copy() if table.shape[1] > len(COLUMNS) else None
    return MotionLog(name, t_s, v_cmd, w_cmd, v, w, pose)


def _checked(log: MotionLog, path: Path, lines: Sequence[int] = ()) -> MotionLog:
    """Return the log with its time from 0. Raises InputError for too few rows and for time that does not fit.

    lines: the line of each row in a CSV file
    """
    if len(log.t_s) < LEAST_ROWS:
        raise InputError(f"{log.name}: {len(log.t_s)} rows, must be at least {LEAST_ROWS}")
    back = np.flatnonzero(np.diff(log.t_s) <= 0.0)
    if back.size:
        at = int(back[0])
        raise InputError(
            f"{_where(path, lines, at + 1)}: t_s = {log.t_s[at + 1]:g} is not after {log.t_s[at]:g} of the row before"
        )
    step_s = float(np.median(np.diff(log.t_s)))
    if step_s > LONGEST_STEP_S:
        raise InputError(
            f"{log.name}: t_s rises by {step_s:g} s from row to row, must be at most {LONGEST_STEP_S:g} s; is it in "
            "milliseconds?"
        )
    jumps_s = np.diff(log.t_s)
    if path.suffix != RECORDING_SUFFIX and float(jumps_s.max()) > LONGEST_GAP_S:
        at = int(np.argmax(jumps_s))
        raise InputError(
            f"{_where(path, lines, at + 1)}: t_s jumps by {jumps_s[at]:.3g} s, must be at most {LONGEST_GAP_S:g} s; a "
            f"column `{LOG_COLUMN}` separates two logs"
        )
    return replace(log, t_s=log.t_s - log.t_s[0])


def _where(path: Path, lines: Sequence[int], row: int) -> str:
    return f"{path}: line {lines[row]}" if lines else f"{path}: row {row + 1}"


# ---- Our recordings


def _from_recording(path: Path) -> list[MotionLog]:
    with open_recording(path) as recording:
        return [_checked(_recorded(path, recording), path)]


def _recorded(path: Path, recording: Recording) -> MotionLog:
    """Return the first session's log: an odometry message a row, with the current command.

    The time of a row is the odometry's stamp on the runtime's clock; the least difference between arrival and stamp is
    the offset of the clocks. In an imported recording the commands are the bag's, because they drove that robot.
    """
    imported = "imported_from" in recording.session
    rows: dict[int, tuple[float, ...]] = {}
    commands: list[tuple[int, float, float]] = []
    offset_ns: int | None = None
    for message in recording.read({TICK, IMPORTED_COMMANDS}):
        if message.topic == IMPORTED_COMMANDS:
            twist = twist_from_ros(message.sample)
            commands.append((message.time_ns - recording.wall_minus_monotonic_ns, twist.v_mps, twist.w_radps))
            continue
        tick = message.sample
        if not imported:
            commands.append((tick.sent_ns, *tick.command))
        for wheel_input in tick.wheel_inputs:
            rows[wheel_input.stamp_ns] = (*wheel_input.twist, *(wheel_input.pose or (math.nan,) * 3))
            late_ns = wheel_input.arrival_ns - wheel_input.stamp_ns
            offset_ns = late_ns if offset_ns is None else min(offset_ns, late_ns)
    if offset_ns is None or not commands:
        raise InputError(f"{path}: it has no {'commands' if offset_ns is not None else 'odometry'}")
    stamps = np.array(sorted(rows))
    table = np.array([rows[int(stamp)] for stamp in stamps])
    orders = np.array(commands)
    bad = np.flatnonzero(~np.isfinite(table[:, :2]).all(axis=1))
    if bad.size or not np.isfinite(orders[:, 1:]).all():
        what = f"odometry {(stamps[bad[0]] - stamps[0]) / NS_PER_S:.2f} s after the first" if bad.size else "a command"
        raise InputError(f"{path}: {what} is not finite")
    sent_ns = np.array([at_ns for at_ns, *_ in commands])
    order = np.argsort(sent_ns, kind="stable")
    at = np.searchsorted(sent_ns[order], stamps + offset_ns, side="right") - 1
    held = np.where(at[:, None] >= 0, orders[order][np.maximum(at, 0), 1:], 0.0)
    pose = table[:, 2:] if np.isfinite(table[:, 2:]).all() else None
    return MotionLog(str(path), (stamps - stamps[0]) / NS_PER_S, held[:, 0], held[:, 1], table[:, 0], table[:, 1], pose)
