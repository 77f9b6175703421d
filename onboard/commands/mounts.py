"""`onboard mounts`: camera poses from the URDF of a robot, as tables for `mounts.toml`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from PIL import Image, ImageDraw, ImageFont

from onboard.assembly.robot import build_rigs, lasers_of, used_mounts
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, write_json, write_text
from onboard.config.config import load_config
from onboard.config.footprint import Footprint
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, USUAL_VIEW_DEG, Mount, Mounts, Quaternion, load_mounts
from onboard.config.urdf import Urdf, read_urdf
from onboard.config.urdf_floor import Floor, floor_of
from onboard.perception.collision import blind_sectors_deg
from onboard.perception.height_coverage import described
from onboard.perception.scan_fusion import Rig
from onboard.values.errors import InputError, naming
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
        bool,
        typer.Option(
            "--optical", help="Each frame looks along its z axis, whichever axis points up and whatever its name."
        ),
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
    with naming(plot, "written"):
        image.save(plot, "PNG")


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


Points = npt.NDArray[np.float64]

SMOOTH = 2
SIDE_PX, LINE_PX, FONT_PX, PAD_PX = 700, 2, 15, 30
SHOWN_M = 3.0
"""Distance that is shown to each side of the base's origin."""
TALL_M = 2.0
LIDAR_LINE_M = 0.4
"""Height that is shown."""
BLIND, BAND, GRID, INK, ROBOT = "#d5d9de", "#d8ecdf", "#c3ccd5", "#1f2933", "#1f4e79"
COLORS = ("#c8321f", "#1f6fc8", "#2f8f3f", "#b07a10", "#7a3fb0", "#108a8a")
GRID_STEPS = 41
"""Rays along each side of an image for the nearest visible floor."""


def draw_mounts(
    mounts: Mounts, rig: Rig, footprint: Footprint, lidars: Mapping[str, Points | None] | None = None
) -> Image.Image:
    """Return the picture. rig: the cameras of the policy's scan; lidars: pose (4, 4) of each topic's lidar."""
    lidars = lidars or {}
    tall_px = round(SIDE_PX * TALL_M / (2 * SHOWN_M))
    rows = PAD_PX + 22 * (len(mounts.depth) + len(lidars) + 4)
    image = Image.new("RGB", (SIDE_PX * SMOOTH, (SIDE_PX + PAD_PX + tall_px + rows) * SMOOTH), "white")
    draw = ImageDraw.Draw(image)
    _draw_top(draw, mounts, rig, footprint)
    for number, pose in enumerate(lidars.values(), len(mounts.depth)):
        _draw_lidar(draw, np.eye(4) if pose is None else pose, COLORS[number % len(COLORS)])
    base_px = SIDE_PX + PAD_PX + tall_px
    _draw_side(draw, mounts, rig, footprint, base_px)
    for row, (text, color) in enumerate(_legend(mounts, rig, lidars)):
        font = ImageFont.load_default(FONT_PX * SMOOTH)
        draw.text((16 * SMOOTH, (base_px + PAD_PX // 2 + 22 * row) * SMOOTH), text, color, font)
    return image.resize((image.width // SMOOTH, image.height // SMOOTH), Image.Resampling.LANCZOS)


def nearest_floor_m(mount: Mount) -> float:
    """Return the distance from the base's origin to the nearest floor in a camera's view [m]; inf if it sees none."""
    columns, rows = (np.linspace(0.0, size - 1.0, GRID_STEPS) for size in (mount.width, mount.height))
    u, v = np.meshgrid(columns, rows)
    rays = _rays(mount, u.ravel(), v.ravel())
    down = rays[rays[:, 2] < -1e-6]
    at = mount.base_from_camera[:3, 3]
    floor = at[:2] + down[:, :2] * (at[2] / -down[:, 2:])
    return float(np.hypot(*floor.T).min(initial=math.inf))


def _rays(mount: Mount, u: npt.NDArray[np.float64], v: npt.NDArray[np.float64]) -> Points:
    """Return (n, 3) directions of pixels in the base frame."""
    rays = np.column_stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(len(u))])
    return np.asarray(rays @ mount.base_from_camera[:3, :3].T)


def _edges(mount: Mount) -> tuple[Points, Points, float]:
    """Return (2, 3) the outermost rays to both sides, (2, 3) the rays straight above and below, and the azimuth.

    A camera may lie on its side: the rays are those of the image's edge, by their direction in the base frame.
    """
    along, last = np.linspace(0.0, 1.0, GRID_STEPS), np.ones(GRID_STEPS)
    u = np.concatenate([along, along, 0.0 * last, last]) * (mount.width - 1.0)
    v = np.concatenate([0.0 * last, last, along, along]) * (mount.height - 1.0)
    rays, axis = _rays(mount, u, v), mount.base_from_camera[:3, 2]
    azimuth = math.atan2(axis[1], axis[0])
    off = np.remainder(np.arctan2(rays[:, 1], rays[:, 0]) - azimuth + math.pi, 2.0 * math.pi) - math.pi
    slope = rays[:, 2] / np.hypot(rays[:, 0], rays[:, 1])
    above = slope > axis[2] / math.hypot(axis[0], axis[1])
    straight = [np.argmin(np.where(side, np.abs(off), np.inf)) for side in (above, ~above)]
    return rays[[np.argmax(off), np.argmin(off)]], rays[straight], azimuth


def _draw_lidar(draw: ImageDraw.ImageDraw, pose: Points, color: str) -> None:
    """Draw a lidar from above: a disc, and a line ahead of it."""
    scale = SIDE_PX * SMOOTH / (2 * SHOWN_M)
    x, y, size = (SHOWN_M - float(pose[1, 3])) * scale, (SHOWN_M - float(pose[0, 3])) * scale, 5 * SMOOTH
    ahead = x - float(pose[1, 0]) * LIDAR_LINE_M * scale, y - float(pose[0, 0]) * LIDAR_LINE_M * scale
    draw.ellipse([x - size, y - size, x + size, y + size], fill=color)
    draw.line([(x, y), ahead], color, LINE_PX * SMOOTH)


def _legend(mounts: Mounts, rig: Rig, lidars: Mapping[str, Points | None]) -> list[tuple[str, str]]:
    section = rig.section
    sectors = "what the lidar does not see" if section.topic else ""
    sectors = sectors or ", ".join(f"{low:.0f} to {high:.0f}" for low, high in blind_sectors_deg(rig.looks)) or "none"
    rows = [
        (f"blind (grey) [deg, left positive]: {sectors}", INK),
        (f"height band of the scan (green): {section.z_min_m:g} to {section.z_max_m:g} m; grid 0.5 m", INK),
        ("below, each camera from the side, in the plane in which it looks: ahead to the right, back to the left", INK),
    ]
    if rig.coverage is not None:
        rows.append(("; ".join(described(rig.coverage)) or "ahead all heights of the body are in view in time", INK))
    for number, mount in enumerate(mounts.depth.values()):
        floor_m = nearest_floor_m(mount)
        floor = f"floor seen from {floor_m:.2f} m" if math.isfinite(floor_m) else "sees no floor"
        rows.append((f"{mount.name}: {floor} of the base's origin", COLORS[number % len(COLORS)]))
    for number, (name, pose) in enumerate(lidars.items(), len(mounts.depth)):
        x, y = (0.0, 0.0) if pose is None else (float(pose[0, 3]), float(pose[1, 3]))
        text = f"lidar on {name} at x {x:.2f} m, y {y:.2f} m; its messages state its field of view"
        rows.append((text, COLORS[number % len(COLORS)]))
    return rows


def _draw_top(draw: ImageDraw.ImageDraw, mounts: Mounts, rig: Rig, footprint: Footprint) -> None:
    """Draw the view from above: ahead is up."""
    scale = SIDE_PX * SMOOTH / (2 * SHOWN_M)

    def px(x: float, y: float) -> tuple[float, float]:
        return (SHOWN_M - y) * scale, (SHOWN_M - x) * scale

    for low, high in [] if rig.section.topic else blind_sectors_deg(rig.looks):
        angles = np.radians(np.linspace(low, high, 24))
        draw.polygon([px(0, 0), *(px(SHOWN_M * math.cos(a), SHOWN_M * math.sin(a)) for a in angles)], fill=BLIND)
    for line in np.arange(-SHOWN_M, SHOWN_M + 0.01, 0.5):
        draw.line([px(line, -SHOWN_M), px(line, SHOWN_M)], GRID, SMOOTH)
        draw.line([px(-SHOWN_M, line), px(SHOWN_M, line)], GRID, SMOOTH)
    for number, mount in enumerate(mounts.depth.values()):
        x, y = (float(part) for part in mount.base_from_camera[:2, 3])
        sides = [ray[:2] / math.hypot(ray[0], ray[1]) * SHOWN_M for ray in _edges(mount)[0]]
        ends = [px(x + float(side[0]), y + float(side[1])) for side in sides]
        color = COLORS[number % len(COLORS)]
        draw.line([ends[0], px(x, y), ends[1]], color, LINE_PX * SMOOTH)
        axis = mount.base_from_camera[:2, 2] / math.hypot(*mount.base_from_camera[:2, 2])
        _name(draw, mount, px(x + float(axis[0]), y + float(axis[1])), color)
    draw.line([px(float(x), float(y)) for x, y in footprint.outline_m()], ROBOT, 2 * LINE_PX * SMOOTH, "curve")


def _name(draw: ImageDraw.ImageDraw, mount: Mount, at: tuple[float, float], color: str) -> None:
    draw.text(at, mount.name, color, ImageFont.load_default(FONT_PX * SMOOTH), "mm")


def _draw_side(draw: ImageDraw.ImageDraw, mounts: Mounts, rig: Rig, footprint: Footprint, base_px: int) -> None:
    """Draw each camera from the side, in the vertical plane in which it looks: ahead to the right, back to the left."""
    scale = SIDE_PX * SMOOTH / (2 * SHOWN_M)

    def px(away: float, z: float) -> tuple[float, float]:
        return (SHOWN_M + away) * scale, base_px * SMOOTH - z * scale

    section, far = rig.section, 2 * SHOWN_M
    low, high = max(section.z_min_m, 0.0), min(section.z_max_m, TALL_M)
    draw.rectangle([px(-far, high), px(far, low)], fill=BAND)
    draw.line([px(-far, 0.0), px(far, 0.0)], INK, LINE_PX * SMOOTH)
    for number, mount in enumerate(mounts.depth.values()):
        x, y, z = (float(part) for part in mount.base_from_camera[:3, 3])
        _, straight, azimuth = _edges(mount)
        to = 1.0 if math.cos(azimuth) > -1e-6 else -1.0
        away = (x * math.cos(azimuth) + y * math.sin(azimuth)) * to
        color = COLORS[number % len(COLORS)]
        for ray in straight:
            along = (ray[0] * math.cos(azimuth) + ray[1] * math.sin(azimuth)) * to
            length = min(far / math.hypot(along, ray[2]), z / -ray[2] if ray[2] < -1e-6 else far)
            draw.line([px(away, z), px(away + length * along, z + length * ray[2])], color, LINE_PX * SMOOTH)
        _name(draw, mount, px(away + to * 0.9, z + 0.15 * (number + 1)), color)
    reach_m = footprint.reach_m
    draw.line([px(-reach_m, 0.0), px(reach_m, 0.0)], ROBOT, 3 * LINE_PX * SMOOTH)
