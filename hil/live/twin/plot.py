"""Draws both paths of a twin's drive: the robot's path in its room and the twin's path in the building.

The robot's path consists of legs; the twin's path is continuous. A leg is the path from a resume to the next pause, and
has the same colour in both maps. The robot's path while the twin is paused (braking, turning) is grey.
"""

from __future__ import annotations

import colorsys
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.live.twin.scene import Site
from hil.live.twin.stand_in_robot import ROOM
from hil.maps.load import load_map
from hil.maps.world_grid import World
from onboard.values.geometry import apply

Floats = npt.NDArray[np.float64]
Color = tuple[int, int, int]
FREE, SOLID, TALL, PAUSED, INK = (250, 250, 248), (200, 178, 150), (60, 64, 72), (170, 170, 170), (30, 30, 30)
START, GOAL = (20, 130, 70), (200, 40, 40)
TALL_M = 2.0
"""Objects of at least this height are drawn as walls."""
MARGIN_M = 1.5
HEIGHT_PX, WIDEST_PX = 560, 1500
OVERSAMPLE = 2
LINE_PX, FONT_PX, PAD_PX = 4, 18, 16
GOLDEN = 0.618
"""Difference in hue between consecutive legs, as a fraction of the colour circle."""


@dataclass(frozen=True, slots=True)
class TwinDrawing:
    """Data of a drive from the results of both processes.

    twin:     (n, 9) rows of `process.Log`
    robot:    (m, 6) rows of the simulated robot's trace; its times begin at `began_ns`
    began_ns: wall time at which the robot started
    """

    site: Site
    twin: Floats
    robot: Floats
    began_ns: int

    @property
    def legs(self) -> int:
        """Return the number of legs of the drive."""
        return int(_leg_numbers(self.twin[:, 5] > 0.5).max())

    @property
    def twin_path_m(self) -> float:
        """Return the length of the twin's path [m], summed over all lives."""
        steps = np.hypot(*np.diff(self.twin[:, 2:4], axis=0).T)
        return float(steps[np.diff(self.twin[:, 0]) == 0].sum())


def save_twin_picture(drawing: TwinDrawing, file: Path) -> None:
    """Write a PNG file with both maps side by side. Raises OSError."""
    legs = _leg_numbers(drawing.twin[:, 5] > 0.5)
    stamps = drawing.twin[:, 1]
    times_ns = drawing.began_ns + drawing.robot[:, 0] * 1e9
    newest = np.clip(np.searchsorted(stamps, times_ns, side="right") - 1, 0, len(stamps) - 1)
    in_time = (times_ns >= stamps[0]) & (times_ns <= stamps[-1])
    room_legs = np.where(in_time, np.where(drawing.twin[newest, 5] > 0.5, legs[newest], 0), 0)
    episode = drawing.site.episode
    start, goal = (episode.start.x_m, episode.start.y_m), episode.goal_xy_m
    marks = [(start, START), (goal, GOAL)]
    room = _panel(load_map(str(ROOM)), drawing.robot[:, 1:3], room_legs, [], "robot in the room")
    whole = _panel(
        drawing.site.first_world, drawing.twin[:, 2:4], legs, marks, f"twin in {drawing.site.label}, from green to red"
    )
    picture = Image.new("RGB", (room.width + PAD_PX + whole.width, max(room.height, whole.height)), "white")
    picture.paste(room, (0, 0))
    picture.paste(whole, (room.width + PAD_PX, 0))
    picture.save(file, "PNG")


def _leg_numbers(follows: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return (n,) the leg number of each row, from 1. A row during a pause belongs to the previous leg.

    follows: (n,) whether the twin follows
    """
    begins = follows & ~np.concatenate([[False], follows[:-1]])
    numbers: npt.NDArray[np.int64] = np.maximum(np.cumsum(begins), 1)
    return numbers


def _color(leg: int) -> Color:
    if leg == 0:
        return PAUSED
    red, green, blue = colorsys.hsv_to_rgb((0.6 + GOLDEN * (leg - 1)) % 1.0, 0.9, 0.75)
    return round(255 * red), round(255 * green), round(255 * blue)


def _panel(
    world: World,
    path: Floats,
    legs: npt.NDArray[np.int64],
    marks: list[tuple[tuple[float, float], Color]],
    title: str,
) -> Image.Image:
    """Return an image of the map, cropped to the path, with coloured legs, discs at the marks and the title.

    path: (n, 2) positions in the map frame [m]; legs: (n,) leg number of each position, 0 is drawn in grey
    """
    shown = np.concatenate([path, [point for point, _ in marks]]) if marks else path
    cells = np.array([world.cell_of((float(x), float(y))) for x, y in shown])
    margin = round(MARGIN_M / world.cell_m)
    first = np.maximum(cells.min(axis=0) - margin, 0)
    last = np.minimum(cells.max(axis=0) + margin + 1, world.gap.shape)
    rows, columns = (last - first).tolist()
    scale = max(1.0, min(HEIGHT_PX / rows, WIDEST_PX / columns)) * OVERSAMPLE
    size = round(columns * scale), round(rows * scale)
    image = Image.fromarray(_floor(world, first, last)[::-1]).resize(size, Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)

    def px(xy_map_m: tuple[float, float]) -> tuple[float, float]:
        x, y = apply(world.grid_from_map, xy_map_m)
        return (x / world.cell_m - first[1]) * scale, (last[0] - y / world.cell_m) * scale

    for (a, b), leg in zip(itertools.pairwise(path), legs[1:], strict=True):
        draw.line([px((a[0], a[1])), px((b[0], b[1]))], _color(int(leg)), LINE_PX * OVERSAMPLE)
    for point, color in marks:
        draw.circle(px(point), 2 * LINE_PX * OVERSAMPLE, color)
    image = image.resize((size[0] // OVERSAMPLE, size[1] // OVERSAMPLE), Image.Resampling.BOX)
    titled = Image.new("RGB", (image.width, image.height + FONT_PX + 2 * PAD_PX), "white")
    titled.paste(image, (0, 0))
    font = ImageFont.load_default(FONT_PX)
    text = f"{title}, {columns * world.cell_m:.1f} m x {rows * world.cell_m:.1f} m shown"
    ImageDraw.Draw(titled).text((PAD_PX, image.height + PAD_PX), text, INK, font)
    return titled


def _floor(world: World, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the (rows, columns, 3) RGB colour of each cell: free, object or wall."""
    part = np.s_[first[0] : last[0], first[1] : last[1]]
    low, high = world.low_m[part], world.high_m[part]
    used = high >= low
    colors = np.full((*used.shape[:2], 3), FREE, np.uint8)
    colors[used.any(axis=2)] = SOLID
    colors[(used & (high >= TALL_M)).any(axis=2)] = TALL
    return colors
