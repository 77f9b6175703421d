"""Paired differences of two evaluations on the same episodes: more sensitive than a comparison of two intervals."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engines.report.results import REFERENCE, EvaluationResult, ResultFolder, same_set
from hil.evaluate.metrics import Interval, bootstrap, is_behind, means_by_episode, paired_rates
from hil.evaluate.result import Row
from onboard.commands.cli import markdown_table

OURS = "this policy"
BLIND = f"{OURS} without colour images"
FIGURE_NAMES = {"success": "SR", "spl": "SPL", "sct": "SCT"}
"""Field of an episode, and name of its mean."""
HEADINGS = ("", "episodes", *FIGURE_NAMES.values())
BEFORE, AFTER = "before", "after"
"""Prefixes of names before and after fine-tuning."""
NO_RESET = "_no_reset"
"""Suffix of a condition that differs only by the missing memory reset."""
OTHER_CODE = " †"
"""Mark of a difference between evaluations by two versions of the code."""
NOTE = (
    "Differences are in points, on the same episodes, with 95 % intervals. An interval that holds 0 shows no "
    "significant difference. †: two states of the code drove the two evaluations."
)

Pairs = Sequence[tuple[Row, Row]]
Named = tuple[str, EvaluationResult]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over episodes, first minus second, with its 95 % interval [1]."""

    mean: float
    interval: Interval

    def __str__(self) -> str:
        """Return mean and interval in points."""
        return f"{100 * self.mean:+.1f} ({100 * self.interval[0]:+.1f} to {100 * self.interval[1]:+.1f})"


def main_differences(found: ResultFolder) -> list[list[str]]:
    """Return the model card's rows: the policy minus baselines on each set, with its fallback, and without colour."""
    baselines = [one for one in found.others if one.condition == REFERENCE and one.is_plain]
    pairs = [(name, one, other) for (name, one), other in itertools.product(_ours(found), baselines)]
    pairs += [
        (_on_set(one.driver, one, found), one, other)
        for one, other in itertools.permutations(baselines, 2)
        if one.is_of_model(found.headline) and not one.is_of_policy(other)
    ]
    rows = [_row((name, one), (other.driver, other)) for name, one, other in pairs if one.is_driven_as(other)]
    return rows + [_row(one, other) for one, other in _without_colour(found) if one[1].is_driven_as(other[1])]


def _ours(found: ResultFolder) -> list[Named]:
    """Return the evaluations that are compared with baselines: those with colour images, if there are any."""
    ours = [one for one in found.evaluations if one.condition == REFERENCE and replace(one, color=True).is_plain]
    plain = sorted((one for one in ours if one.color), key=lambda one: one is not found.headline)
    blind = [(_on_set(BLIND, one, found), replace(one, color=True)) for one in ours]
    return [(_on_set(OURS, one, found), one) for one in plain] or blind


def other_differences(found: ResultFolder) -> list[list[str]]:
    """Return rows for seeds, fine-tuning and conditions without a memory reset."""
    rows = [_row(one, other) for one, other in _candidates(found) if one[1].is_driven_as(other[1])]
    conditions = {evaluation.condition: evaluation for evaluation in found.evaluations if evaluation.is_plain}
    for name, reset in conditions.items():
        never = conditions.get(name + NO_RESET)
        if never is not None and reset.is_of_robot(never):
            pairs = pairs_of(reset, never)
            behind = [pair for pair in pairs if is_behind(pair[0])]
            rows.append(_row((f"`{name}`", reset), (f"`{never.condition}`", never), behind or pairs))
    return rows


def differences_table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows of a function of this module as a table in Markdown."""
    return markdown_table(HEADINGS, rows)


def pairs_of(one: EvaluationResult, other: EvaluationResult) -> list[tuple[Row, Row]]:
    """Return pairs of rows of the same episodes, under any conditions."""
    theirs_of = {place[0]: same_set(place) for place in other.episodes}
    same = {place[0] for place in one.episodes if theirs_of.get(place[0]) == same_set(place)}
    theirs = dict(_numbered([row for row in other.rows if row.map in same]))
    return [(row, theirs[key]) for key, row in _numbered(one.rows) if key in theirs]


def difference_of(name: str, pairs: Pairs) -> Difference | None:
    """Return the difference in the mean of an episode's field; None without pairs."""
    values = np.array([float(getattr(ours, name)) - float(getattr(its, name)) for ours, its in pairs])
    by_episode = means_by_episode([ours for ours, _ in pairs], values)
    if name == "success" and len(by_episode) == len(values):
        interval = paired_rates(int((values > 0.0).sum()), int((values < 0.0).sum()), len(values))
    else:
        interval = bootstrap(_means, (by_episode,), 0)
    return None if interval is None else Difference(float(values.mean()), interval)


def code_mark(one: EvaluationResult, other: EvaluationResult) -> str:
    """Return `OTHER_CODE` if two versions of the code drove, else ""."""
    return "" if one.configuration.get("code") == other.configuration.get("code") else OTHER_CODE


def _candidates(found: ResultFolder) -> Iterator[tuple[Named, Named]]:
    seeds = [(seed.name, seed) for seed in found.seeds]
    if found.headline is not None:
        yield from itertools.product([(OURS, found.headline)], seeds)
    yield from itertools.product(seeds, [(one.driver, one) for one in found.others])
    for one, other in itertools.permutations(found.fine, 2):
        if other.name.replace(BEFORE, AFTER, 1) == one.name != other.name or _is_rival(other.name, one.name):
            yield (one.name, one), (other.name, other)
        elif other.color and not one.color and one.is_of_policy(other):
            yield (one.name, one), (other.name, replace(other, color=False))


def _is_rival(name: str, after: str) -> bool:
    """Return whether `name` is of another policy on the building of `after`: reactive-home and after-home."""
    kind, _, place = name.partition("-")
    return bool(place) and kind not in (BEFORE, AFTER) and after == f"{AFTER}-{place}"


def _without_colour(found: ResultFolder) -> list[tuple[Named, Named]]:
    """Return drives without colour images and the headline, marked as without them."""
    blind = [(BLIND, evaluation) for evaluation in found.evaluations if not evaluation.color]
    return [(one, ("with them", replace(found.headline, color=False))) for one in blind if found.headline is not None]


def _on_set(name: str, one: EvaluationResult, found: ResultFolder) -> str:
    return name if one is found.headline else f"{name}, set `{', '.join(one.sets)}`,"


def _row(one: Named, other: Named, pairs: Pairs | None = None) -> list[str]:
    pairs = pairs_of(one[1], other[1]) if pairs is None else pairs
    cells = [str(difference_of(figure, pairs) or "-") for figure in FIGURE_NAMES]
    return [f"{one[0]} minus {other[0]}{code_mark(one[1], other[1])}", str(len(pairs)), *cells]


def _numbered(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, int, int], Row]]:
    """Yield each row after its key: map, episode, and number of the drive among the drives of this episode."""
    drives: Counter[tuple[str, int]] = Counter()
    for row in rows:
        yield (row.map, row.index, drives[row.map, row.index]), row
        drives[row.map, row.index] += 1


def _means(samples: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.asarray(samples[0].mean(axis=1))
