"""Which episodes a ceiling and the evaluations of a policy have in common, so that they can stand side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engines.report.results.result_files import CEILING, Evaluated, Gathered, episodes_of, same_set
from engines.report.results.section import NOT_STATED
from engines.report.sections.differences import OTHER_CODE
from hil.evaluate.result import Row
from hil.evaluate.tables import percent
from hil.evaluate.upper_bound.upper_bound import Ends, ceiling_of, ends_of_json

Indices = Mapping[Hashable, Sequence[int]]
FAR_M = 1.0
"""An estimate that is further off is lost, not only inexact."""
OF_DRIVEN = (
    "The first figures are of all episodes of the ceiling and can be compared from row to row. All others of a row are "
    "of those episodes that were driven under its condition"
)
SHARES_NOTE = (
    "Intervals are Wilson's; the draws of one episode are alike and count as fewer trials, together at least as one "
    "(Kish's effective sample size)."
)
OF_ALL = "the estimators' figures are of all episodes of the ceiling, the SR of those driven"


@dataclass(frozen=True, slots=True)
class Joined:
    """One condition of a ceiling beside what was driven under it.

    figures:           of `hil.evaluate.upper_bound.upper_bound.Ceiling`, as plain values
    of_all:            the same of all its episodes, which are the same for every condition
    successes, driven: how many of the ceiling's episodes were driven under the condition, and how many arrived
    whole:             how many episodes the ceiling is of
    far:               share of all drives at whose end the runtime's filter was more than `FAR_M` off, and the same of
                       the ideal estimator; None of a file of before the ends were kept
    code:              `OTHER_CODE` where another state of the code drove than made the ceiling
    of_driven:         whether `figures` are of the driven episodes; they are of all where none was driven, or where
                       the file is of before the ends of each episode were kept
    """

    condition: str
    figures: Mapping[str, Any]
    of_all: Mapping[str, Any]
    successes: int
    driven: int
    whole: int
    of_driven: bool
    far: tuple[float, float] | None
    code: str

    @property
    def rate(self) -> float | None:
        """Return the success rate; None where nothing was driven."""
        return self.successes / self.driven if self.driven else None


def joined_ceilings(found: Gathered) -> list[Joined]:
    """Return one row for each condition of a ceiling; nothing without one. Raises InputError for a damaged file."""
    table = found.ceiling or {"conditions": {}}
    told = told_episodes(table)
    whole = sum(len(numbers) for numbers in told.values())
    rows = []
    for name, one in table["conditions"].items():
        driven, code = driven_as(name, found, told)
        ends = ends_of_json(table, name, found.folder / CEILING)
        of_all = asdict(ceiling_of(list(ends.values()))) if ends else _without_intervals(one)
        same = [ends[row.map, row.index] for row in driven if (row.map, row.index) in ends]
        figures = asdict(ceiling_of(same)) if same else of_all
        successes = sum(row.success for row in driven)
        mark = OTHER_CODE if code and table.get("code", code) != code else ""
        rows.append(Joined(name, figures, of_all, successes, len(driven), whole, bool(same), _far(ends), mark))
    return rows


def _without_intervals(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that an older file states; its intervals are sure of what never varied."""
    return {name: value for name, value in figures.items() if not name.endswith("_ci95")}


def far_note(rows: Sequence[Joined]) -> str:
    """Return under which conditions the runtime's filter ended far off, and how often; "" of none."""
    told = [
        f"`{one.condition}` {percent(one.far[0])} ({percent(one.far[1])})" for one in rows if one.far and one.far[0]
    ]
    words = f"More than {FAR_M:g} m off at the end, the runtime's filter (the ideal estimator), in % of all drives"
    return f"{words}: {', '.join(told)}." if told else ""


def made_note(found: Gathered, rows: Sequence[Joined]) -> str:
    """Return which code made the ceiling, of which older files tell nothing, and what the mark in the rows says."""
    marked = (
        f"{OTHER_CODE.strip()}: another state of the code drove these episodes."
        if any(one.code for one in rows)
        else ""
    )
    return f"Code that made the ceiling: {(found.ceiling or {}).get('code', NOT_STATED)}. {marked}".rstrip()


def _far(ends: Ends) -> tuple[float, float] | None:
    drives = [one for draws in ends.values() for one in draws]
    if not drives:
        return None
    own, ideal = (sum(error_m > FAR_M for error_m in errors) / len(drives)
                  for errors in ([one.own_m for one in drives], [one.ideal_m for one in drives]))  # fmt: skip
    return own, ideal


def joined_note(rows: Sequence[Joined]) -> str:
    """Return which episodes the figures of a table are of."""
    apart = [f"`{one.condition}`" for one in rows if not one.of_driven and 0 < one.driven < one.whole]
    if apart:
        return f"Under {', '.join(apart)} {OF_ALL}. {SHARES_NOTE}"
    return f"{OF_DRIVEN}, of all where none was. {SHARES_NOTE}"


def told_episodes(ceiling: Mapping[str, Any]) -> Indices:
    """Return the numbers of the episodes of each set that a ceiling is of; nothing where it does not tell its sets.

    A ceiling of before these were written is of the first ones.
    """
    listed = ceiling.get("episodes", {})
    return {same_set(one): listed.get(one[0], range(one[1])) for one in episodes_of(ceiling)}


def driven_as(condition: str, found: Gathered, told: Indices) -> tuple[tuple[Row, ...], str | None]:
    """Return the rows of those episodes under a condition, of the evaluation that has most of them; maybe none.

    With them the digest of the code that drove them.

    Counted are plain evaluations, for a ceiling is of these, and of them those of the headline's robot.
    """
    plain = [one for one in found.evaluations if one.condition == condition and one.is_plain]
    rows = [(_rows_of(one, told), one.configuration.get("code")) for one in plain if one.is_of_robot(found.headline)]
    return max(rows, key=lambda pair: len(pair[0]), default=((), None))


def _rows_of(one: Evaluated, told: Indices) -> tuple[Row, ...]:
    numbers = {place[0]: told.get(same_set(place), ()) for place in episodes_of(one.configuration)}
    return tuple(row for row in one.rows if row.index in numbers.get(row.map, ()))
