"""Other trainings beside the policy's own: by which recipes and seeds, and what it gained on what it began with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engines.report.differences import FIGURE_NAMES, OTHER_CODE, OTHER_CODE_NOTE, code_mark, paired
from engines.report.gathered import SEEDS, Evaluated, Gathered
from engines.report.markdown import FIGURE_HEADINGS, figures, table
from engines.report.told import OURS, Part, count, lacks, plain
from engines.report.trained import gains, training_of, way_words

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
