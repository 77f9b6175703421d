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

from hil.drive.picture import GOAL, INK, OVERSAMPLE, START, Color, cells_image, view_of
from hil.live.twin.scene import Site
from hil.live.twin.stand_in_robot import ROOM
from hil.maps.load import load_map
from hil.maps.world_grid import World

Floats = npt.NDArray[np.float64]
PAUSED = (170, 170, 170)
LARGEST_PX = 720
LINE_PX, FONT_PX, PAD_PX = 4, 16, 16
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
    view = view_of(world, np.concatenate([path, [point for point, _ in marks]]) if marks else path, LARGEST_PX)
    small = cells_image(view)
    image = small.resize((small.width * OVERSAMPLE, small.height * OVERSAMPLE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for (a, b), leg in zip(itertools.pairwise(path), legs[1:], strict=True):
        draw.line([view.px(a), view.px(b)], _color(int(leg)), LINE_PX * OVERSAMPLE)
    for point, color in marks:
        draw.circle(view.px(point), 2 * LINE_PX * OVERSAMPLE, color)
    titled = Image.new("RGB", (small.width, small.height + FONT_PX + 2 * PAD_PX), "white")
    titled.paste(image.resize(small.size, Image.Resampling.BOX), (0, 0))
    width_m, height_m = (side / view.cell_px * world.cell_m for side in small.size)
    text = f"{title}, {width_m:.1f} m x {height_m:.1f} m shown"
    ImageDraw.Draw(titled).text((PAD_PX, small.height + PAD_PX), text, INK, ImageFont.load_default(FONT_PX))
    return titled
