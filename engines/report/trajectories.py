"""Drives of a policy in one unseen building, to be drawn: episodes of its set, as evaluations drive them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from engines.report.gathered import REFERENCE, REFERENCE_SET
from hil.evaluate.campaign import in_this_process, jobs_of
from hil.evaluate.command import load_robot
from hil.evaluate.episode_driver import EpisodeDriver, Run, check_run
from hil.evaluate.sets import find_sets

COUNT, SEED = 20, 1
"""As many drives as the paper's Fig. 6 shows."""


def drive_trajectories(model: Path, map_name: str, count: int = COUNT) -> dict[str, Any]:
    """Return how some episodes of a map went, with their ways, for JSON. Raises OnboardError."""
    robot = load_robot(None)
    run = Run(str(model), condition=REFERENCE)
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
        "policy": model.name,
        "map": map_name,
        "set": REFERENCE_SET,
        "condition": REFERENCE,
        "seed": SEED,
        "drives": drives,
    }
