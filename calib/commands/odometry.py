"""The command `onboard-calib odometry`."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from calib.wheels.fit import MOST_NODES, Reference, by_end, by_fixes, by_gyroscope
from calib.wheels.fit_verdict import NAMES, measured, result
from calib.wheels.runs import Run, read_run
from calib.wheels.scan_match import by_scans
from onboard.commands.cli import JsonOption, check_json_target, finite, write_result
from onboard.values.errors import InputError

REFUSED = 1
LEAST_FIXES = 5


class Kind(str, Enum):
    """What the wheels are compared with."""

    AUTO = "auto"
    FIXES = "fixes"
    SCANS = "scans"
    GYROSCOPE = "gyroscope"


def odometry_command(
    drives: Annotated[
        list[Path],
        typer.Argument(
            metavar="DRIVE...", help="Recordings (.mcap), bags, or CSV files with t_s, v, w; one drive each."
        ),
    ],
    end: Annotated[
        list[str] | None,
        typer.Option(help=r"x,y,yaw: end of a drive, measured from its start \[m, m, deg]; once for each drive."),
    ] = None,
    end_sd: Annotated[str, typer.Option(help=r"Standard deviations of --end \[m, m, deg].")] = "0.01,0.01,1",
    reference: Annotated[Kind, typer.Option(help="Reference for the wheels, without --end.")] = Kind.AUTO,
    track_m: Annotated[
        float | None,
        typer.Option(min=0.05, max=5.0, help=r"Track width in the base's own settings \[m].", callback=finite),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Calibrate wheel odometry: scale of speed and turning, and drift of a straight path.

    Without --end the localisation in the drives is the reference, else a gyroscope, else the robot's own scans.

    Exit code 0: accepted, or doubtful; 1: refused, with the reason; 2: something could not be read.
    """
    check_json_target(json_file)
    ends = [_three("--end", text) for text in end or ()]
    if ends and len(ends) != len(drives):
        raise InputError(f"--end: {len(ends)} ends for {len(drives)} drives: state one for each drive")
    if ends and reference is not Kind.AUTO:
        raise InputError(f"--reference {reference.value}: --end is the reference already")
    sd = _three("--end-sd", end_sd)
    if min(sd) <= 0.0:
        raise InputError(f"--end-sd {end_sd}: must be above 0")
    runs = [read_run(path, scans=not ends and reference in (Kind.AUTO, Kind.SCANS)) for path in drives]
    if ends:
        known = [by_end(run, one, sd) for run, one in zip(runs, ends, strict=True)]
    else:
        known = [_referenced(run, reference, MOST_NODES // len(runs)) for run in runs]
    wheels = measured(known, track_m)
    fitted = result(wheels, track_m)
    write_result(json_file, fitted, _text(fitted))
    if wheels.reasons:
        raise typer.Exit(REFUSED)


def _referenced(run: Run, kind: Kind, most: int) -> Reference:
    """Return a drive with its reference. Raises InputError if it has none of that kind."""
    if kind in (Kind.AUTO, Kind.FIXES):
        found = by_fixes(run, max(most, LEAST_FIXES))
        if len(found.t_s) >= LEAST_FIXES:
            return found
        if kind is Kind.FIXES:
            raise InputError(f"{run.name}: {len(found.t_s)} fixes of the localisation, at least {LEAST_FIXES} needed")
    if kind is not Kind.SCANS and run.imu_rad is not None:
        return by_gyroscope(run, most)
    if kind is Kind.GYROSCOPE:
        raise InputError(f"{run.name}: no gyroscope (sensor_msgs/msg/Imu in a bag, imu_w in a CSV file)")
    if not run.scans:
        raise InputError(f"{run.name}: no reference: neither localisation nor gyroscope nor scans; use --end x,y,yaw")
    return by_scans(run)


def _three(flag: str, text: str) -> tuple[float, float, float]:
    """Return x, y [m] and yaw [rad] of "x,y,yaw" in m and deg. Raises InputError."""
    try:
        x, y, yaw_deg = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{flag} {text}: must be x,y,yaw, three numbers") from error
    if not all(map(math.isfinite, (x, y, yaw_deg))):
        raise InputError(f"{flag} {text}: must be finite")
    return x, y, math.radians(yaw_deg)


def _text(fitted: dict[str, Any]) -> str:
    """Return a result as lines for the operator; the line to paste comes last."""
    of = fitted["drives"]
    lines = [
        f"{of['count']} drives, {of['way_m']:g} m, {of['left_turns']:g} turns left, {of['right_turns']:g} right",
    ]
    for name in NAMES:
        value, sd = fitted[name], fitted["sd"][name]
        spread = "" if sd is None else f" (sd {sd:.5f})"
        lines.append(f"{name:<11} {'not measured' if value is None else format(value, '.5f')}{spread}")
    ratios = ("track_ratio", "radii_ratio")
    lines += [f"{name:<11} {fitted[name]:.5f}" for name in ratios if fitted[name] is not None]
    if fitted["umbmark"]:
        mark = fitted["umbmark"]
        lines.append(
            f"UMBmark: E_max,syst {mark['e_max_syst_m']:g} m, E_b {mark['e_b']:g}, "
            f"E_d {mark.get('e_d', 'needs --track-m')}, random sd {mark['random_sd_m']} m"
        )
    lines += [f"note: {note}" for note in fitted["notes"]]
    if fitted["verdict"] == "refused":
        return "\n".join([*lines, f"refused: {fitted['reason']}"]) + "\n"
    if fitted["verdict"] == "doubtful":
        lines.append(f"doubtful: {fitted['reason']}")
    numbers = ", ".join(f"{value:.5f}" for value in fitted["correction"])
    return "\n".join([*lines, "into onboard.toml:", "[odometry]", f"correction = [{numbers}]"]) + "\n"
