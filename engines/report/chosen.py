"""How the weights were chosen: the policy and what it began with, on a set in the training's own buildings."""

from __future__ import annotations

from engines.report.gathered import REFERENCE, VALIDATION, Evaluated, Gathered
from engines.report.markdown import FIGURE_HEADINGS, figures, table
from engines.report.told import OURS, Part, count, lacks, plain, whole
from engines.report.trained import MANIFEST, gains

KEPT_NOTE = (
    "No training drives this set. At its end a training keeps the weights from before its reinforcement or those from "
    "after its last chapter: whichever has the higher SR over `reinforce.choose_drives` greedy drives in its own "
    "buildings; of equal ones that of fewer contacts, then that of the higher SPL. Without such drives it keeps the "
    "last."
)
KEPT_HEADINGS = (
    "training", "SR before reinforcement %", "after %", "false stops a drive before", "after", "kept",
)  # fmt: skip
KEPT_END = """
Of one training's drives alone: so few do not tell differences of a point or two from none.
"""


def choice(found: Gathered) -> Part:
    """Return one row for every evaluation in `validation/`, and what the policy gained there on what it began with."""
    one = found.headline
    named = [(OURS if one is not None and _same_policy(each, one) else each.name, each) for each in found.validation]
    named.sort(key=lambda pair: (pair[1].condition != REFERENCE, not pair[1].color, pair[0] != OURS))
    rows = [[name, whole(each), count(each.summary), *figures(each.summary)] for name, each in named]
    ours, others = ([each for name, each in named if (name == OURS) is own] for own in (True, False))
    gained = [words for each in ours for words in gains(each, others, found)]
    text = table(("", "driven", "episodes", *FIGURE_HEADINGS), rows, words=2)
    text += "\n" + "\n\n".join([*gained, KEPT_NOTE]) + "\n\n" + table(KEPT_HEADINGS, _kept(found)) + KEPT_END
    data = [{**plain(each), "name": name} for name, each in named]
    return Part("choice", "How the weights were chosen", text, data, lacks(rows, f"{VALIDATION}/*.json"))


def _kept(found: Gathered) -> list[list[str]]:
    """Return a row for every training whose journal tells between which weights it chose."""
    told = [(place, one["chosen"]) for place, stages in found.trainings.items() for one in stages.values()
            if one.get("chosen")]  # fmt: skip
    return [[place, f"{row['SR_before']:.1f}", f"{row['SR_after']:.1f}", f"{row['false_stops_before']:.3f}",
             f"{row['false_stops_after']:.3f}", "after" if row["kept_after"] else "before"]
            for place, row in told]  # fmt: skip


def _same_policy(one: Evaluated, other: Evaluated) -> bool:
    return all(one.configuration.get(name) == other.configuration.get(name) for name in ("model", MANIFEST))
