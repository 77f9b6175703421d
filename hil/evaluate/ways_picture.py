"""Pictures of many drives over their map (paper 1, Fig. 6): `onboard-hil evaluate --pictures`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.drive.picture import FREE, GOAL, HANGING, INK, LARGEST_PX, LOW, MARGIN_M, OVERSAMPLE, START, WALL
from hil.evaluate.campaign import Driven
from hil.evaluate.episode_selection import load_set
from hil.evaluate.evaluation import Evaluation
from hil.maps.world_grid import WALL_HEIGHT_M, World
from onboard.values.errors import InputError
from onboard.values.geometry import apply

MOST = 20
"""Number of drives in a picture, as in the paper's figure."""
ARRIVED, LOST = (20, 90, 200), (220, 110, 0)
"""Colours of drives that arrived, and of other drives."""
LINE_PX, DOT_M, PAD_PX, FONT_PX = 2, 0.2, 30, 16

Points = npt.NDArray[np.float64]


class Way(NamedTuple):
    """A drive to draw. path: (n, 2 or more), the first two columns are x, y [m] in the map frame"""

    path: Points
    goal_xy_m: tuple[float, float]
    arrived: bool


def check_pictures(folder: Path) -> None:
    """Raise InputError if pictures could not be written into a folder, which need not exist; before a drive begins."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        raise InputError(f"{folder}: cannot be written: {there} is not a folder")
    if not os.access(there, os.W_OK):
        raise InputError(f"{folder}: cannot be written: Permission denied")


def save_pictures(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write a picture of each map's first drives into a folder; return the files. Raises InputError."""
    files, policy = [], Path(evaluation.plan.run.policy).stem
    for source in evaluation.plan.sources:
        chosen = list(_first(evaluation.driven, source.name))
        if chosen:
            known = load_set(source)
            ways = [Way(np.array(one.path), known.episodes[one.row.index].goal_xy_m, one.row.success) for one in chosen]
            file = folder / f"{policy}-{Path(source.name).stem}.png"
            save_ways(known.world, ways, f"{policy} in {Path(source.name).stem}", file)
            files.append(file)
    return files


def _first(driven: Sequence[Driven], map_name: str) -> Iterator[Driven]:
    """Yield the first drive of each of the map's first episodes."""
    seen: set[int] = set()
    for one in driven:
        if one.row.map == map_name and one.path and one.row.index not in seen and len(seen) < MOST:
            seen.add(one.row.index)
            yield one


def save_ways(world: World, ways: Sequence[Way], title: str, file: Path) -> None:
    """Write drives over their map, with a title and their number below. Raises InputError."""
    goals = [np.array([way.goal_xy_m]) for way in ways]
    view = _View(world, np.concatenate([*(way.path[:, :2] for way in ways), *goals]))
    image = view.image()
    draw = ImageDraw.Draw(image)
    for way, goal in zip(ways, goals, strict=True):
        color = ARRIVED if way.arrived else LOST
        draw.line([view.px(point) for point in way.path], color, LINE_PX * OVERSAMPLE, "curve")
        draw.circle(view.px(way.path[0]), view.cells_px(DOT_M), START)
        draw.circle(view.px(goal[0]), view.cells_px(DOT_M), GOAL)
    arrived = sum(way.arrived for way in ways)
    small = image.resize((image.width // OVERSAMPLE, image.height // OVERSAMPLE), Image.Resampling.BOX)
    ends_in = f"{arrived} arrived (blue), {len(ways) - arrived} did not (orange)"
    words = f"{title}: {len(ways)} drives from green to red, {ends_in}"
    font = ImageFont.load_default(FONT_PX)
    width = max(small.width, PAD_PX + round(font.getlength(words)))
    picture = Image.new("RGB", (width, small.height + PAD_PX), "white")
    picture.paste(small)
    ImageDraw.Draw(picture).text((PAD_PX / 2, small.height + PAD_PX / 2), words, INK, font, "lm")
    save_png(picture, file)


class _View:
    """The part of a world around points, drawn `OVERSAMPLE` times larger."""

    def __init__(self, world: World, points: Points) -> None:
        cells = np.array([world.cell_of((float(x), float(y))) for x, y in points])
        margin = round(MARGIN_M / world.cell_m)
        self._world = world
        self._first = np.maximum(cells.min(axis=0) - margin, 0)
        self._last = np.minimum(cells.max(axis=0) + margin + 1, world.gap.shape)
        self._cell_px = OVERSAMPLE * max(1, LARGEST_PX // int((self._last - self._first).max()))

    def image(self) -> Image.Image:
        """Return the cells: walls dark, objects on the floor brown, hanging objects light."""
        part = tuple(slice(int(a), int(b)) for a, b in zip(self._first, self._last, strict=True))
        low, high = self._world.low_m[part], self._world.high_m[part]
        used = high >= low
        colors = np.full((*used.shape[:2], 3), FREE, np.uint8)
        colors[used.any(axis=2)] = HANGING
        colors[(used & (low <= 0.0)).any(axis=2)] = LOW
        colors[(used & (low <= 0.0) & (high >= WALL_HEIGHT_M)).any(axis=2)] = WALL
        return Image.fromarray(colors[::-1].repeat(self._cell_px, axis=0).repeat(self._cell_px, axis=1))

    def px(self, xy_map_m: Points) -> tuple[float, float]:
        """Return the pixel of a point of the map frame; the top of the picture is the last row."""
        x, y = apply(self._world.grid_from_map, (float(xy_map_m[0]), float(xy_map_m[1])))
        cell_m = self._world.cell_m
        return (x / cell_m - self._first[1]) * self._cell_px, (self._last[0] - y / cell_m) * self._cell_px

    def cells_px(self, length_m: float) -> float:
        """Return a length in pixels."""
        return length_m / self._world.cell_m * self._cell_px


def save_png(image: Image.Image, file: Path) -> None:
    """Write an image. Raises InputError naming the file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        image.save(file, "PNG")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from error
