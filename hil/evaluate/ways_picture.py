"""Pictures of many drives over their map (paper 1, Fig. 6): `onboard-hil evaluate --pictures`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.drive.picture import GOAL, INK, OVERSAMPLE, START, cells_image, view_of
from hil.evaluate.campaign import DriveResult
from hil.evaluate.episode_selection import load_set
from hil.evaluate.evaluation import Evaluation
from hil.maps.world_grid import World
from onboard.values.errors import InputError, naming

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


def _first(driven: Sequence[DriveResult], map_name: str) -> Iterator[DriveResult]:
    """Yield the first drive of each of the map's first episodes."""
    seen: set[int] = set()
    for one in driven:
        if one.row.map == map_name and one.path and one.row.index not in seen and len(seen) < MOST:
            seen.add(one.row.index)
            yield one


def save_ways(world: World, ways: Sequence[Way], title: str, file: Path) -> None:
    """Write drives over their map, with a title and their number below. Raises InputError."""
    goals = [np.array([way.goal_xy_m]) for way in ways]
    view = view_of(world, np.concatenate([*(way.path[:, :2] for way in ways), *goals]))
    small = cells_image(view)
    image = small.resize((small.width * OVERSAMPLE, small.height * OVERSAMPLE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for way, goal in zip(ways, goals, strict=True):
        color = ARRIVED if way.arrived else LOST
        draw.line([view.px(point) for point in way.path], color, LINE_PX * OVERSAMPLE, "curve")
        draw.circle(view.px(way.path[0]), OVERSAMPLE * view.length_px(DOT_M), START)
        draw.circle(view.px(goal[0]), OVERSAMPLE * view.length_px(DOT_M), GOAL)
    arrived = sum(way.arrived for way in ways)
    small = image.resize(small.size, Image.Resampling.BOX)
    ends_in = f"{arrived} arrived (blue), {len(ways) - arrived} did not (orange)"
    words = f"{title}: {len(ways)} drives from green to red, {ends_in}"
    font = ImageFont.load_default(FONT_PX)
    width = max(small.width, PAD_PX + round(font.getlength(words)))
    picture = Image.new("RGB", (width, small.height + PAD_PX), "white")
    picture.paste(small)
    ImageDraw.Draw(picture).text((PAD_PX / 2, small.height + PAD_PX / 2), words, INK, font, "lm")
    save_png(picture, file)


def save_png(image: Image.Image, file: Path) -> None:
    """Write an image. Raises InputError naming the file."""
    with naming(file, "written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        image.save(file, "PNG")
