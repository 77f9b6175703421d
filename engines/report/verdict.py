"""How the quoted figures stand to the paper's, and to other policies on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence

from engines.report.differences import FIGURE_NAMES, beside_words, paired
from engines.report.gathered import Gathered
from engines.report.told import OURS
from hil.evaluate.tables import percent


def verdict(found: Gathered, paper: Sequence[float]) -> list[str]:
    """Return a sentence for the paper's SR, SPL and SCT [%], and one for each policy on the same episodes."""
    one = found.headline
    if one is None:
        return []
    ours = (one.summary.success_rate, one.summary.spl, one.summary.sct)
    told = [_beside(*three) for three in zip(FIGURE_NAMES.values(), ours, paper, strict=True)]
    sentences = [f"Beside the paper's own figures in its own simulator: {', '.join(told)}."]
    for other in found.others:
        differences = paired(one, other)
        if differences:
            sentences.append(beside_words(OURS, other.name, len(one.rows), differences))
    return sentences


def _beside(figure: str, share: float | None, quoted: float) -> str:
    """Return whether a share is above a quoted figure, at the precision that the table shows."""
    return f"{figure} is {'above' if float(percent(share or 0.0)) > quoted else 'not above'} its {quoted:g}"
