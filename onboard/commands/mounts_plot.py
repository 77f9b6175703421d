"""A picture of the cameras' views, from above and from the side, with the footprint and the scan's height band."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from onboard.config.footprint import Footprint
from onboard.config.mounts import Mount, Mounts
from onboard.perception.collision import blind_sectors_deg
from onboard.perception.height_coverage import described
from onboard.perception.scan_fusion import Rig

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
