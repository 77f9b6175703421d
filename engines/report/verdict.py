"""How the quoted figures stand to the paper's, and to other policies on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence

from engines.report.differences import FIGURE_NAMES, beside_words, paired, without_images
from engines.report.gathered import Gathered
from engines.report.told import OURS
from hil.evaluate.tables import percent


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
