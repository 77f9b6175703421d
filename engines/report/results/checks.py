"""Checks of result files: their shape, and their figures against their episodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row
from onboard.values.errors import InputError

WRONG_SHAPE = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError)
"""Errors of reading a malformed table."""


@contextmanager
def shaped(file: Path, what: str) -> Iterator[None]:
    """Turn errors of reading a malformed table into InputError `file: what: why`."""
    try:
        yield
    except WRONG_SHAPE as error:
        raise InputError(f"{file}: {what}: {error!r}") from error


MEANS = {"success_rate": "success", "spl": "spl", "sct": "sct", "contacts_per_episode": "contacts"}
"""Figure -> field of an episode with this mean."""
ROUNDING = 1e-9


def require_of_episodes(file: Path, name: str, summary: Summary, rows: Sequence[Row]) -> None:
    """Raise InputError if the stated figures are not the means of the episodes."""
    if summary.episodes != len(rows):
        raise InputError(f"{file}: {name}: states {summary.episodes} episodes, tells {len(rows)}")
    for figure, of_episode in MEANS.items() if rows else ():
        stated = getattr(summary, figure)
        mean = math.fsum(float(getattr(row, of_episode)) for row in rows) / len(rows)
        if stated is None or not math.isclose(stated, mean, rel_tol=ROUNDING, abs_tol=ROUNDING):
            raise InputError(f"{file}: {name}: states {figure} {stated}, its {len(rows)} episodes have {mean:.6g}")
