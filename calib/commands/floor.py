"""The command `onboard-calib floor`: roll, pitch and height of cameras from one depth image each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calib.cameras.floor import Floor, floor_in
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.commands.scan import depth_of_each
from onboard.config.mounts import load_mounts


def floor(
    mounts: Annotated[Path, typer.Option(help="mounts.toml with the initial guess of the camera poses.")],
    camera: Annotated[list[str], typer.Option(help="NAME=depth.png (16 bit) or NAME=recording.db3|.bag; repeat.")],
    frame: Annotated[int, typer.Option(help="Frame of the recordings, from 0.")] = 0,
    json_file: JsonOption = None,
) -> None:
    """Measure roll, pitch and height of each camera from the floor that it sees."""
    check_json_target(json_file)
    frames, depth = depth_of_each(mounts, camera, frame), load_mounts(mounts).depth
    floors = {name: floor_in(one.depth, depth[name]) for name, one in frames.items()}
    write_json(json_file, {"cameras": {name: _as_json(one) for name, one in floors.items()}})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(f"{'camera':<16}{'roll deg':>10}{'pitch deg':>10}{'height m':>10}{'inliers':>9}{'rms m':>8}\n")
        for name, one in floors.items():
            sys.stdout.write(
                f"{name:<16}{one.roll_deg:>10.2f}{one.pitch_deg:>10.2f}{one.height_m:>10.3f}{one.inliers:>9}"
                f"{one.rms_m:>8.4f}\n"
            )


def _as_json(one: Floor) -> dict[str, Any]:
    return {
        "roll_deg": one.roll_deg,
        "pitch_deg": one.pitch_deg,
        "height_m": one.height_m,
        "inliers": one.inliers,
        "rms_m": one.rms_m,
    }
