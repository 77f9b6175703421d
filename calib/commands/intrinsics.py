"""The command `onboard-calib intrinsics`: whether focal length and depth scale of the cameras make sense.

In 1/depth a plane stays a plane whatever the focal length, so one plane cannot show a wrong one. Walls can: they must
stand at right angles to the floor. The depth scale shows in the camera's height, measured with a tape. What is left on
the floor after a plane, a bow towards the image's corners, is lens distortion or an offset of the disparity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from calib.cameras.floor import find_floor, on_floor
from calib.cameras.keyframes import KeyFrame, read_session
from calib.cameras.patches import upright_planes
from onboard.commands.cli import JsonOption, check_json_target, write_result
from onboard.config.mounts import Mount, load_mounts
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
    write_result(json_file, {"cameras": {name: _plain(one) for name, one in found.items()}}, _table(found))
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


Floats = npt.NDArray[np.float64]

MOST_IMAGES = 24
LEAST_WALLS = 50
"""Pieces of walls over all images."""
MOST_LEAN = math.sin(math.radians(12.0))
"""A piece of surface that leans by more is no wall."""
FOCAL_LIMIT, SCALE_LIMIT, BOW_LIMIT = 0.08, 0.02, 0.01
"""Largest relative error of focal length, depth scale, and depth at the image's corner."""


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """What the images say of a camera's intrinsics. All ratios are true over stated.

    focal, focal_sd: ratio of the focal length, from walls; None with too few walls
    scale:           ratio of the depth scale, from the measured height; None if that was not stated
    bow:             relative error of depth at the image's corner, from the floor
    warnings:        a line for each ratio beyond its limit
    """

    focal: float | None
    focal_sd: float
    scale: float | None
    bow: float
    walls: int
    warnings: tuple[str, ...]


def check_intrinsics(keyframes: Sequence[KeyFrame], mount: Mount, height_m: float | None = None) -> Intrinsics:
    """Return what a camera's images say of its intrinsics. height_m: of the camera, measured.

    Raises InputError if no image shows the floor.
    """
    images = [keyframe.per_m[mount.name] for keyframe in keyframes if mount.name in keyframe.per_m]
    chosen = np.unique(np.linspace(0, len(images) - 1, min(MOST_IMAGES, len(images))).round().astype(int))
    ups: list[Floats] = []
    planes: list[Floats] = []
    heights_m, bows = [], []
    for number in chosen:
        try:
            floor = find_floor(images[number], mount)
        except InputError:
            continue
        found = upright_planes(images[number], mount, floor)
        ups.append(np.repeat(floor.up[None], len(found), axis=0))
        planes.append(found)
        heights_m.append(floor.height_m)
        bows.append(_bow(images[number], mount, floor.up / floor.height_m))
    if not heights_m:
        raise InputError(f"camera {mount.name}: no floor seen in {len(chosen)} images")
    up, wall = np.concatenate(ups), np.concatenate(planes)
    focal, focal_sd, walls = _focal(up, wall)
    ratio = 1.0 if focal is None or abs(focal - 1.0) < FOCAL_LIMIT else focal
    tilted = np.median(up, axis=0) if len(up) else np.array([0.0, -1.0, 0.0])
    # A longer focal length narrows the rays, which lowers the height by the part of the normal across the view.
    lower = math.hypot(math.hypot(*tilted[:2]) * ratio, float(tilted[2]))
    scale = None if height_m is None else height_m / (float(np.median(heights_m)) / lower)
    bow = float(np.median(bows))
    return Intrinsics(focal, focal_sd, scale, bow, walls, _warnings(mount, focal, focal_sd, scale, bow))


def _focal(up: Floats, wall: Floats) -> tuple[float | None, float, int]:
    """Return the ratio of the focal length at which walls stand upright, its standard deviation, and the walls used.

    With the ratio s the normals are (s x, s y, z), so the cosine to the floor is s^2 across + along.
    """
    across, along = (up[:, :2] * wall[:, :2]).sum(axis=1), up[:, 2] * wall[:, 2]
    square, used = 1.0, np.zeros(len(up), np.bool_)
    for _ in range(20):
        s = math.sqrt(square)
        size = np.linalg.norm(up * [s, s, 1.0], axis=1) * np.linalg.norm(wall * [s, s, 1.0], axis=1)
        lean = (square * across + along) / size
        used = np.abs(lean) < MOST_LEAN
        if used.sum() < LEAST_WALLS:
            return None, math.nan, int(used.sum())
        spread = 1.4826 * float(np.median(np.abs(lean[used] - np.median(lean[used])))) + 1e-6
        weight = used / (1.0 + (lean / spread) ** 2) / size**2
        square = float(np.clip(-(weight * across * along).sum() / (weight * across**2).sum(), 0.25, 4.0))
    sd = spread / math.sqrt(float((weight * size**2 * (across / size) ** 2).sum())) / (2.0 * math.sqrt(square))
    return math.sqrt(square), sd, int(used.sum())


def _bow(per_m: npt.NDArray[np.float32], mount: Mount, plane: Floats) -> float:
    """Return the relative error of depth at the image's corner that a bow of the floor in 1/depth means."""
    rays, seen_per_m = on_floor(per_m, mount, -plane)
    square = rays[:, 0] ** 2 + rays[:, 1] ** 2
    design = np.column_stack([rays, square])
    bend = np.linalg.lstsq(design, seen_per_m, rcond=None)[0][3]
    corner = (0.5 * mount.width / mount.fx) ** 2 + (0.5 * mount.height / mount.fy) ** 2
    return float(-bend * (corner - square.mean()) / seen_per_m.mean())


def _warnings(mount: Mount, focal: float | None, focal_sd: float, scale: float | None, bow: float) -> tuple[str, ...]:
    lines = []
    if focal is not None and abs(focal - 1.0) > max(FOCAL_LIMIT, 3.0 * focal_sd):
        long = "too long" if focal < 1.0 else "too short"
        lines.append(
            f"camera {mount.name}: the focal length {mount.fx:g} px is {long}: walls stand upright with "
            f"{mount.fx * focal:.1f} px"
        )
    if scale is not None and abs(scale - 1.0) > SCALE_LIMIT:
        lines.append(
            f"camera {mount.name}: the depth scale {mount.depth_scale_m:g} is wrong: the measured height needs "
            f"{mount.depth_scale_m * scale:.6f}"
        )
    if abs(bow) > BOW_LIMIT:
        lines.append(
            f"camera {mount.name}: the floor is bent: depth is off by {100 * bow:+.1f} % at the image's corner"
        )
    return tuple(lines)
