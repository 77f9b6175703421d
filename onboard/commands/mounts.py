"""`onboard mounts`: camera poses from the URDF of a robot, as tables for `mounts.toml`."""

from __future__ import annotations

import difflib
import math
import sys
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import typer

from onboard.assembly.robot import build_rigs, lasers_of, used_mounts
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, write_json, write_text
from onboard.commands.mounts_plot import draw_mounts
from onboard.config.config import load_config
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, Quaternion, load_mounts
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_from_rpy, quaternion_product, rotation_from_quaternion

MAX_URDF_BYTES = 10_000_000
OPTICAL = "optical"
"""A frame with this in its name has z forward (REP-103); any other frame has x forward."""

Pose3 = tuple[npt.NDArray[np.float64], Quaternion]
"""Translation (3,) [m] and rotation of a child frame in its parent."""


def mounts_command(
    from_urdf: Annotated[
        Path | None, typer.Option("--from-urdf", metavar="FILE", help="URDF of the robot, without xacro.")
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option("--camera", metavar="NAME=FRAME", help="A camera and its frame; once for each camera."),
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
) -> None:
    """Print where the cameras of a URDF sit, as tables for `mounts.toml`; or draw what the cameras of a robot see.

    A frame whose name holds "optical" has z forward; any other has x forward (REP-103).
    """
    if (from_urdf is None) == (plot is None):
        raise InputError("expected one of --from-urdf and --plot")
    if plot is not None:
        if camera or out is not None or json_file is not None:
            raise InputError("--plot draws the cameras of --config: it takes no --camera, --out or --json")
        plot_views(config, plot)
    elif from_urdf is not None:
        if out is not None and out.exists() and not force:
            raise InputError(f"{out}: is there already; --force replaces it by these tables alone")
        _print_tables(from_urdf, camera or [], base, out, json_file)


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


def _print_tables(from_urdf: Path, camera: list[str], base: str, out: Path | None, json_file: str | None) -> None:
    if not camera:
        raise InputError("--camera: at least one NAME=FRAME is needed")
    joints = read_joints(from_urdf)
    lines: list[str] = []
    placed: dict[str, dict[str, list[float]]] = {}
    mistakes: list[str] = []
    for stated in camera:
        name, _, frame = stated.partition("=")
        try:
            if not name or not frame or name in placed:
                raise InputError(f"--camera {stated}: expected NAME=FRAME, each name once")
            placed[name] = placed_camera(from_urdf, joints, base, frame)
        except InputError as error:
            mistakes.append(str(error))
            continue
        kind = "z" if OPTICAL in frame else "x"
        lines.append(f"[cameras.{name}]  # {frame} in {base}, {kind} forward")
        lines += [*(f"{key} = {value}" for key, value in placed[name].items()), ""]
    if mistakes:
        raise InputError("\n".join(mistakes))
    if json_file is not None:
        write_json(json_file, placed)
    if out is None and json_file != STANDARD_OUTPUT:
        sys.stdout.write("\n".join(lines))
    elif out is not None:
        write_text(out, "\n".join(lines))


def placed_camera(path: Path, joints: dict[str, tuple[str, Pose3]], base: str, frame: str) -> dict[str, list[float]]:
    """Return translation_m and rotation_xyzw of the camera at a frame. Raises InputError."""
    translation, rotation = base_from_frame(path, joints, base, frame)
    if OPTICAL not in frame:
        rotation = quaternion_product(rotation, BODY_FROM_OPTICAL_XYZW)
    return {
        "translation_m": [round(float(value), 6) for value in translation],
        "rotation_xyzw": [round(value, 12) for value in rotation],
    }


def read_joints(path: Path) -> dict[str, tuple[str, Pose3]]:
    """Return, for each child frame of a URDF, its parent frame and its pose there; moving joints stand at zero.

    Raises InputError for a file that cannot be read or is no URDF.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_URDF_BYTES:
        raise InputError(f"{path}: has {len(data)} bytes, at most {MAX_URDF_BYTES} are read")
    try:
        robot = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: not valid XML: {error}") from error
    if any("xacro" in element.tag for element in robot.iter()):
        raise InputError(f"{path}: holds xacro; expand it first: xacro {path.name} > robot.urdf")
    if robot.tag != "robot":
        raise InputError(f"{path}: the root is <{robot.tag}>, a URDF has <robot>")
    joints: dict[str, tuple[str, Pose3]] = {}
    for joint in robot.iter("joint"):
        parent, child, origin = joint.find("parent"), joint.find("child"), joint.find("origin")
        if parent is None or child is None:  # a joint of <transmission> or <gazebo> names no frames
            continue
        where = f"{path}: joint {joint.get('name')}"
        values = {} if origin is None else origin.attrib
        translation = _three(where, "xyz", values.get("xyz", "0 0 0"))
        rotation = quaternion_from_rpy(*_three(where, "rpy", values.get("rpy", "0 0 0")))
        joints[child.get("link", "")] = parent.get("link", ""), (np.array(translation), rotation)
    return joints


def base_from_frame(path: Path, joints: dict[str, tuple[str, Pose3]], base: str, frame: str) -> Pose3:
    """Return the pose of a frame in the base frame. Raises InputError where no chain of joints joins them."""
    frames = sorted({*joints, *(parent for parent, _ in joints.values())})
    for name in (base, frame):
        if name not in frames:
            near = difflib.get_close_matches(name, frames, 3, 0.4)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(frames[:10]) or 'none'}"
            raise InputError(f"{path}: has no frame {name}{hint}")
    translation, rotation, at, passed = np.zeros(3), (0.0, 0.0, 0.0, 1.0), frame, set[str]()
    while at != base:
        if at not in joints or at in passed:
            raise InputError(f"{path}: no chain of joints leads from {base} to {frame}")
        passed.add(at)
        at, (offset, turn) = joints[at]
        translation = offset + rotation_from_quaternion(turn) @ translation
        rotation = quaternion_product(turn, rotation)
    return translation, rotation


def _three(where: str, name: str, text: str) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, text.split())
    except ValueError:
        raise InputError(f"{where}: {name} is {text!r}, expected three numbers") from None
    if not all(map(math.isfinite, (x, y, z))):
        raise InputError(f"{where}: {name} is {text!r}, expected finite numbers")
    return x, y, z
