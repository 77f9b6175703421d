"""Of drives in a condition with a door: on whose way one stands, and before whom it shut (`hil/blockings.py`).

Where nothing would be in the way no door is put, and such an episode says nothing of who is blocked. So the figures of
a condition are those of the episodes that have a door, which are the same for every agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hil.blockings import Blocking, advance
from hil.conditions import load_conditions
from hil.evaluate.evaluation import Evaluation
from hil.evaluate.metrics import summarise
from hil.evaluate.others import others_in
from hil.evaluate.sets import load_set


def behind_doors(found: Evaluation) -> dict[str, Any] | None:
    """Return how many drives had a door, before how many it shut, and their figures; None in a condition without.

    Raises InputError for a set that is not what it was.
    """
    shut_s = load_conditions()[found.plan.run.condition].blocked_s
    if shut_s == 0.0:
        return None
    behind, shut = [], 0
    for source in found.plan.sources:
        known, body = load_set(source), found.plan.robot.body
        others = others_in(known.world, body, 0, shut_s)
        for driven in (one for one in found.driven if one.row.map == source.name):
            crowd = others.crowd(known.episodes[driven.row.index], driven.row.seed)
            if crowd is None or crowd.blocking is None:
                continue
            behind.append(driven)
            shut += shuts(crowd.blocking, driven.path, body.radius_m)
    rows = [driven.row for driven in behind]
    return {"episodes": len(rows), "shut": shut, "summary": summarise(rows, found.plan.seed).as_json()}


def shuts(door: Blocking, path: Sequence[tuple[float, float, float]], radius_m: float) -> bool:
    """Return whether a door shut before a robot that drove a way, of which every third of a second is known."""
    return any(advance(door, 0.0, (x, y), radius_m).left_s is not None for x, y, _ in path)
