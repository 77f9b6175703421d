"""The six tables of a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines.report.results.checks import shaped
from engines.report.results.result_files import ABLATIONS, CEILING, DEMOS, EVALUATE, Evaluated, Gathered
from engines.report.results.section import Part
from engines.report.sections.ablations import ablation_table
from engines.report.sections.differences import paired_differences
from engines.report.sections.evaluations import evaluations
from engines.report.sections.realtime import real_time
from engines.report.sections.robustness import robustness
from engines.report.sections.upper_bound import upper_bound


def ablations(found: Gathered) -> Part:
    """Return the table of the ablations."""
    text = "" if found.ablations is None else ablation_table(found.ablations)
    return Part("Ablations", text, "" if text else ABLATIONS)


TABLES: tuple[tuple[Callable[[Gathered], Part], str], ...] = (
    (evaluations, EVALUATE),
    (paired_differences, EVALUATE),
    (robustness, EVALUATE),
    (upper_bound, CEILING),
    (ablations, ABLATIONS),
    (real_time, DEMOS),
)
"""In the order of a report, each with the file or folder that it reads."""


def all_tables(found: Gathered) -> list[Part]:
    """Return all tables. Raises InputError for a malformed file."""
    parts = []
    for part, place in TABLES:
        with shaped(found.folder / place, "not what its place says"):
            parts.append(part(found))
    return parts


def tables_text(found: Gathered) -> str:
    """Return all tables in Markdown; the end lists tables without files."""
    parts = all_tables(found)
    texts = [f"## {part.title}\n\n{part.markdown}" for part in parts if not part.missing]
    missing = [f"* {part.title}: {part.missing}" for part in parts if part.missing]
    if missing:
        texts.append("\n".join(["## Not measured yet", "", *missing, ""]))
    return "\n".join(texts)


def figures_json(found: Gathered) -> dict[str, Any]:
    """Return the figures of all evaluations by the folder that holds them, and the tables without files, for JSON."""
    kinds = ("evaluations", "seeds", "validation", "fine", "others")
    missing = {part.title: part.missing for part in all_tables(found) if part.missing}
    return {kind: [_figures_of(one) for one in getattr(found, kind)] for kind in kinds} | {"missing": missing}


def _figures_of(one: Evaluated) -> dict[str, Any]:
    entry = {"name": one.name, "condition": one.condition, "loop": one.loop, "sets": one.sets, "color": one.color}
    per_map = {name: summary.as_json() for name, summary in one.per_map.items()}
    return entry | one.unusual | {"all": one.summary.as_json(), "maps": per_map}
