"""Other trainings beside the policy's own: by which recipes and seeds, and what it gained on what it began with."""

from __future__ import annotations

from engines.report.differences import beside_words, paired
from engines.report.gathered import SEEDS, Evaluated, Gathered
from engines.report.markdown import FIGURES, figures, table
from engines.report.told import Part, count, lacks, plain
from engines.report.trained import began_with, training_of, way_words
from engines.report.verdict import OURS

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
    text = table(("training", "recipe", "episodes", *FIGURES), rows, words=2)
    text += "\n" + "\n\n".join([SEEDS_NOTE, *_gains(found, others)]) + "\n"
    data = [{**plain(one), "name": name, "recipe": recipe}
            for (name, one), recipe in zip(named, recipes, strict=True)]  # fmt: skip
    return Part("seeds", "Seeds", text, data, lacks(others, SEEDS))


def _gains(found: Gathered, others: list[Evaluated]) -> list[str]:
    """Return by how much the policy is better than what its training began with, where that is among the others."""
    one = found.headline
    first = "" if one is None else began_with(training_of(one, found))
    if one is None or not first:
        return []
    pairs = [(other, paired(one, other)) for other in others if other.driver == first]
    return [beside_words(OURS, f"{other.name}, which it began with", len(one.rows), differences)
            for other, differences in pairs if differences]  # fmt: skip
