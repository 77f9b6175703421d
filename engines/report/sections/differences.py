"""By how much one evaluation does better than another in the same episodes.

The mean difference of each episode says more than two intervals that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engines.report.results.result_files import Evaluated, Gathered, same_set
from engines.report.results.section import OURS
from hil.evaluate.metrics import Interval, bootstrap, paired_rates
from hil.evaluate.result import Row
from hil.evaluate.tables import percent

FIGURE_NAMES = {"success": "SR", "spl": "SPL", "sct": "SCT"}
"""Of an episode, and as its mean over episodes is called."""
SUCCESS = "success"

OTHER_CODE = " †"
"""Stands behind the difference of two evaluations that two states of the code drove."""
OTHER_CODE_NOTE = (
    "†: two states of the code drove what is compared (their digests are the `code` in the `configuration` of each "
    "result, and stand at the head of a model card): the difference is of the code as well."
)

Array = npt.NDArray[np.float64]
Pairs = Sequence[tuple[Row, Row]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over episodes, of the first minus the second, and its 95 % interval [1]."""

    mean: float
    interval: Interval

    def __str__(self) -> str:
        """Return both in points."""
        return f"{100 * self.mean:+.1f} ({100 * self.interval[0]:+.1f} to {100 * self.interval[1]:+.1f})"


def paired(one: Evaluated, other: Evaluated) -> dict[str, Difference]:
    """Return by how much the first does better in each figure; nothing where both were not driven alike."""
    return differences(pairs_of(one, other)) if one.is_driven_as(other) else {}


def without_images(one: Evaluated) -> Evaluated:
    """Return an evaluation as if it had been driven without colour images, so that it is compared with one that was."""
    return replace(one, configuration={**one.configuration, "color": False})


def pairs_of(one: Evaluated, other: Evaluated) -> list[tuple[Row, Row]]:
    """Return the rows of both of those episodes that both drove, whatever they were driven under."""
    theirs_of = {place[0]: same_set(place) for place in other.episodes}
    same = {place[0] for place in one.episodes if theirs_of.get(place[0]) == same_set(place)}
    theirs = {(row.map, row.index): row for row in other.rows if row.map in same}
    return [(row, theirs[row.map, row.index]) for row in one.rows if (row.map, row.index) in theirs]


def differences(pairs: Pairs) -> dict[str, Difference]:
    """Return the difference in each figure; nothing of no pairs."""
    told = {figure: _difference(name, pairs) for name, figure in FIGURE_NAMES.items()}
    return {figure: difference for figure, difference in told.items() if difference is not None}


def difference_of_rates(pairs: Pairs) -> Difference | None:
    """Return the difference in the success rate; None of no pairs."""
    return _difference(SUCCESS, pairs)


def beside_words(one: tuple[str, Evaluated], other: tuple[str, Evaluated], found: dict[str, Difference]) -> str:
    """Return the sentence that tells by how much the first, called so, does better than the other."""
    return told_beside(one[0], other[0], len(one[1].rows), found, code_mark(one[1], other[1]))


def told_beside(one: str, other: str, episodes: int, found: dict[str, Difference], code: str) -> str:
    """Return the same by the names of both, for so many episodes. code: `code_mark` of both."""
    told = ", ".join(f"{figure} {difference}" for figure, difference in found.items())
    code = " Two states of the code drove them." if code else ""
    return f"On the same {episodes} episodes {one} minus {other}, in points: {told}.{code}"


def code_mark(one: Evaluated, other: Evaluated) -> str:
    """Return `OTHER_CODE` where two states of the code drove, else ""."""
    return "" if one.configuration.get("code") == other.configuration.get("code") else OTHER_CODE


def _difference(name: str, pairs: Pairs) -> Difference | None:
    values = np.array([float(getattr(ours, name)) - float(getattr(its, name)) for ours, its in pairs])
    if name == SUCCESS:
        interval = paired_rates(int((values > 0.0).sum()), int((values < 0.0).sum()), len(values))
    else:
        interval = bootstrap(_means, (values,), 0)
    return None if interval is None else Difference(float(values.mean()), interval)


def _means(samples: Sequence[Array]) -> Array:
    return np.asarray(samples[0].mean(axis=1))


# ---- How the quoted figures stand to the paper's, and to other policies on the same episodes


def verdict(found: Gathered, paper: Sequence[float]) -> list[str]:
    """Return a sentence for the paper's SR, SPL and SCT [%], and one for each other drive of the same episodes."""
    one = found.headline
    if one is None:
        return []
    ours = (one.summary.success_rate, one.summary.spl, one.summary.sct)
    told = [_beside(*three) for three in zip(FIGURE_NAMES.values(), ours, paper, strict=True)]
    beside = [*(((OURS, one), (other.name, other)) for other in found.others),
              *(((f"{OURS} without colour images", each), ("itself with them", without_images(one)))
                for each in found.evaluations if not each.color)]  # fmt: skip
    compared = [(ours, theirs, paired(ours[1], theirs[1])) for ours, theirs in beside]
    return [f"The first row beside the paper's own figures in its own simulator: {', '.join(told)}.",
            *(beside_words(*three) for three in compared if three[2])]  # fmt: skip


def _beside(figure: str, share: float | None, quoted: float) -> str:
    """Return whether a share is above a quoted figure, at the precision that the table shows."""
    return f"{figure} is {'above' if float(percent(share or 0.0)) > quoted else 'not above'} its {quoted:g}"
