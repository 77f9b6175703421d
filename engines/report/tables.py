"""The three tables of a report."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from engines.report.differences import (
    NOTE as DIFFERENCES_NOTE,
)
from engines.report.differences import (
    OURS,
    code_mark,
    difference_of,
    differences_table,
    main_differences,
    other_differences,
    pairs_of,
)
from engines.report.results import FAST, KINDS, REFERENCE, REFERENCE_SET, EvaluationResult, ResultFolder
from hil.drive.conditions import load_conditions
from hil.evaluate.metrics import DETOURS, Interval, Summary, behind_doors, is_behind, summarise, wilson
from hil.evaluate.metrics import NOTE as DOORS_NOTE
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING, between, number, percent
from onboard.commands.cli import markdown_table

LOOPS = {
    FAST: "fast simulation",
    "runtime": "whole runtime, scan by ray casting",
    "rendered": "whole runtime, rendered cameras",
}
PAPER = {
    "its simulator, with the motion model": ("2500", "97.4", "82.2", "51"),
    "its office, simulated": (NOTHING, "100", "78.8", "59.9"),
    "its office, real robot": (NOTHING, "40", "28.9", "10.1"),
}
"""Episodes, SR, SPL and SCT of paper 1, section 5."""
FIGURE_HEADINGS = ("SR %", "SPL %", "SCT %", "contacts / episode")
"""Headings of `figures`."""
EVALUATIONS = ("policy", "drives", "episodes", *FIGURE_HEADINGS)
ABOVE_NONE = 1.0 + 1e-9
"""Least detour for the classes, so that a straight path is in the first; a class includes its upper edge."""
LOW = 0.9
"""The model card lists conditions with a lower success rate."""
ENDS = {"stop": "stopped elsewhere", "time": "did not stop in time"}
NOTES = {
    "Evaluations": "Brackets hold 95 % intervals: Wilson for rates, exact Poisson for zero contacts, bootstrap over "
    "episodes otherwise. The policy acts greedily, and its first stop at rest ends an episode. SCT compares with the "
    "fastest drive along the shortest path. The paper's figures are quoted: another agent in another simulator.",
    "Paired differences": DIFFERENCES_NOTE,
    "Robustness": f"A condition with fewer episodes than `{REFERENCE}` drives an even selection from each map. Compare "
    f"such rows by the difference, not by SR. {DIFFERENCES_NOTE} The last columns count failed episodes by their end, "
    "with the median distance to the goal.",
}
PLACES = {
    "Evaluations": f"{KINDS['evaluations']}/*.json of condition {REFERENCE}",
    "Paired differences": f"{KINDS['seeds']}/*.json",
    "Robustness": f"{KINDS['evaluations']}/*.json",
}
"""Title of each table, in the order of a report, and the files that it needs."""


def all_tables(found: ResultFolder) -> dict[str, str]:
    """Return each table in Markdown by its title, without its note; "" without its files. Raises InputError."""
    differences = [*main_differences(found), *other_differences(found)]
    return {
        "Evaluations": evaluations_table(found) if has_main_rows(found) else "",
        "Paired differences": differences_table(differences) if differences else "",
        "Robustness": _robustness(found),
    }


def tables_text(found: ResultFolder) -> str:
    """Return all tables in Markdown; the end lists tables without files."""
    tables = all_tables(found)
    parts = [
        "\n\n".join([f"## {title}", text, *([NOTES[title]] if title in NOTES else [])]) + "\n"
        for title, text in tables.items()
        if text
    ]
    missing = [f"* {title}: {PLACES[title]}" for title, text in tables.items() if not text]
    return "\n".join([*parts, *(["## Not measured yet", "", *missing, ""] if missing else [])])


def figures_json(found: ResultFolder) -> dict[str, Any]:
    """Return the figures of all evaluations by the folder that holds them, and the tables without files, for JSON."""
    missing = {title: PLACES[title] for title, text in all_tables(found).items() if not text}
    return {kind: [_figures_of(one) for one in getattr(found, kind)] for kind in KINDS} | {"missing": missing}


def _figures_of(one: EvaluationResult) -> dict[str, Any]:
    entry = {"name": one.name, "condition": one.condition, "loop": one.loop, "sets": one.sets, "color": one.color}
    per_map = {name: summary.as_json() for name, summary in one.per_map.items()}
    return entry | dict(one.unusual) | {"all": one.summary.as_json(), "maps": per_map}


# ---- Evaluations


def has_main_rows(found: ResultFolder) -> bool:
    """Return whether the policy was driven in the paper's condition."""
    return any(evaluation.condition == REFERENCE for evaluation in found.evaluations)


def main_rows(found: ResultFolder) -> list[list[str]]:
    """Return the model card's rows: the policy, baselines and the paper."""
    own = [evaluation for evaluation in found.evaluations if evaluation.condition == REFERENCE]
    own.sort(key=lambda one: one is not found.headline)
    rows = [_row(OURS, one) for one in own]
    rows += [_row(other.driver, other) for other in found.others if other.condition == REFERENCE]
    return rows + [["paper's agent (quoted)", where, *values, NOTHING] for where, values in PAPER.items()]


def evaluations_table(found: ResultFolder) -> str:
    """Return a row for each evaluation in the paper's condition, and rows for maps and detours of the headline."""
    rows, headline = main_rows(found), found.headline
    parts = {f"map {name}": summary for name, summary in headline.per_map.items()} if headline else {}
    every = headline.rows if headline else ()
    for low, high in itertools.pairwise([*DETOURS, float("inf")] if every else []):
        part = [row for row in every if low < max(row.detour, ABOVE_NONE) <= high]
        label = f"{low:g} to {high:g}" if high < float("inf") else f"over {low:g}"
        parts[f"shortest way / straight line {label}"] = summarise(part)
    rows += [[OURS, name, str(summary.episodes), *figures(summary)] for name, summary in parts.items()]
    rows += [_row(seed.name, seed) for seed in found.seeds]
    fine = sorted(found.fine, key=lambda one: not one.name.startswith("before"))
    return markdown_table(EVALUATIONS, rows + [_row(f"fine-tuning, {one.name}", one) for one in fine], words=2)


def figures(summary: Summary) -> list[str]:
    """Return the cells under `FIGURE_HEADINGS`, with their 95 % intervals in brackets."""
    rates = [(percent(getattr(summary, name)), between(summary, name)) for name in ("success_rate", "spl", "sct")]
    contacts = number(summary.contacts_per_episode), between(summary, "contacts_per_episode", 2, 1.0)
    return [f"{value} ({interval})" if interval else value for value, interval in (*rates, contacts)]


def _row(name: str, one: EvaluationResult) -> list[str]:
    return [name, _whole(one), str(one.summary.episodes), *figures(one.summary)]


def _whole(one: EvaluationResult) -> str:
    """Return sets or maps of an evaluation, its condition unless the paper's, and its loop, in words."""
    sets = " and ".join(f"set `{name}`" for name in one.sets if name)
    maps = ", ".join(Path(str(row[0])).stem for row in one.episodes)
    condition = "" if one.condition == REFERENCE else f", `{one.condition}`"
    return f"{sets or f'map {maps}'}{condition}, {_driven(one)}"


def _driven(one: EvaluationResult) -> str:
    """Return the loop and unusual options of an evaluation, in words."""
    more = [f", {name.replace('_', ' ')} {value}" for name, value in one.unusual.items()]
    return LOOPS[one.loop] + ("" if one.color else ", without colour images") + "".join(more)


# ---- Robustness


def weak_conditions(found: ResultFolder) -> str:
    """Return a table of conditions with a low success rate, the worst first; "" without any."""
    counted = [(evaluation, *_counted(evaluation)) for evaluation in found.evaluations]
    low = [row for row in counted if (row[2].success_rate or 0.0) < LOW]
    low.sort(key=lambda row: row[2].success_rate or 0.0)
    rows = [
        [*_condition(one), text, *(figures(summary)[column] for column in (0, -1))] for one, _, summary, text in low
    ]
    headings = ("condition", "what it is", "episodes", FIGURE_HEADINGS[0], FIGURE_HEADINGS[-1])
    return markdown_table(headings, rows, words=2) if rows else ""


def _robustness(found: ResultFolder) -> str:
    """Return a row for each condition and driver, with the difference to the paper's condition."""
    conditions = {evaluation.condition for evaluation in found.evaluations} - {REFERENCE}
    drivers = [(evaluation, "") for evaluation in found.evaluations]
    drivers += [(other, other.driver) for other in found.others if other.condition in conditions]
    drivers.sort(key=lambda pair: (pair[0].condition != REFERENCE, pair[0].condition, pair[0] is not found.headline))
    reasons = sorted({row.ended for one, _ in drivers for row in _counted(one)[0] if not row.success})
    rows = []
    for one, driver in drivers:
        episodes, summary, count = _counted(one)
        first, *others = figures(summary)
        unhurt = _rate(summary.successes_without_contact, summary.episodes)
        ended = [_ended(episodes, reason) for reason in reasons]
        rows.append([*_condition(one, driver), count, first, _less(one, driver, found), *others, unhurt, *ended])
    minus = f"SR minus that in `{REFERENCE}`, points"
    headings = ("condition", "what it is", "episodes", FIGURE_HEADINGS[0], minus, *FIGURE_HEADINGS[1:],
                "arrived without contact %", *(ENDS.get(one, one) for one in reasons))  # fmt: skip
    text = markdown_table(headings, rows, words=2) if rows else ""
    doors = any(row.door is not None for one, _ in drivers for row in one.rows)
    return f"{text}\n\n{DOORS_NOTE}" if doors else text


def _counted(one: EvaluationResult) -> tuple[Sequence[Row], Summary, str]:
    """Return the rows that count, their figures, and their number in words: only drives behind doors, if any has."""
    doors = behind_doors(one.rows, one.configuration.get("seed", 0))
    if doors is None:
        return one.rows, one.summary, str(one.summary.episodes)
    return [row for row in one.rows if is_behind(row)], doors.summary, str(doors)


def _condition(one: EvaluationResult, driver: str = "") -> list[str]:
    """Return the name of a condition with its unusual settings, and what it is."""
    text, condition = f"`{one.condition}`" + (f", {driver}" if driver else ""), load_conditions().get(one.condition)
    if one.sets != [REFERENCE_SET]:
        text += f", {_whole(one)}"
    elif not one.is_plain:
        text += f", {_driven(one)}"
    return [text, "" if condition is None else condition.what]


def _less(one: EvaluationResult, driver: str, found: ResultFolder) -> str:
    """Return the difference to the same driver in the paper's condition."""
    quoted = [each for each in found.others if each.driver == driver and each.is_headline]
    quoted = quoted if driver else [each for each in [found.headline] if each]
    reference = next((each for each in quoted if each is not one and one.is_of_robot(each)), None)
    if reference is None:
        return NOTHING
    doors = any(row.door is not None for row in one.rows)
    pairs = [pair for pair in pairs_of(one, reference) if not doors or is_behind(pair[0])]
    less = difference_of("success", pairs)
    return NOTHING if less is None else f"{less}{code_mark(one, reference)}"


def _ended(rows: Sequence[Row], why: str) -> str:
    """Return the number of failures by this end, with the median distance to the goal."""
    lost_m = [row.distance_m for row in rows if row.ended == why and not row.success]
    return f"{len(lost_m)} ({median(lost_m):.2f} m)" if lost_m else NOTHING


def _rate(successes: int, episodes: int) -> str:
    return _share(successes / episodes if episodes else None, wilson(successes, episodes))


def _share(value: float | None, interval: Interval | None) -> str:
    """Return a share with its interval, if known."""
    return percent(value) + ("" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})")
