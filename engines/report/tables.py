"""The six tables of a report."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from engines.report.ablation_table import FIGURE_HEADINGS, ablation_table, figures
from engines.report.differences import (
    NOTE as DIFFERENCES_NOTE,
)
from engines.report.differences import (
    OTHER_CODE,
    OURS,
    code_mark,
    difference_of,
    differences_table,
    main_differences,
    other_differences,
    pairs_of,
)
from engines.report.files import shaped
from engines.report.results import (
    ABLATIONS,
    CEILING,
    DEMOS,
    FAST,
    KINDS,
    REFERENCE,
    REFERENCE_SET,
    EvaluationResult,
    ResultFolder,
    episodes_of,
    same_set,
)
from hil.drive.conditions import load_conditions
from hil.evaluate.metrics import DETOURS, Interval, Summary, behind_doors, is_behind, summarise, wilson
from hil.evaluate.metrics import NOTE as DOORS_NOTE
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING, number, percent
from hil.evaluate.upper_bound.upper_bound import ceiling_of, ends_of_json
from onboard.commands.cli import markdown_table
from onboard.values.errors import InputError

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
EVALUATIONS = ("policy", "drives", "episodes", *FIGURE_HEADINGS)
ABOVE_NONE = 1.0 + 1e-9
"""Least detour for the classes, so that a straight path is in the first; a class includes its upper edge."""
LOW = 0.9
"""The model card lists conditions with a lower success rate."""
ENDS = {"stop": "stopped elsewhere", "time": "did not stop in time"}
FAR_M = 1.0
"""A larger error counts as lost."""
UPPER = ("condition", "episodes", "ideal %", "its median error cm", "ideal at the next fix %", "runtime's filter %",
         f"filter more than {FAR_M:g} m off %", "SR % of the policy")  # fmt: skip
DRIVES = ("map", "seeds", "reached without contact", "decisions", "median decision time ms", "99th percentile ms",
          "deadlines missed", "slots missed")  # fmt: skip
NOTES = {
    "Evaluations": "Brackets hold 95 % intervals: Wilson for rates, exact Poisson for zero contacts, bootstrap over "
    "episodes otherwise. The policy acts greedily, and its first stop at rest ends an episode. SCT compares with the "
    "fastest drive along the shortest path. The paper's figures are quoted: another agent in another simulator.",
    "Paired differences": DIFFERENCES_NOTE,
    "Robustness": f"A condition with fewer episodes than `{REFERENCE}` drives an even selection from each map. Compare "
    f"such rows by the difference, not by SR. {DIFFERENCES_NOTE} The last columns count failed episodes by their end, "
    "with the median distance to the goal.",
    "Upper bound": "A map planner drives each episode with several draws of the noise (`onboard-hil upper-bound`). The "
    "ideal estimator knows the noise. Its error at the end must be at most 0.2 m. The next fix comes while the robot "
    "turns on the spot. Each row counts those episodes that the policy drove in this condition. Intervals are "
    "Wilson's; draws of one episode count by Kish's effective sample size. †: another state of the code drove the "
    "policy.",
    "Real time": "The runtime and the simulated robot are two processes with DDS between them. Times are the least and "
    "the largest of the drives. Most drives have fewer than 100 decisions, so the 99th percentile is nearly the "
    "slowest one.",
}
PLACES = {
    "Evaluations": f"{KINDS['evaluations']}/*.json of condition {REFERENCE} on the set {REFERENCE_SET}",
    "Paired differences": f"{KINDS['seeds']}/*.json",
    "Robustness": f"{KINDS['evaluations']}/*.json",
    "Upper bound": CEILING,
    "Ablations": ABLATIONS,
    "Real time": f"{DEMOS}/*.json",
}
"""Title of each table, in the order of a report, and the files that it needs."""


def all_tables(found: ResultFolder) -> dict[str, str]:
    """Return each table in Markdown by its title, without its note; "" without its files. Raises InputError."""
    differences = [*main_differences(found), *other_differences(found)]
    with shaped(found.folder / CEILING, "not the result of onboard-hil upper-bound"):
        upper = [] if found.ceiling is None else [_upper_bound_row(found, one) for one in found.ceiling["conditions"]]
    with shaped(found.folder / ABLATIONS, "not a result of ablations"):
        ablations = "" if found.ablations is None else ablation_table(found.ablations).rstrip("\n")
    return {
        "Evaluations": evaluations_table(found) if found.headline else "",
        "Paired differences": differences_table(differences) if differences else "",
        "Robustness": _robustness(found),
        "Upper bound": markdown_table(UPPER, upper) if upper else "",
        "Ablations": ablations,
        "Real time": _real_time(found),
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
    for low, high in itertools.pairwise([*DETOURS, float("inf")]):
        part = [row for row in (headline.rows if headline else ()) if low < max(row.detour, ABOVE_NONE) <= high]
        label = f"{low:g} to {high:g}" if high < float("inf") else f"over {low:g}"
        parts[f"shortest way / straight line {label}"] = summarise(part)
    rows += [[OURS, name, str(summary.episodes), *figures(summary)] for name, summary in parts.items()]
    rows += [_row(seed.name, seed) for seed in found.seeds]
    rows += [_row(OURS if one.is_of_policy(headline) else one.name, one) for one in found.validation]
    fine = sorted(found.fine, key=lambda one: not one.name.startswith("before"))
    return markdown_table(EVALUATIONS, rows + [_row(f"fine-tuning, {one.name}", one) for one in fine], words=2)


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


# ---- Upper bound


def _upper_bound_row(found: ResultFolder, condition: str) -> list[str]:
    result = found.ceiling or {}
    ends = ends_of_json(result, condition, found.folder / CEILING)
    rows, code = _driven_as(condition, found, result)
    same = [ends[row.map, row.index] for row in rows] or list(ends.values())
    of = asdict(ceiling_of(same))
    far = [end.own_m > FAR_M for draws in same for end in draws]
    mark = OTHER_CODE if rows and result.get("code") != code else ""
    shares = {name: _share(of[name], of[f"{name}_ci95"]) for name in ("ideal", "waited", "own")}
    return [f"`{condition}`", str(len(same)), shares["ideal"], number(of["ideal_median_m"], 1, 100.0), shares["waited"],
            shares["own"], percent(sum(far) / len(far)),
            _rate(sum(row.success for row in rows), len(rows)) + mark if rows else NOTHING]  # fmt: skip


def _driven_as(condition: str, found: ResultFolder, values: Mapping[str, Any]) -> tuple[Sequence[Row], str | None]:
    """Return rows and code of the plain evaluation with most of the upper bound's episodes."""
    numbers: dict[Hashable, Sequence[int]] = {
        same_set(episode): values["episodes"][episode[0]] for episode in episodes_of(values)
    }
    rows = []
    for evaluation in found.evaluations:
        if evaluation.condition == condition and evaluation.is_plain and evaluation.is_of_robot(found.headline):
            places = {place[0]: numbers.get(same_set(place), ()) for place in evaluation.episodes}
            same = [row for row in evaluation.rows if row.index in places.get(row.map, ())]
            rows.append((same, evaluation.configuration.get("code")))
    return max(rows, key=lambda pair: len(pair[0]), default=((), None))


# ---- Real time


def require_demos_of(policy: str, found: ResultFolder) -> None:
    """Raise InputError for real-time drives of a policy with another name, or of several."""
    drivers = {str(result.get("policy")) for result in found.demos.values()}
    if drivers - {policy}:
        raise InputError(f"{found.folder / DEMOS}: by {' and '.join(sorted(drivers))}, the report is about {policy}")


def _real_time(found: ResultFolder) -> str:
    """Return a row for each map."""
    with shaped(found.folder / DEMOS, "not results of onboard-hil demo, named MAP-SEED.json"):
        drives = sorted((name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1]), of) for name, of in found.demos.items())
        rows = [_drives(name, list(of_map)) for name, of_map in itertools.groupby(drives, lambda drive: drive[0])]
    return markdown_table(DRIVES, rows, words=2) if rows else ""


def _drives(name: str, drives: Sequence[tuple[str, int, Mapping[str, Any]]]) -> list[str]:
    results = [result for _, _, result in drives]
    good = sum(bool(one["reached"]) and not one["contacts"] for one in results)
    total = [f"{sum(one[of] for one in results):,}" for of in ("decisions", "deadline_misses", "missed_slots")]
    spans = [sorted(one["decision_ms"][of] for one in results) for of in ("p50", "p99")]
    times = [f"{of[0]:.0f} to {of[-1]:.0f}" for of in spans]
    seeds = ", ".join(str(seed) for _, seed, _ in drives)
    return [name, seeds, f"{good} of {len(drives)}", total[0], *times, *total[1:]]
