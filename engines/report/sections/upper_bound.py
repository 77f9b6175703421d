"""Table of the upper bound: success with the best pose estimate, beside the policy on the same episodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engines.report.results.markdown import table
from engines.report.results.result_files import CEILING, Gathered, episodes_of, same_set
from engines.report.results.section import Part, rate, share
from engines.report.sections.differences import OTHER_CODE
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING, number, percent
from hil.evaluate.upper_bound.upper_bound import ceiling_of, ends_of_json

FAR_M = 1.0
"""A larger error counts as lost."""
HEADINGS = ("condition", "episodes", "ideal %", "its median error cm", "ideal at the next fix %", "runtime's filter %",
            f"filter more than {FAR_M:g} m off %", "SR % of the policy")  # fmt: skip
NOTE = (
    "A map planner drives each episode with several draws of the noise (`onboard-hil upper-bound`). The ideal "
    "estimator knows the noise. Its error at the end must be at most 0.2 m. The next fix comes while the robot "
    "turns on the spot. Each row counts those episodes that the policy drove in this condition. Intervals are "
    "Wilson's; draws of one episode count by Kish's effective sample size. †: another state of the code drove the "
    "policy."
)


def upper_bound(found: Gathered) -> Part:
    """Return a row for each condition of `onboard-hil upper-bound`. Raises InputError for a damaged file."""
    result = found.ceiling or {"conditions": {}}
    rows = [_row(found, result, name) for name in result["conditions"]]
    return Part("Upper bound", f"{table(HEADINGS, rows)}\n{NOTE}\n", "" if rows else CEILING)


def _row(found: Gathered, values: Mapping[str, Any], condition: str) -> list[str]:
    ends = ends_of_json(values, condition, found.folder / CEILING)
    rows, code = driven_as(condition, found, values)
    same = [ends[row.map, row.index] for row in rows] or list(ends.values())
    of = asdict(ceiling_of(same))
    far = [end.own_m > FAR_M for draws in same for end in draws]
    mark = OTHER_CODE if rows and values.get("code") != code else ""
    shares = {name: share(of[name], of[f"{name}_ci95"]) for name in ("ideal", "waited", "own")}
    return [f"`{condition}`", str(len(same)), shares["ideal"], number(of["ideal_median_m"], 1, 100.0), shares["waited"],
            shares["own"], percent(sum(far) / len(far)),
            rate(sum(row.success for row in rows), len(rows)) + mark if rows else NOTHING]  # fmt: skip


def driven_as(condition: str, found: Gathered, values: Mapping[str, Any]) -> tuple[Sequence[Row], str | None]:
    """Return rows and code of the plain evaluation with most of the upper bound's episodes."""
    numbers: dict[Hashable, Sequence[int]] = {same_set(one): values["episodes"][one[0]] for one in episodes_of(values)}
    plain = [one for one in found.evaluations if one.condition == condition and one.is_plain]
    of_robot = [one for one in plain if one.is_of_robot(found.headline)]
    rows = []
    for one in of_robot:
        places = {place[0]: numbers.get(same_set(place), ()) for place in one.episodes}
        rows.append(([row for row in one.rows if row.index in places.get(row.map, ())], one.configuration.get("code")))
    return max(rows, key=lambda pair: len(pair[0]), default=((), None))
