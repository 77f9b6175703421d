"""How the quoted figures stand to the paper's, and to other policies on the same episodes.

Two policies that drove the same episodes are compared by the mean difference of each episode, which says more than two
intervals that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.report.gathered import Evaluated, Gathered
from hil.evaluate.metrics import Interval, bootstrap
from hil.evaluate.result import Row
from hil.evaluate.tables import percent

FIGURES = {"success": "SR", "spl": "SPL", "sct": "SCT"}
"""Of an episode, and as its mean over episodes is called."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over episodes, of the first less the second, and its 95 % interval [1]."""

    mean: float
    interval: Interval


def verdict(found: Gathered, paper: Sequence[float]) -> list[str]:
    """Return a sentence for the paper's SR, SPL and SCT [%], and one for each policy on the same episodes."""
    one = found.headline
    if one is None:
        return []
    ours = (one.summary.success_rate, one.summary.spl, one.summary.sct)
    told = [_beside(*three) for three in zip(FIGURES.values(), ours, paper, strict=True)]
    sentences = [f"Beside the paper's own figures in its own simulator: {', '.join(told)}."]
    for other in found.others:
        differences = paired(one, other)
        if differences:
            sentences.append(_words(other.name, len(one.rows), differences))
    return sentences


def paired(one: Evaluated, other: Evaluated) -> dict[str, Difference]:
    """Return by how much the first does better in each figure; nothing where both were not driven alike."""
    if not one.is_driven_as(other):
        return {}
    theirs = {(row.map, row.index): row for row in other.rows}
    return {
        figure: difference
        for name, figure in FIGURES.items()
        if (difference := _difference(name, [(row, theirs[row.map, row.index]) for row in one.rows])) is not None
    }


def _difference(name: str, pairs: Sequence[tuple[Row, Row]]) -> Difference | None:
    values = np.array([float(getattr(ours, name)) - float(getattr(its, name)) for ours, its in pairs])
    interval = bootstrap(_means, (values,), 0)
    return None if interval is None else Difference(float(values.mean()), interval)


def _beside(figure: str, share: float | None, quoted: float) -> str:
    """Return whether a share is above a quoted figure, at the precision that the table shows."""
    return f"{figure} is {'above' if float(percent(share or 0.0)) > quoted else 'not above'} its {quoted:g}"


def _words(name: str, episodes: int, differences: dict[str, Difference]) -> str:
    told = [
        f"{figure} {100 * one.mean:+.1f} ({100 * one.interval[0]:+.1f} to {100 * one.interval[1]:+.1f})"
        for figure, one in differences.items()
    ]
    return f"On the same {episodes} episodes this policy less {name}, in points: {', '.join(told)}."


def _means(samples: Sequence[Array]) -> Array:
    return np.asarray(samples[0].mean(axis=1))
