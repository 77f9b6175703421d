"""Several evaluations of one command, one after the other, each with a partial file of its own: one a condition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hil.evaluate.campaign import DriveJob
from hil.evaluate.evaluation import Evaluation, Plan, evaluate, partial_path


def evaluate_each(
    plans: Mapping[str, Plan], partial: Path | None, json_file: str | None, drive: DriveJob | None = None
) -> dict[str, Evaluation]:
    """Drive what is left of each plan and return what they came to, by name; after a signal the first ones.

    partial:   where the rows are kept until all is done, with the name behind it where there are several
    json_file: beside which they are kept when `partial` says nothing
    drive:     another way to drive, for tests
    Raises OnboardError; what was driven until then is kept.
    """
    done: dict[str, Evaluation] = {}
    for name, plan in plans.items():
        alone = len(plans) == 1
        beside = None if json_file is None else json_file if alone else f"{json_file}.{name}"
        own = None if partial is None else partial if alone else Path(f"{partial}.{name}")
        title = plan.run.policy if alone else f"{plan.run.policy}, {name}"
        done[name] = evaluate(plan, own or partial_path(plan, beside), title, drive)
        if done[name].exit_code:
            break
    return done


def as_json(done: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the result as plain values: of one evaluation its own, of several theirs by name under "conditions"."""
    tables = {name: one.as_json() for name, one in done.items()}
    return next(iter(tables.values())) if len(tables) == 1 else {"conditions": tables}
