"""A policy before and after fine-tuning to one building and base: the figures, and the differences of what is alike."""

from __future__ import annotations

from collections.abc import Sequence

from engines.report.bases import base_of
from engines.report.differences import beside_words, paired, without_images
from engines.report.gathered import FINE, Evaluated, Gathered
from engines.report.markdown import FIGURE_HEADINGS, figures, table
from engines.report.told import Part, count, driven, lacks, of_maps, plain
from engines.report.trained import way_words

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
