"""Table of evaluations: the policy, baselines, the paper, other trainings; by map and detour."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engines.report.results.markdown import FIGURE_HEADINGS, figures, table
from engines.report.results.result_files import EVALUATE, REFERENCE, REFERENCE_SET, Evaluated, Gathered
from engines.report.results.section import OURS, Part, whole
from engines.report.sections.differences import is_same_policy
from hil.evaluate.metrics import DETOURS, Summary, summarise
from hil.evaluate.tables import NOTHING

PAPER = {
    "its simulator, with the motion model": ("2500", "97.4", "82.2", "51"),
    "its office, simulated": (NOTHING, "100", "78.8", "59.9"),
    "its office, real robot": (NOTHING, "40", "28.9", "10.1"),
}
"""Episodes, SR, SPL and SCT of paper 1, section 5."""
HEADINGS = ("policy", "drives", "episodes", *FIGURE_HEADINGS)
NOTE = (
    "Brackets hold 95 % intervals: Wilson for rates, exact Poisson for zero contacts, bootstrap over episodes "
    "otherwise. The policy acts greedily, and its first stop at rest ends an episode. SCT compares with the fastest "
    "drive along the shortest path. The paper's figures are quoted: another agent in another simulator."
)
ABOVE_NONE = 1.0 + 1e-9
"""Least detour for the classes, so that a straight path is in the first; a class includes its upper edge."""


def evaluations(found: Gathered) -> Part:
    """Return a row for each evaluation in the paper's condition, and rows for parts of the headline."""
    rows = [*main_rows(found), *_part_rows(found.headline), *_other_rows(found)]
    missing = "" if found.headline else f"{EVALUATE}/*.json of condition {REFERENCE} on the set {REFERENCE_SET}"
    return Part("Evaluations", f"{table(HEADINGS, rows, words=2)}\n{NOTE}\n", missing)


def main_rows(found: Gathered) -> list[list[str]]:
    """Return the model card's rows: the policy, baselines and the paper."""
    own = [one for one in found.evaluations if one.condition == REFERENCE]
    own.sort(key=lambda one: one is not found.headline)
    rows = [_row(OURS, one) for one in own]
    rows += [_row(one.driver, one) for one in found.others if one.condition == REFERENCE]
    return rows + [["paper's agent (quoted)", where, *values, NOTHING] for where, values in PAPER.items()]


def _part_rows(one: Evaluated | None) -> list[list[str]]:
    """Return rows by map and by class of detour."""
    if one is None:
        return []
    rows = [_cells(OURS, f"map {name}", summary) for name, summary in one.per_map.items()]
    for low, high in itertools.pairwise([*DETOURS, float("inf")]):
        part = [row for row in one.rows if low < max(row.detour, ABOVE_NONE) <= high]
        label = f"{low:g} to {high:g}" if high < float("inf") else f"over {low:g}"
        rows.append(_cells(OURS, f"shortest way / straight line {label}", summarise(part)))
    return rows


def _other_rows(found: Gathered) -> list[list[str]]:
    seeds = [_row(one.name, one) for one in found.seeds]
    chosen = [_row(OURS if is_same_policy(one, found.headline) else one.name, one) for one in found.validation]
    fine = sorted(found.fine, key=lambda one: not one.name.startswith("before"))
    return [*seeds, *chosen, *(_row(f"fine-tuning, {one.name}", one) for one in fine)]


def _row(name: str, one: Evaluated) -> list[str]:
    return _cells(name, whole(one), one.summary)


def _cells(name: str, drives: str, summary: Summary) -> list[str]:
    cells: Sequence[str] = figures(summary)
    return [name, drives, str(summary.episodes), *cells]
