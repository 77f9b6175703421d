"""Drives of a policy in one unseen building, to be drawn: episodes of its set, as evaluations drive them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from engines.report.gathered import REFERENCE, REFERENCE_SET, Evaluated
from hil.baselines import POLICIES, check_policy, model_of
from hil.evaluate.campaign import in_this_process, jobs_of
from hil.evaluate.code import file_digest
from hil.evaluate.command import load_robot
from hil.evaluate.episode_driver import EpisodeDriver, Run, check_run
from hil.evaluate.sets import find_sets
from onboard.errors import InputError
from onboard.pretrained import is_name

COUNT, SEED = 20, 1
"""As many drives as the paper's Fig. 6 shows."""


def driver_of(policy: str) -> dict[str, str | None]:
    """Return what is told of a policy: its name without its folder, and the digest of its model, None without one.

    Raises OnboardError for a policy that there is not.
    """
    check_policy(policy)
    return {
        "policy": Path(policy).name,
        "model": None if policy in POLICIES else file_digest(model_of(policy)),
    }


def require_drives_of(headline: Evaluated | None, told: Mapping[str, Any], where: str) -> None:
    """Raise InputError for drives of another policy than the one whose figures are quoted, as far as it is known.

    told: as of `driver_of`; older files tell of no model. where: the file or the option, as it is named
    """
    if headline is None:
        return
    ours, name = headline.configuration, headline.configuration.get("policy")
    if "model" in told and "model" in ours:
        alike = (told["model"] or told["policy"]) == (ours["model"] or name)
    else:  # the name of a file is not that of the policy in it
        named = [str(one) for one in (name, told["policy"]) if one is not None and is_name(str(one))]
        alike = len({*named}) < 2
    if not alike:
        of_ours = _named(headline.driver, ours.get("model"))
        raise InputError(f"{where}: by {_named(told['policy'], told.get('model'))}, the report is about {of_ours}")


def _named(policy: str, model: str | None) -> str:
    return policy if model is None else f"{policy} (digest {model})"


def drive_trajectories(policy: str, map_name: str, count: int = COUNT) -> dict[str, Any]:
    """Return how some episodes of a map went, with their ways, for JSON. Raises OnboardError."""
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
