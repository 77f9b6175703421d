"""Which episodes a ceiling and the evaluations of a policy have in common, so that they can stand side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from engines.report.gathered import Evaluated, Gathered, episodes_of
from hil.evaluate.result import Row

Indices = Mapping[Hashable, Sequence[int]]


def told_episodes(ceiling: Mapping[str, Any]) -> Indices:
    """Return the numbers of the episodes of each set that a ceiling is of; nothing where it does not tell its sets.

    A ceiling of before these were written is of the first ones.
    """
    listed = ceiling.get("episodes", {})
    return {_same(one): listed.get(one[0], range(one[1])) for one in episodes_of(ceiling)}


def driven_as(condition: str, found: Gathered, told: Indices) -> tuple[Row, ...]:
    """Return the rows of those episodes under a condition, of the evaluation that has most of them; maybe none.

    Counted are plain evaluations, for a ceiling is of these, and of them those of the headline's robot.
    """
    plain = [one for one in found.evaluations if one.condition == condition and one.is_plain]
    rows = [_rows_of(one, told) for one in plain if _is_of_one_robot(one, found.headline)]
    return max(rows, key=len, default=())


def _is_of_one_robot(one: Evaluated, other: Evaluated | None) -> bool:
    """Return whether nothing tells of two robots; older results tell of none."""
    robots = [each.configuration["robot"] for each in (one, other) if each and "robot" in each.configuration]
    return len(set(robots)) < 2


def _rows_of(one: Evaluated, told: Indices) -> tuple[Row, ...]:
    numbers = {place[0]: told.get(_same(place), ()) for place in episodes_of(one.configuration)}
    return tuple(row for row in one.rows if row.index in numbers.get(row.map, ()))


def _same(place: Sequence[Any]) -> Hashable:
    """Return what two rows of name, count, digest, seed, set (and furniture) of one set have in common."""
    return (place[0], *place[2:])
