"""Whether the figures that a result states are those of the episodes that it tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row
from onboard.errors import InputError

MEANS = {"success_rate": "success", "spl": "spl", "sct": "sct", "contacts_per_episode": "contacts"}
"""Figure -> what of each episode it is the mean of."""
ROUNDING = 1e-9


def require_of_episodes(file: Path, name: str, summary: Summary, rows: Sequence[Row]) -> None:
    """Raise InputError for a file that states other figures than its episodes have."""
    if summary.episodes != len(rows):
        raise InputError(f"{file}: {name}: states {summary.episodes} episodes, tells {len(rows)}")
    for figure, of_episode in MEANS.items() if rows else ():
        stated = getattr(summary, figure)
        told = math.fsum(float(getattr(row, of_episode)) for row in rows) / len(rows)
        if stated is None or not math.isclose(stated, told, rel_tol=ROUNDING, abs_tol=ROUNDING):
            raise InputError(f"{file}: {name}: states {figure} {stated}, its {len(rows)} episodes have {told:.6g}")
