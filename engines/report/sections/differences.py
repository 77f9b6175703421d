"""Paired differences of two evaluations on the same episodes.

A paired difference is more sensitive than a comparison of two intervals.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engines.report.results.markdown import table
from engines.report.results.result_files import REFERENCE, SEEDS, VALIDATION, Evaluated, Gathered, same_set
from engines.report.results.section import OURS, Part
from hil.evaluate.metrics import Interval, bootstrap, is_behind, means_by_episode, paired_rates
from hil.evaluate.result import Row

FIGURE_NAMES = {"success": "SR", "spl": "SPL", "sct": "SCT"}
"""Field of an episode, and name of its mean."""
HEADINGS = ("", "episodes", *FIGURE_NAMES.values())
SUCCESS = "success"
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

Array = npt.NDArray[np.float64]
Pairs = Sequence[tuple[Row, Row]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over episodes, first minus second, with its 95 % interval [1]."""

    mean: float
    interval: Interval

    def __str__(self) -> str:
        """Return mean and interval in points."""
        return f"{100 * self.mean:+.1f} ({100 * self.interval[0]:+.1f} to {100 * self.interval[1]:+.1f})"


def paired_differences(found: Gathered) -> Part:
    """Return a row for each pair of compared evaluations."""
    rows = [_row(*compared) for compared in _compared(found) if compared[2]]
    text = f"{table(HEADINGS, rows)}\n{NOTE}\n"
    return Part("Paired differences", text, "" if rows else f"{SEEDS}/*.json")


def main_differences(found: Gathered) -> str:
    """Return the model card's table: the policy minus baselines, with a fallback, and without colour; "" if none."""
    pairs = [*_beside(found, [(one.driver, one) for one in found.others if one.is_headline]), *_blind(found)]
    pairs += [*_on_other_sets(found), *_of_other_agents(found)]
    rows = [_row(one, other, pairs_of(one[1], other[1])) for one, other in pairs if one[1].is_driven_as(other[1])]
    return table(HEADINGS, rows) if rows else ""


def pairs_of(one: Evaluated, other: Evaluated) -> list[tuple[Row, Row]]:
    """Return pairs of rows of the same episodes, under any conditions."""
    theirs_of = {place[0]: same_set(place) for place in other.episodes}
    same = {place[0] for place in one.episodes if theirs_of.get(place[0]) == same_set(place)}
    theirs = dict(_numbered([row for row in other.rows if row.map in same]))
    return [(row, theirs[key]) for key, row in _numbered(one.rows) if key in theirs]


def _numbered(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, int, int], Row]]:
    """Yield each row after its key: map, episode, and number of the drive among the drives of this episode."""
    drives: Counter[tuple[str, int]] = Counter()
    for row in rows:
        yield (row.map, row.index, drives[row.map, row.index]), row
        drives[row.map, row.index] += 1


def difference_of_rates(pairs: Pairs) -> Difference | None:
    """Return the difference in the success rate; None without pairs."""
    return _difference(SUCCESS, pairs)


def code_mark(one: Evaluated, other: Evaluated) -> str:
    """Return `OTHER_CODE` if two versions of the code drove, else ""."""
    return "" if one.configuration.get("code") == other.configuration.get("code") else OTHER_CODE


def is_same_policy(one: Evaluated, other: Evaluated | None) -> bool:
    """Return whether both have the same model, by its digests, and the same fallback."""
    return other is not None and is_same_model(one, other) and one.fallback == other.fallback


def is_same_model(one: Evaluated, other: Evaluated) -> bool:
    """Return whether both have the same model, by its digests."""
    return all(one.configuration.get(name) == other.configuration.get(name) for name in ("model", "manifest"))


Named = tuple[str, Evaluated]


def _compared(found: Gathered) -> Iterator[tuple[Named, Named, Pairs]]:
    """Yield pairs of comparable evaluations with their paired episodes."""
    for one, other in _candidates(found):
        if one[1].is_driven_as(other[1]):
            yield one, other, pairs_of(one[1], other[1])
    conditions = {one.condition: one for one in found.evaluations if one.is_plain}
    for name, reset in conditions.items():
        never = conditions.get(name + NO_RESET)
        if never is not None and reset.is_of_robot(never):
            behind = [pair for pair in pairs_of(reset, never) if is_behind(pair[0])]
            yield (f"`{name}`", reset), (f"`{never.condition}`", never), behind or pairs_of(reset, never)


def _candidates(found: Gathered) -> Iterator[tuple[Named, Named]]:
    seeds, others = [(one.name, one) for one in found.seeds], [(one.driver, one) for one in found.others]
    yield from _beside(found, [named for named in (*others, *seeds) if named[1].is_headline])
    yield from itertools.product(seeds, others)
    yield from _blind(found)
    for one, other in itertools.permutations(found.validation, 2):
        if is_same_policy(one, found.headline) and not is_same_policy(other, found.headline):
            yield (f"{OURS}, set `{VALIDATION}`,", one), (other.name, other)
    for one, other in itertools.permutations(found.fine, 2):
        if other.name.replace(BEFORE, AFTER, 1) == one.name != other.name or _is_beside_after(other.name, one.name):
            yield (one.name, one), (other.name, other)
        elif other.color and not one.color and is_same_policy(one, other):
            yield (one.name, one), (other.name, _without_images(other))


def _is_beside_after(name: str, after: str) -> bool:
    """Return whether `name` is of another policy on the building of `after`: reactive-home beside after-home."""
    kind, _, place = name.partition("-")
    return bool(place) and kind not in (BEFORE, AFTER) and after == f"{AFTER}-{place}"


def _beside(found: Gathered, others: Sequence[Named]) -> Iterator[tuple[Named, Named]]:
    ours = [] if found.headline is None else [(OURS, found.headline)]
    return itertools.product(ours, others)


def _on_other_sets(found: Gathered) -> Iterator[tuple[Named, Named]]:
    """Yield the policy and each baseline in the paper's condition, on committed sets other than the headline's."""
    ours = [one for one in found.evaluations if one.condition == REFERENCE and one.is_plain and not one.is_headline]
    for one, other in itertools.product(ours, found.others):
        if one.sets == other.sets:
            yield (f"{OURS}, set `{', '.join(one.sets)}`,", one), (other.driver, other)


def _of_other_agents(found: Gathered) -> Iterator[tuple[Named, Named]]:
    """Yield the policy with another beside it, and each baseline, in the paper's condition on the same sets."""
    plain = [one for one in found.others if one.condition == REFERENCE and one.is_plain]
    ours = [one for one in plain if found.headline is not None and is_same_model(one, found.headline)]
    for one, other in itertools.product(ours, plain):
        if not is_same_policy(other, one) and one.sets == other.sets:
            yield (f"{one.driver}, set `{', '.join(one.sets)}`,", one), (other.driver, other)


def _blind(found: Gathered) -> list[tuple[Named, Named]]:
    blind = [(f"{OURS} without colour images", one) for one in found.evaluations if not one.color]
    return [(one, ("with them", _without_images(found.headline))) for one in blind if found.headline is not None]


def _row(one: Named, other: Named, pairs: Pairs) -> list[str]:
    cells = [str(_difference(figure, pairs)) for figure in FIGURE_NAMES]
    return [f"{one[0]} minus {other[0]}{code_mark(one[1], other[1])}", str(len(pairs)), *cells]


def _without_images(one: Evaluated) -> Evaluated:
    """Return an evaluation marked as without colour, to compare it with a drive without colour."""
    return replace(one, configuration={**one.configuration, "color": False})


def _difference(name: str, pairs: Pairs) -> Difference | None:
    values = np.array([float(getattr(ours, name)) - float(getattr(its, name)) for ours, its in pairs])
    by_episode = means_by_episode([ours for ours, _ in pairs], values)
    if name == SUCCESS and len(by_episode) == len(values):
        interval = paired_rates(int((values > 0.0).sum()), int((values < 0.0).sum()), len(values))
    else:
        interval = bootstrap(_means, (by_episode,), 0)
    return None if interval is None else Difference(float(values.mean()), interval)


def _means(samples: Sequence[Array]) -> Array:
    return np.asarray(samples[0].mean(axis=1))
