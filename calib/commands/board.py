"""The command `onboard-calib board`: poses of cameras from a printed board that they see."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.spatial.transform import Rotation

from calib.cameras.board import Board, Sighting, checked_board, draw_board, find_board, read_grey
from calib.cameras.board_poses import CameraPlacement, Place, place_cameras
from calib.cameras.extrinsics import LIMIT_DEG, LIMIT_M, rpy_deg
from calib.cameras.mounts_file import mounts_text, placed, replace_file
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.config.mounts import Mount, load_mounts
from onboard.values.errors import InputError


def board(
    squares: Annotated[str, typer.Option(help="Squares of the board, COLUMNSxROWS.")],
    square_m: Annotated[
        float, typer.Option(min=0.005, max=0.5, help="Side of a printed square, by ruler, in m.", callback=finite)
    ],
    draw: Annotated[
        Path | None, typer.Option(help="Draw the board (.pdf or .png) to print at 100 %, and nothing else.")
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(help="NAME=image (PNG or JPEG, grey or colour); repeat. The nth image of each: one instant."),
    ] = None,
    mounts: Annotated[Path | None, typer.Option(help="mounts.toml with intrinsics and the guess of the poses.")] = None,
    fixed: Annotated[
        str | None, typer.Option(help="The camera whose mount is right; without it and --at the first --camera.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="x,y,z,roll,pitch,yaw: where the board is in the first images, in the base frame (m, deg)."),
    ] = None,
    at_sd: Annotated[str, typer.Option(help="Standard deviations of --at (m, deg).")] = "0.005,0.5",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The mounts.toml to write.")] = None,
    limit_m: Annotated[
        float, typer.Option(min=0.0, help="Largest distance of a result from the mounts, in m.", callback=finite)
    ] = LIMIT_M,
    limit_deg: Annotated[float, typer.Option(min=0.0, help="The same in degrees.", callback=finite)] = LIMIT_DEG,
    json_file: JsonOption = None,
) -> None:
    """Calibrate camera poses with a printed board that several cameras see at once, or at a measured place.

    The frame of the board: x from its middle to the viewer, y to the right edge, z to the upper edge.
    """
    for target in (json_file, out, draw):
        check_json_target(None if target is None else str(target))
    printed = checked_board(squares, square_m)
    if draw is not None:
        _draw(draw, printed)
        return
    if mounts is None or not camera:
        raise InputError("board: needs --mounts and --camera, or --draw")
    loaded = load_mounts(mounts)
    known = {**loaded.color, **loaded.depth}
    files = _files(camera, known, mounts)
    place = None if at is None else _place(at, at_sd)
    names = list(dict.fromkeys(name for name, _, _ in files))
    tied = _fixed(fixed, place, names, known)
    sightings, unused = _sightings(files, printed, known)
    try:
        found = place_cameras(sightings, known, tied, place, (limit_m, limit_deg))
    except InputError as error:
        write_json(json_file, {"cameras": {}, "accepted": False, "reason": str(error)})
        raise InputError(f"refused: {'; '.join([str(error), *unused])}") from error
    write_json(json_file, _as_json(found, known, tied))
    kept = None if out is None else replace_file(out, _mounts_file(found, mounts, printed, tied, files))
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(_summary(found, known, tied) + "".join(f"not used: {line}\n" for line in unused))
        if out is not None:
            sys.stdout.write(f"written to {out}{'' if kept is None else f'; the old one is {kept}'}\n")


def _draw(path: Path, printed: Board) -> None:
    if path.suffix.lower() not in (".pdf", ".png"):
        raise InputError(f"--draw {path}: must end in .pdf or .png")
    width_m, height_m = draw_board(path, printed)
    sys.stdout.write(
        f"{path}: {printed.columns}x{printed.rows} squares, {1000 * width_m:.0f} x {1000 * height_m:.0f} mm. "
        f"Print at 100 %, glue it to a flat plate, and measure a square.\n"
    )


def _files(arguments: Sequence[str], known: Mapping[str, Mount], mounts: Path) -> list[tuple[str, int, Path]]:
    """Return (camera, instant, file) of "NAME=FILE" arguments."""
    files: list[tuple[str, int, Path]] = []
    for argument in arguments:
        name, _, file = argument.partition("=")
        if not (name and file):
            raise InputError(f"--camera {argument}: must be NAME=FILE")
        if name not in known:
            raise InputError(f"--camera {argument}: camera {name} is not in {mounts}, which has {', '.join(known)}")
        files.append((name, sum(one == name for one, _, _ in files), Path(file)))
    return files


def _fixed(fixed: str | None, place: Place | None, names: Sequence[str], known: Mapping[str, Mount]) -> str | None:
    """Return the camera whose mount is right; None if the place of the board is measured. Raises InputError."""
    if place is not None:
        if fixed is not None:
            raise InputError(f"--fixed {fixed}: --at already fixes the board relative to the base")
        return None
    if fixed is not None and fixed not in names:
        raise InputError(f"--fixed {fixed}: is not one of the --camera names")
    if len(names) == 1:
        raise InputError(f"--camera {names[0]}: one camera alone needs --at, the measured place of the board")
    return fixed or names[0]


def _place(at: str, at_sd: str) -> Place:
    x, y, z, *turned = _numbers("--at", at, 6)
    sd_m, sd_deg = _numbers("--at-sd", at_sd, 2)
    if min(sd_m, sd_deg) <= 0.0:
        raise InputError(f"--at-sd {at_sd}: must be above 0")
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_euler("xyz", turned, degrees=True).as_matrix()
    pose[:3, 3] = x, y, z
    return Place(pose, sd_m, math.radians(sd_deg))


def _numbers(flag: str, text: str, count: int) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{flag} {text}: must be {count} numbers separated by commas") from error
    if len(values) != count or not all(map(math.isfinite, values)):
        raise InputError(f"{flag} {text}: must be {count} finite numbers separated by commas")
    return values


def _sightings(
    files: Sequence[tuple[str, int, Path]], printed: Board, known: Mapping[str, Mount]
) -> tuple[list[Sighting], list[str]]:
    """Return where each camera sees the board, and why images were not used. Raises InputError if a camera has none."""
    images = [(name, view, path, read_grey(path, known[name])) for name, view, path in files]
    sightings: list[Sighting] = []
    unused: dict[str, str] = {}
    for name, view, path, image in images:
        try:
            sightings.append(find_board(image, printed, known[name], view, path))
        except InputError as error:
            unused.setdefault(name, str(error))
    for name, why in unused.items():
        if name not in {sighting.camera for sighting in sightings}:
            raise InputError(why)
    return sightings, list(unused.values())


def _relative(name: str, found: CameraPlacement, known: Mapping[str, Mount], fixed: str) -> np.ndarray:
    """Return the (4, 4) pose of a camera's body frame in that of the fixed camera's."""
    pose = np.linalg.inv(known[fixed].base_from_camera) @ found.cameras[name].base_from_camera
    return np.asarray(pose, np.float64)


def _as_json(found: CameraPlacement, known: Mapping[str, Mount], fixed: str | None) -> dict[str, Any]:
    cameras = {
        name: {
            **placed(camera.base_from_camera),
            "sd_m": list(camera.sd_m),
            "sd_deg": list(camera.sd_deg),
            **({} if fixed is None else {"fixed_from_camera": placed(_relative(name, found, known, fixed))}),
        }
        for name, camera in found.cameras.items()
    }
    return {"cameras": cameras, "fixed": fixed, "rms_px": dict(found.rms_px), "accepted": True, "reason": ""}


def _mounts_file(
    found: CameraPlacement, mounts: Path, printed: Board, fixed: str | None, files: Sequence[tuple[str, int, Path]]
) -> str:
    data = hashlib.sha256(b"".join(path.read_bytes() for _, _, path in files)).hexdigest()
    day = datetime.fromtimestamp(max(path.stat().st_mtime for _, _, path in files)).astimezone().date().isoformat()
    changed: dict[str, dict[str, Any]] = {
        name: {
            **placed(camera.base_from_camera),
            "sd_m": [round(value, 5) for value in camera.sd_m],
            "sd_deg": [round(value, 4) for value in camera.sd_deg],
            "residual_m": None,
            "data_sha256": data,
            "calibrated": day,
        }
        for name, camera in found.cameras.items()
    }
    tied = "against the measured place of the board" if fixed is None else f"against camera {fixed}, which is fixed"
    return mounts_text(
        mounts,
        changed,
        f"{', '.join(found.cameras)}: measured by `onboard-calib board` with images of {day}, {tied}.\n"
        f"Board: {printed.options}. Corners are {max(found.rms_px.values()):.2f} px off (rms).",
    )


def _summary(found: CameraPlacement, known: Mapping[str, Mount], fixed: str | None) -> str:
    """Return the poses as lines for the operator."""
    lines = [
        f"{'camera':<16}{'x m':>8}{'y m':>8}{'z m':>8}{'sd m':>8}  "
        f"{'roll deg':>9}{'pitch deg':>10}{'yaw deg':>9}{'sd deg':>8}{'rms px':>8}"
    ]
    for name, camera in found.cameras.items():
        x, y, z = camera.base_from_camera[:3, 3]
        roll, pitch, yaw = rpy_deg(camera.base_from_camera)
        lines.append(
            f"{name:<16}{x:>8.3f}{y:>8.3f}{z:>8.3f}{max(camera.sd_m):>8.4f}  "
            f"{roll:>9.2f}{pitch:>10.2f}{yaw:>9.2f}{max(camera.sd_deg):>8.2f}{found.rms_px[name]:>8.2f}"
        )
    for name in found.cameras if fixed else ():
        pose = _relative(name, found, known, fixed or "")
        turned = math.degrees(float(Rotation.from_matrix(pose[:3, :3]).magnitude()))
        lines.append(f"{name} is {np.linalg.norm(pose[:3, 3]):.4f} m and {turned:.2f} deg from {fixed}")
    return "\n".join(lines) + "\n"
