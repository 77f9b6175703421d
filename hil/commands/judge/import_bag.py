"""The command `onboard-hil import`."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hil.recordings.bags.drive import ImportResult, import_bag
from hil.recordings.bags.plan import ImportOptions
from onboard.commands.cli import ConfigOption, JsonOption, check_json_target, write_result
from onboard.values.errors import InputError
from onboard.values.reasons import IMAGE_NONE, row_of

BLIND = 1


def _topic(flag: str, what: str) -> Any:
    return typer.Option(flag, metavar="TOPIC", help=f"{what}. Without it: found by its type; '' for none.")


def import_command(
    bags: Annotated[
        list[Path], typer.Argument(metavar="BAG...", help="A rosbag2 (folder, .db3, .mcap) or ROS 1 .bag.")
    ],
    out: Annotated[Path, typer.Option(help="The recording to write (.mcap).")],
    odometry: Annotated[str | None, _topic("--odometry", "nav_msgs/Odometry")] = None,
    laser: Annotated[str | None, _topic("--laser", "sensor_msgs/LaserScan")] = None,
    lidar: Annotated[
        list[str] | None,
        typer.Option(help="LaserScan or PointCloud2, placed by tf; repeatable: they are fused.", metavar="TOPIC"),
    ] = None,
    depth: Annotated[
        list[str] | None, typer.Option(help="NAME=TOPIC of a camera's depth images; repeatable.", metavar="NAME=TOPIC")
    ] = None,
    color: Annotated[str | None, _topic("--color", "Colour images, sensor_msgs/Image")] = None,
    commands: Annotated[str | None, _topic("--commands", "geometry_msgs/Twist that was commanded")] = None,
    localization: Annotated[str | None, _topic("--localization", "Poses in the map")] = None,
    goals: Annotated[str | None, _topic("--goals", "Goals, geometry_msgs/PoseStamped")] = None,
    goal: Annotated[str | None, typer.Option(help="x,y in the odometry frame, in m, for a bag without goals.")] = None,
    policy: Annotated[str | None, typer.Option(help="reactive, or a model, also with +reactive.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing recording.")] = False,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Run a bag of another robot through the runtime, open loop, and record it like a drive of ours.

    `onboard-hil replay` and `view` take the result. What the bag lacks is said, one line each. Exit 1: no valid scan.
    """
    check_json_target(json_file)
    roles = {
        "odometry": odometry, "laser": laser, "commands": commands, "localization": localization, "goals": goals,
    }  # fmt: skip
    to = None if goal is None else place(goal)
    options = ImportOptions(roles, depth or (), color, to, config, policy, lidar or ())
    imported = import_bag(bags, out, options, force=force)
    write_result(json_file, asdict(imported) | {"file": str(imported.file)}, summary(imported))
    if imported.scans == 0:
        cameras = [f"{name}: {reason}" for name, reason in imported.blind.items() if row_of(reason) is not IMAGE_NONE]
        why = "; ".join([*cameras, *(line for line in imported.missing if line.startswith(("/", "depth")))])
        sys.stderr.write(f"error: {imported.file}: no tick has a valid scan, so the robot does not move: {why}\n")
        raise typer.Exit(BLIND)


def place(text: str) -> tuple[float, float]:
    """Return the two numbers of "x,y". Raises InputError."""
    try:
        x_m, y_m = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--goal {text}: must be x,y, two numbers") from error
    if not (math.isfinite(x_m) and math.isfinite(y_m)):
        raise InputError(f"--goal {text}: must be finite")
    return x_m, y_m


def summary(imported: ImportResult) -> str:
    """Return the result of an import as lines for the operator."""
    lines = [f"{ours:<22} {topic}" for topic, ours in imported.topics.items()]
    lines += [f"missing: {line}" for line in imported.missing]
    came = f"{imported.ticks:,} ticks in {imported.seconds:.1f} s, {imported.scans:,} of them with a scan"
    did = f"{imported.decisions:,} decisions, {imported.driven_m:.1f} m by the odometry"
    lines.append(f"{imported.file}: {came}, {did}; at the end {imported.state}")
    if imported.agreement is not None:
        lines.append(imported.agreement.line())
    return "\n".join(lines) + "\n"
