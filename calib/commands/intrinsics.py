"""The command `onboard-calib intrinsics`: whether focal length and depth scale of the cameras make sense."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from calib.cameras.intrinsics import Intrinsics, check_intrinsics
from calib.cameras.keyframes import read_session
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.config.mounts import load_mounts
from onboard.values.errors import InputError

WARNED = 1


def intrinsics(
    recording: Annotated[Path, typer.Argument(help="A recording (.mcap) with depth images of floor and walls.")],
    mounts: Annotated[Path, typer.Option(help="mounts.toml with the intrinsics in question.")],
    height: Annotated[
        list[str] | None, typer.Option(help="NAME=METRES: height of a camera above the floor, by tape; repeat.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Check focal length, depth scale and lens distortion using the floor, walls and a measured height.

    Exit code 0: all within the limits; 1: a warning; 2: something could not be read.
    """
    check_json_target(json_file)
    cameras = load_mounts(mounts)
    measured = dict(_measured(one, cameras.depth) for one in height or ())
    session = read_session(recording, cameras)
    found = {
        name: check_intrinsics(session.keyframes, mount, measured.get(name)) for name, mount in cameras.depth.items()
    }
    if json_file is not None:
        write_json(json_file, {"cameras": {name: _plain(one) for name, one in found.items()}})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(_table(found))
    if any(one.warnings for one in found.values()):
        raise typer.Exit(WARNED)


def _measured(text: str, names: object) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        height_m = float(value)
    except ValueError:
        height_m = math.nan
    if name not in names or not 0.0 < height_m < 10.0:  # type: ignore[operator]
        raise InputError(f"--height {text}: must be NAME=METRES of a camera in the mounts")
    return name, height_m


def _plain(one: Intrinsics) -> dict[str, object]:
    return {**asdict(one), "focal_sd": None if math.isnan(one.focal_sd) else one.focal_sd, "warnings": [*one.warnings]}


def _table(found: dict[str, Intrinsics]) -> str:
    lines = [f"{'camera':<16}{'focal':>16}{'depth scale':>13}{'bow':>9}{'walls':>7}"]
    for name, one in found.items():
        focal = "?" if one.focal is None else f"{one.focal:.3f} +- {one.focal_sd:.3f}"
        scale = "?" if one.scale is None else f"{one.scale:.3f}"
        lines.append(f"{name:<16}{focal:>16}{scale:>13}{100 * one.bow:>8.1f}%{one.walls:>7}")
    lines += [line for one in found.values() for line in one.warnings] or ["all within the limits"]
    return "\n".join(lines) + "\n"
