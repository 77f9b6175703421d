"""The command `onboard-calib gap`.

The recorded commands drive the plant, and its path is compared with the real one (paper 1, Fig. 7).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from calib.dynamics.drift import drifts, measured_path
from calib.dynamics.motion_log import Floats, MotionLog, read_logs
from calib.dynamics.plausibility import check_units
from hil.physics.simulated_base import NS, STEP_NS, BaseState, send_command, step_base
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, new_figure, write_json
from onboard.config.plant_model import MotionState, Plant, load_plant
from onboard.values.errors import InputError, naming
from onboard.values.messages import Pose, Twist


def gap(
    recording: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Recordings (.mcap), or CSV logs.")],
    plant: Annotated[Path, typer.Option(help="plant.toml of the simulated base.")],
    picture: Annotated[Path | None, typer.Option(help="Write a PNG of the longest log: paths and speeds.")] = None,
    json_file: JsonOption = None,
) -> None:
    """Drive the simulated base with the recorded commands, and print its drift after 1, 5 and 10 s."""
    for target in (json_file, picture):
        check_json_target(None if target is None else str(target))
    loaded, logs = load_plant(plant), read_logs(recording).logs
    gaps = [gap_of(log, loaded) for log in logs]
    check_units(logs)
    table = drift_table(gaps)
    if picture is not None:
        longest = max(range(len(logs)), key=lambda number: logs[number].seconds)
        save_picture(gaps[longest], logs[longest], picture)
    write_json(json_file, table)
    if json_file != STANDARD_OUTPUT:
        rows = [[name.replace("_", " "), *map(_shown, row.values())] for name, row in table.items()]
        headings = ["drift after", *(key.replace("_", " ") for key in next(iter(table.values())))]
        sys.stdout.write(f"{markdown_table(headings, rows)}\n")


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3g}"


WINDOWS_S = (1.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """The plant against one log.

    t_s: (n,) rows of the log; measured, predicted: (n, 3) x, y [m], yaw [rad]; speeds: (n, 2) of the plant
    drifts: by duration [s] (windows, 2) distance [m] and angle [rad] at the end of windows that begin at one pose
    """

    t_s: Floats
    measured: Floats
    predicted: Floats
    speeds: Floats
    drifts: dict[float, Floats]


def gap_of(log: MotionLog, plant: Plant) -> Gap:
    """Return the gap. Raises InputError for a log shorter than the shortest window."""
    if log.seconds < WINDOWS_S[0] + 0.1:
        raise InputError(f"{log.name}: {log.seconds:.2f} s, must be longer than {WINDOWS_S[0]:g} s")
    replay = replayed(log, plant)
    measured, predicted, speeds = measured_path(log), replay[:, 2:], replay[:, :2]
    found = {window_s: drifts(log.t_s, measured, predicted, window_s) for window_s in WINDOWS_S}
    return Gap(log.t_s, measured, predicted, speeds, {key: value for key, value in found.items() if len(value)})


def replayed(log: MotionLog, plant: Plant) -> Floats:
    """Return (n, 5) v, w, x, y, yaw of the simulated base at each row, with each command sent at its row.

    The base begins with the measured speed of the first row, and keeps it until the first command takes effect.
    """
    begin = Twist(float(log.v[0]), float(log.w[0]))
    state = BaseState(MotionState(Pose(0.0, 0.0, 0.0), begin), command=begin, heard_ns=0)
    rows_ns = np.round(log.t_s * NS).astype(np.int64)
    ticks = int(rows_ns[-1] // STEP_NS) + 2
    table = np.zeros((ticks + 1, 5))
    table[0, :2] = begin.v_mps, begin.w_radps
    row = 0
    for tick in range(ticks):
        now_ns = tick * STEP_NS
        while row < len(rows_ns) and rows_ns[row] <= now_ns:
            row += 1
        if row:
            state = send_command(state, Twist(float(log.v_cmd[row - 1]), float(log.w_cmd[row - 1])), now_ns, plant)
        state = step_base(state, now_ns, plant)
        twist, pose = state.motion.twist, state.motion.pose
        table[tick + 1] = twist.v_mps, twist.w_radps, pose.x_m, pose.y_m, pose.yaw_rad
    table[:, 4] = np.unwrap(table[:, 4])
    at_s = np.arange(ticks + 1) * STEP_NS / NS
    return np.column_stack([np.interp(log.t_s, at_s, column) for column in table.T])


def drift_table(gaps: Sequence[Gap]) -> dict[str, dict[str, float]]:
    """Return median, 95th percentile and greatest drift of all windows, by duration."""
    table = {}
    for window_s in WINDOWS_S:
        rows = [gap.drifts[window_s] for gap in gaps if window_s in gap.drifts]
        if rows:
            away = np.concatenate(rows)
            table[f"{window_s:g}_s"] = {
                "windows": len(away),
                "position_median_m": float(np.median(away[:, 0])),
                "position_p95_m": float(np.percentile(away[:, 0], 95)),
                "position_max_m": float(away[:, 0].max()),
                "yaw_median_rad": float(np.median(away[:, 1])),
                "yaw_p95_rad": float(np.percentile(away[:, 1], 95)),
                "yaw_max_rad": float(away[:, 1].max()),
            }
    return table


# ---- The picture

WIDTH_PX, PATH_PX, STRIP_PX = 720.0, 680.0, 240.0
MEASURED, PLANT, COMMAND = "#465a78", "#e68c28", "#bebebe"
RESTART_S = 10.0


def save_picture(gap: Gap, log: MotionLog, file: Path) -> None:
    """Write a PNG: both paths, with the plant set back to the measured pose each 10 s, and both speeds over time.

    Raises InputError, and MissingExtraError without matplotlib.
    """
    figure = new_figure(WIDTH_PX, PATH_PX + 2 * STRIP_PX)
    paths, *strips = figure.subplots(3, height_ratios=(PATH_PX, STRIP_PX, STRIP_PX))
    paths.plot(*gap.measured[:, :2].T, color=MEASURED, lw=3)
    for piece in _restarted(gap):
        paths.plot(*piece.T, color=PLANT)
    paths.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", adjustable="datalim")
    rows = (("v [m/s]", log.v_cmd, log.v, gap.speeds[:, 0]), ("w [rad/s]", log.w_cmd, log.w, gap.speeds[:, 1]))
    for axes, (title, command, measured, plant) in zip(strips, rows, strict=True):
        axes.plot(gap.t_s, command, color=COMMAND, label="command")
        axes.plot(gap.t_s, measured, color=MEASURED, label="measured")
        axes.plot(gap.t_s, plant, color=PLANT, label="plant; its path is set back each 10 s")
        axes.set(xlabel="time [s]", ylabel=title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    with naming(file, "written"):
        figure.savefig(file, format="png")


def _restarted(gap: Gap) -> list[Floats]:
    """Return the plant's path in pieces of `RESTART_S`, each from the measured pose at its begin."""
    pieces = []
    for start_s in np.arange(0.0, gap.t_s[-1], RESTART_S):
        inside = np.flatnonzero((gap.t_s >= start_s) & (gap.t_s <= start_s + RESTART_S))
        if len(inside) > 1:
            first = inside[0]
            turn = gap.measured[first, 2] - gap.predicted[first, 2]
            step = gap.predicted[inside, :2] - gap.predicted[first, :2]
            cos, sin = np.cos(turn), np.sin(turn)
            turned = np.column_stack([cos * step[:, 0] - sin * step[:, 1], sin * step[:, 0] + cos * step[:, 1]])
            pieces.append(turned + gap.measured[first, :2])
    return pieces
