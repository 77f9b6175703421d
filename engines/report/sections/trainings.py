"""A policy before and after fine-tuning to one building and base: the figures, and the differences of what is alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engines.report.results.markdown import FIGURE_HEADINGS, figures, table
from engines.report.results.result_files import FINE, REFERENCE, SEEDS, VALIDATION, Evaluated, Gathered
from engines.report.results.section import OURS, Part, count, driven, lacks, of_maps, plain, whole
from engines.report.sections.differences import (
    FIGURE_NAMES,
    OTHER_CODE,
    OTHER_CODE_NOTE,
    beside_words,
    code_mark,
    paired,
    without_images,
)
from engines.report.sections.lineage import MANIFEST, base_of, gains, training_of, way_words

# ---- How the weights were chosen: the policy and what it began with, on a set in the training's own buildings

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


BEFORE, AFTER = "before", "after"


def fine_tuning(found: Gathered) -> Part:
    """Return the figures before and after fine-tuning."""
    told = sorted(found.fine, key=_order)
    rows = [[one.name, f"`{one.condition}`, {driven(one)}", _where(one), count(one.summary), *figures(one.summary)]
            for one in told]  # fmt: skip
    text = table(("", "driven", "in", "episodes", *FIGURE_HEADINGS), rows, words=3)
    notes = [*_differences(told), *_of_colour(told), *_trainings(found), *_beside(told, found)]
    text += "".join(f"\n{one}\n" for one in notes)
    return Part("finetune", "Fine-tuning to one building", text, [plain(one) for one in told], lacks(rows, FINE))


def _order(one: Evaluated) -> tuple[bool, str, int]:
    """Return where an evaluation comes: each pair together, before it first, what is of no pair at the end."""
    for number, word in enumerate((BEFORE, AFTER)):
        if one.name.startswith(word):
            return False, one.name.removeprefix(word), number
    return True, one.name, 0


def _where(one: Evaluated) -> str:
    base = base_of(one)
    return of_maps(one) + (f", base `{base}`" if base else "")


def _differences(told: Sequence[Evaluated]) -> list[str]:
    """Return a sentence for each pair."""
    before = {one.name.removeprefix(BEFORE): one for one in told if one.name.startswith(BEFORE)}
    after = {one.name.removeprefix(AFTER): one for one in told if one.name.startswith(AFTER)}
    return [_difference(after[rest], first) for rest, first in before.items() if rest in after]


def _difference(after: Evaluated, before: Evaluated) -> str:
    differences = paired(after, before)
    if not differences:
        return f"{after.name} and {before.name} were not driven alike: they are not compared episode by episode."
    return beside_words((after.name, after), (before.name, before), differences)


def _of_colour(told: Sequence[Evaluated]) -> list[str]:
    """Return a sentence for each policy that was driven without colour images and with them."""
    pairs = [(one, other, paired(one, without_images(other))) for one in told for other in told
             if other.color and one.configuration.get("model") == other.configuration.get("model")]  # fmt: skip
    return [beside_words((one.name, one), (other.name, other), found)
            for one, other, found in pairs if not one.color and found]  # fmt: skip


def _trainings(found: Gathered) -> list[str]:
    """Return how each policy was trained whose manifest lies there."""
    return [f"How `{made.model}` was trained: {way_words(made.training)}." for made in found.made
            if made.file.parent.name == FINE]  # fmt: skip


def _beside(told: Sequence[Evaluated], found: Gathered) -> list[str]:
    """Return where the files lie that are named."""
    bases = sorted({base for one in told if (base := base_of(one))})
    manifests = [made.file.name for made in found.made if made.file.parent.name == FINE]
    named = ", ".join(f"`{name}`" for name in [*bases, *manifests])
    return [f"Beside these results, in `{FINE}/`: {named}."] if named else []


# ---- Other trainings beside the policy's own: by which recipes and seeds, and what it gained on what it began with

SEEDS_NOTE = (
    "Rows of one recipe differ by the seed of the training alone, which made no colour encoder where that is another "
    "training's; rows of two recipes differ by the recipe as well."
)


def seeds(found: Gathered) -> Part:
    """Return one row for every training that was evaluated as the headline is: its set, condition and loop."""
    others = [one for one in found.seeds if one.is_headline]
    named = [*([] if found.headline is None else [(OURS, found.headline)]), *((one.name, one) for one in others)]
    recipes = [way_words(training_of(one, found)) for _, one in named]
    rows = [[name, recipe, count(one.summary), *figures(one.summary)]
            for (name, one), recipe in zip(named, recipes, strict=True)]  # fmt: skip
    text = table(("training", "recipe", "episodes", *FIGURE_HEADINGS), rows, words=2)
    gained = [] if found.headline is None else gains(found.headline, others, found)
    text += "\n" + "\n\n".join([SEEDS_NOTE, *gained]) + "\n"
    compared = _compared(named, found)
    text += "\n" + table(("on the same episodes, points", *FIGURE_NAMES.values()), compared) + "\n"
    text += f"\n{OTHER_CODE_NOTE}\n" if any(OTHER_CODE in row[0] for row in compared) else ""
    data = [{**plain(one), "name": name, "recipe": recipe}
            for (name, one), recipe in zip(named, recipes, strict=True)]  # fmt: skip
    return Part("seeds", "Seeds", text, data, lacks(others, SEEDS))


def _compared(named: Sequence[tuple[str, Evaluated]], found: Gathered) -> list[list[str]]:
    """Return a row for each two trainings, and for each training and what it is compared with."""
    with_others = [(one.driver, one) for one in found.others if one.is_headline]
    pairs = [*itertools.combinations(named, 2), *itertools.product(named, with_others)]
    told = [(f"{name} minus {other_name}{code_mark(one, other)}", paired(one, other))
            for (name, one), (other_name, other) in pairs]  # fmt: skip
    return [[words, *(str(each) for each in differences.values())] for words, differences in told if differences]
