"""Pictures of a report: shares of actions (paper 1, Fig. 8), and drives over a map (Fig. 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.progress import track

from engines.report.results.markdown import signed
from engines.report.results.result_files import REFERENCE, REFERENCE_SET, Evaluated
from hil.commands.judge.evaluate import load_robot
from hil.drive.picture import FREE, GOAL, HANGING, INK, LARGEST_PX, LOW, MARGIN_M, OVERSAMPLE, START, WALL
from hil.evaluate.baselines.registry import POLICIES, check_policy, model_of
from hil.evaluate.campaign import jobs_of
from hil.evaluate.episode import EpisodeDriver, Run, check_run
from hil.evaluate.episode_selection import Source, find_sets, load_set
from hil.jobs.code_digest import file_digest
from hil.jobs.work import in_this_process
from hil.maps.world_grid import WALL_HEIGHT_M, World
from onboard.config.pretrained import is_name
from onboard.policy.contract import ANGULAR_RADPS, LINEAR_MPS
from onboard.values.errors import InputError
from onboard.values.geometry import apply

ACTIONS_FILE, TRAJECTORIES_FILE = "actions.png", "trajectories.png"
BAR_PX, GAP_PX, HEIGHT_PX, PAD_PX, FONT_PX = 34, 40, 300, 30, 16
ARRIVED, LOST = (20, 90, 200), (220, 110, 0)
"""Colours of drives that arrived, and of other drives."""
LINE_PX, DOT_M = 2, 0.2

Points = npt.NDArray[np.float64]


def save_actions(counts: Sequence[int], file: Path) -> None:
    """Write a bar chart of the 28 actions as shares of all decisions, grouped by speed. Raises InputError."""
    total, width = max(1, sum(counts)), len(ANGULAR_RADPS)
    most = max(max(counts) / total, 1e-9)
    group_px = width * BAR_PX + GAP_PX
    font = ImageFont.load_default(FONT_PX)
    image = Image.new("RGB", (2 * PAD_PX + len(LINEAR_MPS) * group_px - GAP_PX, HEIGHT_PX + 4 * PAD_PX), "white")
    draw = ImageDraw.Draw(image)
    floor = HEIGHT_PX + 2 * PAD_PX
    for index, count in enumerate(counts):
        row, column = divmod(index, width)
        x = PAD_PX + row * group_px + column * BAR_PX
        height = HEIGHT_PX * count / total / most
        draw.rectangle((x + 2, floor - height, x + BAR_PX - 2, floor), ARRIVED)
        draw.text((x + BAR_PX / 2, floor - height - 3), f"{100 * count / total:.0f}", INK, font, "mb")
        draw.text((x + BAR_PX / 2, floor + 4), signed(ANGULAR_RADPS[column]), INK, font, "mt")
    for row, speed in enumerate(LINEAR_MPS):
        middle = PAD_PX + row * group_px + width * BAR_PX / 2
        draw.text((middle, floor + PAD_PX), f"{speed:g} m/s", INK, font, "mt")
    draw.text((PAD_PX, PAD_PX / 2), f"% of {total} decisions, by speed and by turning [rad/s]", INK, font, "lt")
    _save(image, file)


def save_trajectories(table: Mapping[str, Any], file: Path) -> None:
    """Write the drives of `drive_trajectories` over their map, with the policy's name. Raises InputError."""
    known = load_set(Source(table["map"], table["map"], len(table["drives"]), set=table["set"]))
    ways = [np.array(drive["path"], float) for drive in table["drives"]]
    ends = [np.array([known.episodes[drive["index"]].goal_xy_m]) for drive in table["drives"]]
    view = _View(known.world, np.concatenate([*(way[:, :2] for way in ways), *ends]))
    image = view.image()
    draw = ImageDraw.Draw(image)
    for way, drive, goal in zip(ways, table["drives"], ends, strict=True):
        color = ARRIVED if drive["success"] else LOST
        draw.line([view.px(point) for point in way], color, LINE_PX * OVERSAMPLE, "curve")
        draw.circle(view.px(way[0]), view.cells_px(DOT_M), START)
        draw.circle(view.px(goal[0]), view.cells_px(DOT_M), GOAL)
    arrived = sum(bool(drive["success"]) for drive in table["drives"])
    small = image.resize((image.width // OVERSAMPLE, image.height // OVERSAMPLE), Image.Resampling.BOX)
    ends_in = f"{arrived} arrived (blue), {len(ways) - arrived} did not (orange)"
    words = f"{table['policy']} in {table['map']}: {len(ways)} drives from green to red, {ends_in}"
    font = ImageFont.load_default(FONT_PX)
    width = max(small.width, PAD_PX + round(font.getlength(words)))
    picture = Image.new("RGB", (width, small.height + PAD_PX), "white")
    picture.paste(small)
    ImageDraw.Draw(picture).text((PAD_PX / 2, small.height + PAD_PX / 2), words, INK, font, "lm")
    _save(picture, file)


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


def _save(image: Image.Image, file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        image.save(file, "PNG")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from error


# ---- Drives for the picture: episodes of an unseen map, driven as in evaluations

COUNT, SEED = 20, 1
"""Number of drives in the paper's Fig. 6."""


def driver_of(policy: str) -> dict[str, str | None]:
    """Return a policy's name without folder, and the digest of its model, None without a model.

    Raises OnboardError for an unknown policy.
    """
    check_policy(policy)
    return {
        "policy": Path(policy).name,
        "model": None if policy in POLICIES else file_digest(model_of(policy)),
    }


def require_drives_of(headline: Evaluated | None, driver: Mapping[str, Any], where: str) -> None:
    """Raise InputError if the drives are known to be of another policy than the headline.

    driver: as of `driver_of`; older files lack the model. where: file or option, for the message
    """
    if headline is None:
        return
    ours, name = headline.configuration, headline.configuration.get("policy")
    if "model" in driver and "model" in ours:
        alike = (driver["model"] or driver["policy"]) == (ours["model"] or name)
    else:  # the name of a file is not the name of its policy
        named = [str(one) for one in (name, driver["policy"]) if one is not None and is_name(str(one))]
        alike = len({*named}) < 2
    if not alike:
        of_ours = _named(headline.driver, ours.get("model"))
        raise InputError(f"{where}: by {_named(driver['policy'], driver.get('model'))}, the report is about {of_ours}")


def _named(policy: str, model: str | None) -> str:
    return policy if model is None else f"{policy} (digest {model})"


def drive_trajectories(policy: str, map_name: str, count: int = COUNT) -> dict[str, Any]:
    """Drive episodes of a map; return their results and paths for JSON. Raises OnboardError."""
    robot = load_robot(None)
    run = Run(policy, condition=REFERENCE)
    check_run(run, robot)
    (source,) = find_sets([map_name], count, SEED, robot.body, REFERENCE_SET)
    drive = EpisodeDriver(run, robot, {source.name: source})
    coming = in_this_process(drive, jobs_of(source.name, source.indices, SEED))
    drives = [
        {
            "index": one.row.index,
            "success": one.row.success,
            "ended": one.row.ended,
            "contacts": one.row.contacts,
            "path": one.path,
        }
        for one in track(coming, f"driving in {map_name}", total=count, console=Console(stderr=True))
    ]
    return {
        **driver_of(policy),
        "map": map_name,
        "set": REFERENCE_SET,
        "condition": REFERENCE,
        "seed": SEED,
        "drives": drives,
    }
