"""Pictures of a report: shares of actions (paper 1, Fig. 8), and drives over a map (Fig. 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.progress import track

from engines.report.results.markdown import signed
from engines.report.results.result_files import REFERENCE, REFERENCE_SET, Evaluated
from hil.commands.judge.evaluate import load_robot
from hil.drive.picture import INK
from hil.evaluate.baselines.registry import POLICIES, check_policy, model_of
from hil.evaluate.campaign import jobs_of
from hil.evaluate.episode import EpisodeDriver, Run, check_run
from hil.evaluate.episode_selection import Source, find_sets, load_set
from hil.evaluate.ways_picture import ARRIVED, FONT_PX, PAD_PX, Way, save_png, save_ways
from hil.jobs.code_digest import file_digest
from hil.jobs.work import in_this_process
from onboard.config.pretrained import is_name, model_and_fallback
from onboard.policy.contract import ANGULAR_RADPS, LINEAR_MPS
from onboard.values.errors import InputError

ACTIONS_FILE, TRAJECTORIES_FILE = "actions.png", "trajectories.png"
BAR_PX, GAP_PX, HEIGHT_PX = 34, 40, 300


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
    save_png(image, file)


def save_trajectories(table: Mapping[str, Any], file: Path) -> None:
    """Write the drives of `drive_trajectories` over their map, with the policy's name. Raises InputError."""
    known = load_set(Source(table["map"], table["map"], len(table["drives"]), set=table["set"]))
    ways = [
        Way(np.array(drive["path"], float), known.episodes[drive["index"]].goal_xy_m, bool(drive["success"]))
        for drive in table["drives"]
    ]
    save_ways(known.world, ways, f"{table['policy']} in {table['map']}", file)


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
    if not alike or model_and_fallback(str(driver["policy"]))[1] != headline.fallback:
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
