"""A picture of a drive on its map: walls, furniture, driven path, shortest path, start, goal and footprint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.drive.setting import REACHED_M
from hil.maps.world_grid import WALL_HEIGHT_M, World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.values.geometry import apply
from onboard.values.messages import Pose

MARGIN_M = 2.5
"""Margin of map around the driven path."""
LARGEST_PX = 1200
"""Longer side of the map in the picture, before rounding to whole pixels per cell."""
OVERSAMPLE = 3
"""Lines are drawn larger by this factor, then averaged down."""
FOOTER_PX = 64
TITLE_PX, TITLE_FONT_PX = 64, 20
LINE_PX, FONT_PX, PAD_PX = 3, 16, 14
SAMPLE_PX = 26
"""Length of a colour sample in the legend."""
SCALE_BARS_M = (1.0, 2.0, 5.0, 10.0)
SCALE_BAR_FRACTION = 0.25
"""The scale bar is the longest bar that takes at most this fraction of the map's width."""

Color = tuple[int, int, int]
Points = npt.NDArray[np.float64]
FREE, WALL, LOW, HANGING = (250, 250, 248), (60, 64, 72), (176, 137, 92), (222, 200, 168)
DRIVEN, SHORTEST, START, GOAL, CONTACT = (20, 90, 200), (120, 170, 120), (20, 130, 70), (200, 40, 40), (230, 120, 0)
BODY, INK = (20, 90, 200), (30, 30, 30)
MOMENTS = ((150, 60, 170), (0, 140, 150), (190, 120, 0))
"""Colours of the moments, in their order."""
POINT_PX = 2


@dataclass(frozen=True, slots=True)
class ScanSnapshot:
    """The scan at one moment of the drive, in the map frame.

    time_s: time since the start of the drive
    pose:   true pose of the robot
    points: (n, 2) obstacle points of the scan [m]
    """

    time_s: float
    pose: Pose
    points: Points


@dataclass(frozen=True, slots=True)
class Drawing:
    """The content of a picture, in the map frame.

    path:     (n, 2 or more) driven positions; the first two columns are x, y [m]
    shortest: (m, 2) corners of the shortest path [m], or None
    end:      pose at the end
    contacts: positions of contacts [m]
    goals:    points to reach in sequence [m]; if empty, the goal of the episode
    title:    two lines above the map; if empty, the picture has no title
    moments:  at most three scans to show
    """

    episode: Episode
    path: Points
    end: Pose
    shortest: Points | None = None
    contacts: Sequence[tuple[float, float]] = ()
    body: Body = field(default_factory=Body)
    goals: Sequence[tuple[float, float]] = ()
    title: tuple[str, str] | None = None
    moments: Sequence[ScanSnapshot] = ()

    @property
    def targets(self) -> Sequence[tuple[float, float]]:
        """Return the points to reach."""
        return self.goals or [self.episode.goal_xy_m]


def save_picture(world: World, drawing: Drawing, file: Path) -> None:
    """Write a PNG of the drive, cropped to the drive plus `MARGIN_M`. Raises OSError."""
    view = _view(world, drawing)
    image = cells_image(view)
    large = image.resize((image.width * OVERSAMPLE, image.height * OVERSAMPLE), Image.Resampling.NEAREST)
    _draw_routes(ImageDraw.Draw(large), view, drawing)
    top = TITLE_PX if drawing.title else 0
    picture = Image.new("RGB", (image.width, top + image.height + FOOTER_PX), "white")
    picture.paste(large.resize(image.size, Image.Resampling.BOX), (0, top))
    draw = ImageDraw.Draw(picture)
    if drawing.title:
        draw.text((PAD_PX, top // 3), drawing.title[0], INK, ImageFont.load_default(TITLE_FONT_PX), "lm")
        draw.text((PAD_PX, 3 * top // 4), drawing.title[1], INK, ImageFont.load_default(FONT_PX), "lm")
    _draw_footer(draw, view, (image.width, top + image.height), drawing)
    picture.save(file, "PNG")


@dataclass(frozen=True, slots=True)
class View:
    """The visible part of the grid: rows and columns [first, last), and pixels per cell."""

    world: World
    rows: tuple[int, int]
    columns: tuple[int, int]
    cell_px: int

    def px(self, xy_map_m: Sequence[float]) -> tuple[float, float]:
        """Return oversampled pixel coordinates of a point in the map frame [m]; the last row is at the top."""
        x, y = apply(self.world.grid_from_map, (float(xy_map_m[0]), float(xy_map_m[1])))
        scale = self.cell_px * OVERSAMPLE
        return (x / self.world.cell_m - self.columns[0]) * scale, (self.rows[1] - y / self.world.cell_m) * scale

    def length_px(self, length_m: float) -> float:
        """Return a length in pixels of the finished picture."""
        return length_m / self.world.cell_m * self.cell_px


def view_of(world: World, points: Points, largest_px: int = LARGEST_PX) -> View:
    """Return the part of a world around points (n, 2) of the map frame [m]."""
    cells = np.array([world.cell_of((float(x), float(y))) for x, y in points])
    margin = round(MARGIN_M / world.cell_m)
    first = np.maximum(cells.min(axis=0) - margin, 0)
    last = np.minimum(cells.max(axis=0) + margin + 1, world.gap.shape)
    cell_px = max(1, largest_px // int((last - first).max()))
    return View(world, (int(first[0]), int(last[0])), (int(first[1]), int(last[1])), cell_px)


def _view(world: World, drawing: Drawing) -> View:
    shown = [drawing.path[:, :2], np.array(drawing.targets)]
    return view_of(world, np.concatenate(shown if drawing.shortest is None else [*shown, drawing.shortest]))


def cells_image(view: View) -> Image.Image:
    """Return an image of the cells: walls dark, other cells on the floor brown, hanging cells light."""
    part = np.s_[slice(*view.rows), slice(*view.columns)]
    low, high = view.world.low_m[part], view.world.high_m[part]
    used = high >= low
    colors = np.full((*used.shape[:2], 3), FREE, np.uint8)
    colors[used.any(axis=2)] = HANGING
    colors[(used & (low <= 0.0)).any(axis=2)] = LOW
    colors[(used & (low <= 0.0) & (high >= WALL_HEIGHT_M)).any(axis=2)] = WALL
    return Image.fromarray(colors[::-1].repeat(view.cell_px, axis=0).repeat(view.cell_px, axis=1))


def _draw_routes(draw: ImageDraw.ImageDraw, view: View, drawing: Drawing) -> None:
    width = LINE_PX * OVERSAMPLE
    if drawing.shortest is not None:
        draw.line([view.px(point) for point in drawing.shortest], SHORTEST, width, "curve")
    draw.line([view.px(point) for point in drawing.path], DRIVEN, width, "curve")
    start = drawing.episode.start
    for goal in drawing.targets:
        _circle(draw, view, goal, REACHED_M, GOAL, filled=True)
    _pose(draw, view, start, drawing.body, START)
    _pose(draw, view, drawing.end, drawing.body, BODY)
    for moment, color in zip(drawing.moments, MOMENTS, strict=False):
        for x, y in (view.px(point) for point in moment.points):
            size = POINT_PX * OVERSAMPLE
            draw.ellipse((x - size, y - size, x + size, y + size), color)
        _pose(draw, view, moment.pose, drawing.body, color)
    for point in drawing.contacts:
        _circle(draw, view, point, drawing.body.inner_m, CONTACT)


def _circle(
    draw: ImageDraw.ImageDraw, view: View, at_m: Sequence[float], radius_m: float, color: Color, filled: bool = False
) -> None:
    radius = view.length_px(radius_m) * OVERSAMPLE
    draw.circle(view.px(at_m), radius, color if filled else None, color, LINE_PX * OVERSAMPLE)


def _pose(draw: ImageDraw.ImageDraw, view: View, pose: Pose, body: Body, color: Color) -> None:
    """Draw a footprint with a line from its centre to its front."""
    front_m, width = body.radius_m, LINE_PX * OVERSAMPLE
    if body.corners_m:
        front_m = max(x for x, _ in body.corners_m)
        corners = [view.px(apply(pose, corner)) for corner in body.corners_m]
        draw.line([*corners, corners[0]], color, width, "curve")
    else:
        _circle(draw, view, (pose.x_m, pose.y_m), body.radius_m, color)
    front = pose.x_m + front_m * math.cos(pose.yaw_rad), pose.y_m + front_m * math.sin(pose.yaw_rad)
    draw.line([view.px((pose.x_m, pose.y_m)), view.px(front)], color, width)


def _draw_footer(draw: ImageDraw.ImageDraw, view: View, map_size: tuple[int, int], drawing: Drawing) -> None:
    """Write the legend and the scale bar below the map."""
    font = ImageFont.load_default(FONT_PX)
    rows = [("driven", DRIVEN), ("shortest", SHORTEST), ("start", START), ("goal", GOAL)]
    rows += [("contact", CONTACT)] if drawing.contacts else []
    rows += [(f"scan at {at.time_s:.0f} s", color) for at, color in zip(drawing.moments, MOMENTS, strict=False)]
    x, y = PAD_PX, map_size[1] + FOOTER_PX // 4
    for label, color in rows:
        draw.line([(x, y), (x + SAMPLE_PX, y)], color, 2 * LINE_PX)
        draw.text((x + SAMPLE_PX + PAD_PX // 2, y), label, INK, font, "lm")
        x += SAMPLE_PX + 2 * PAD_PX + round(draw.textlength(label, font))
    fitting = [bar for bar in SCALE_BARS_M if view.length_px(bar) <= SCALE_BAR_FRACTION * map_size[0]]
    bar_m = fitting[-1] if fitting else SCALE_BARS_M[0]
    y = map_size[1] + 3 * FOOTER_PX // 4
    right = PAD_PX + view.length_px(bar_m)
    draw.line([(PAD_PX, y), (right, y)], INK, LINE_PX)
    for end in (PAD_PX, right):
        draw.line([(end, y - PAD_PX // 2), (end, y + PAD_PX // 2)], INK, LINE_PX)
    draw.text((right + PAD_PX, y), f"{bar_m:g} m   {view.world.name}", INK, font, "lm")
