"""`onboard mounts`: camera poses from the URDF of a robot, as tables for `mounts.toml`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from onboard.assembly.robot import build_rigs, lasers_of, used_mounts
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, write_json, write_text
from onboard.commands.mounts_plot import draw_mounts
from onboard.config.config import load_config
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, USUAL_VIEW_DEG, Quaternion, load_mounts
from onboard.config.urdf import Urdf, read_urdf
from onboard.config.urdf_floor import Floor, floor_of
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_product, rotation_from_quaternion

OPTICAL = "optical"
"""Part of the name of a frame with z forward (REP-103); its axes count for more."""
AXES = ":optical", ":body"
SIDE_DEG = 45.0
UPRIGHT = 0.5
"""Cosine of the angle to the vertical below which an axis points up."""

JointOption = Annotated[
    list[str] | None,
    typer.Option("--joint", metavar="NAME=VALUE", help="Position of a joint of the URDF, in rad or m; repeatable."),
]
FloorOption = Annotated[
    float | None, typer.Option("--floor-m", metavar="M", help="Height of the base frame above the floor, in m.")
]


def mounts_command(
    from_urdf: Annotated[
        Path | None,
        typer.Option("--from-urdf", metavar="FILE", help="URDF of the robot; xacro is expanded where it is installed."),
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option("--camera", metavar="NAME=FRAME[:AXES]", help="A camera and its frame; once for each camera."),
    ] = None,
    base: Annotated[str, typer.Option("--base", metavar="FRAME", help="The base frame.")] = "base_link",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this file instead of standard output.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PNG", help="Draw the views of the configured cameras instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    config: ConfigOption = None,
    json_file: JsonOption = None,
    joint: JointOption = None,
    floor_m: FloorOption = None,
    optical: Annotated[
        bool, typer.Option("--optical", help="Each frame looks along its z axis, whatever is upright or its name.")
    ] = False,
) -> None:
    """Print the camera poses of a URDF as tables for `mounts.toml`, or plot what the configured cameras see.

    Heights are measured from the floor, which a footprint frame or the wheels determine. The upright axis
    of a frame shows whether it is optical (z forward, y down) or a body's (x forward, z up). To set it, use
    NAME=FRAME:optical or NAME=FRAME:body.
    """
    if (from_urdf is None) == (plot is None):
        raise InputError("use one of --from-urdf and --plot")
    if plot is not None:
        if camera or out is not None or json_file is not None or joint or floor_m is not None:
            raise InputError("--plot draws the cameras of --config: it takes no --camera, --out or --json")
        plot_views(config, plot)
    elif from_urdf is not None:
        if out is not None and out.exists() and not force:
            raise InputError(f"{out}: already exists; --force replaces it with these tables alone")
        cameras = [one if one.endswith(AXES) or not optical else f"{one}:optical" for one in camera or []]
        _print_tables(read_urdf(from_urdf, joint_values(joint or [])), cameras, base, floor_m, out, json_file)


def plot_views(config: Path | None, plot: Path) -> None:
    """Write the picture of a robot's cameras and footprint. Raises ConfigError, and InputError for the file."""
    if plot.suffix.lower() != ".png":
        raise InputError(f"{plot}: the picture is a PNG; its name ends in .png")
    loaded = load_config(config)
    mounts = load_mounts(loaded.robot.mounts)
    rig, lidars = build_rigs(loaded, mounts)[0], lasers_of(loaded)
    image = draw_mounts(used_mounts(loaded, mounts), rig, loaded.robot.footprint, lidars)
    try:
        image.save(plot, "PNG")
    except OSError as error:
        raise InputError(f"{plot}: cannot be written: {error.strerror}") from error


def _print_tables(
    urdf: Urdf, camera: list[str], base: str, floor_m: float | None, out: Path | None, json_file: str | None
) -> None:
    if not camera:
        raise InputError("--camera: at least one NAME=FRAME is needed")
    placed: dict[str, dict[str, list[float]]] = {}
    notes: list[str] = []
    mistakes: list[str] = []
    for stated in camera:
        name, _, frame = stated.partition("=")
        try:
            if not name or not frame or name in placed:
                raise InputError(f"--camera {stated}: expected NAME=FRAME, each name once")
            placed[name], more = placed_camera(urdf, base, name, frame, floor_m)
        except InputError as error:
            mistakes.append(str(error))
        else:
            notes += more
    if mistakes:
        raise InputError("\n".join(mistakes))
    notes = list(dict.fromkeys(notes))
    lines = [f"# {note}" for note in notes]
    for name, table in placed.items():
        lines += [f"[cameras.{name}]", *(f"{key} = {value}" for key, value in table.items()), ""]
    if out is not None or json_file == STANDARD_OUTPUT:
        sys.stderr.writelines(f"{note}\n" for note in notes)
    if json_file is not None:
        write_json(json_file, placed)
    if out is None and json_file != STANDARD_OUTPUT:
        sys.stdout.write("\n".join(lines))
    elif out is not None:
        write_text(out, "\n".join(lines))


def placed_camera(
    urdf: Urdf, base: str, name: str, stated: str, floor_m: float | None = None
) -> tuple[dict[str, list[float]], list[str]]:
    """Return translation_m, from the floor up, and rotation_xyzw of the camera at a frame, and notes on how. Raises
    InputError.

    stated:  the frame, with ":optical" or ":body" appended where its axes are ambiguous
    floor_m: height of the base frame above the floor; None takes the URDF's footprint frame or wheels
    """
    frame, _, axes = stated.rpartition(":") if stated.endswith(AXES) else (stated, "", "")
    translation, rotation = urdf.pose(base, frame)
    notes = []
    if moving := urdf.moving_between(base, frame):
        notes.append(f"camera {name}: {frame} moves with {moving}: set other positions with --joint NAME=VALUE")
    floor, note = floor_under(urdf, base, floor_m)
    notes.append(note)
    kind = axes or _axes(rotation, frame)
    if not axes and (kind == "optical") != (OPTICAL in frame):
        other = f"{name}={frame}:{'body' if kind == 'optical' else 'optical'}"
        forward, up = ("z", "y points down") if kind == "optical" else ("x", "z points up")
        notes.append(f"camera {name}: {forward} of {frame} is forward, as its {up}; otherwise use --camera {other}")
    if kind == "body":
        rotation = quaternion_product(rotation, BODY_FROM_OPTICAL_XYZW)
    notes += view_notes(name, rotation)
    above_m = (0.0, 0.0, floor.base_height_m or 0.0)
    table = {
        "translation_m": [round(float(value + up_m), 6) for value, up_m in zip(translation, above_m, strict=True)],
        "rotation_xyzw": [round(value, 12) for value in rotation],
    }
    return table, notes


def floor_under(urdf: Urdf, base: str, floor_m: float | None = None) -> tuple[Floor, str]:
    """Return where the floor is, as stated or by the URDF, and a line that says so. Raises InputError."""
    floor = floor_of(urdf, base) if floor_m is None else Floor(floor_m, "--floor-m")
    if floor.base_height_m is None:
        return floor, (
            f"floor: {floor.source}, so heights are measured from {base}: set its height above the floor with "
            "--floor-m HEIGHT"
        )
    doubts = f", but {'; '.join(floor.doubts)}: check it, --floor-m HEIGHT states it" if floor.doubts else ""
    height_m = round(floor.base_height_m, 4) + 0.0
    return floor, (
        f"floor: {base} is {height_m:g} m above it, by {floor.source}{doubts}: heights are measured from there"
    )


def view_notes(name: str, rotation: Quaternion) -> list[str]:
    """Return a line if a camera with this optical frame looks at the sky or the floor, or is on its side."""
    right, down, forward = np.degrees(np.arcsin(np.clip(rotation_from_quaternion(rotation)[2], -1.0, 1.0)))
    lowest, highest = USUAL_VIEW_DEG
    wrong = []
    if not lowest <= -forward <= highest:
        wrong.append(f"looks {abs(forward):.0f} deg {'below' if forward < 0.0 else 'above'} the horizon")
    if (down > -SIDE_DEG and abs(right) > SIDE_DEG) or down > SIDE_DEG:
        wrong.append("is upside down" if down > SIDE_DEG else "is on its side")
    if not wrong:
        return []
    return [f"camera {name} {' and '.join(wrong)}: if it does not, use --optical, or NAME=FRAME:optical or :body"]


def joint_values(stated: Sequence[str]) -> dict[str, float]:
    """Return the positions of --joint NAME=VALUE [rad, m]. Raises InputError."""
    values = {}
    for one in stated:
        name, _, value = one.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise InputError(f"--joint {one}: expected NAME=VALUE, in rad or m") from None
    return values


def _axes(rotation: Quaternion, frame: str) -> str:
    """Return whether a frame is "optical" (z forward, y down) or "body" (x forward, z up), as REP-103 has them.

    The upright axis decides. If none is upright, as for a camera that looks straight down, the name does.
    """
    up = rotation_from_quaternion(rotation)[2]
    optical, body = -up[1] > UPRIGHT, up[2] > UPRIGHT
    if optical != body:
        return "optical" if optical else "body"
    return "optical" if OPTICAL in frame else "body"
