"""The parts of a report, each from the gathered files alone: a title, Markdown, and the same figures as values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.report.ablations import ablation_table
from engines.report.ceiling import joined_ceilings, joined_note
from engines.report.gathered import (
    ABLATIONS,
    CEILING,
    ENCODER,
    EVALUATE,
    FINE,
    SEEDS,
    THROUGHPUT,
    TRAINING,
    Evaluated,
    Gathered,
)
from engines.report.markdown import FIGURES, figures, hours, signed, table
from engines.report.shapes import shaped
from engines.report.verdict import verdict
from hil.conditions import load_conditions
from hil.evaluate.charts import DETOURS
from hil.evaluate.doors import NOTE, BehindDoors, behind_doors
from hil.evaluate.metrics import HARD_DETOUR, Summary, wilson
from hil.evaluate.tables import NOTHING, number, percent
from onboard.contract import ANGULAR_RADPS, LINEAR_MPS

PAPER_SIMULATED, PAPER_OFFICE, PAPER_REAL = (97.4, 82.2, 51.0), (100.0, 78.8, 59.9), (40.0, 28.9, 10.1)
"""SR, SPL, SCT of paper 1, section 1.9: with the motion model in HM3D, in its office simulated, and there for real."""
LOOPS = {
    "fast": "policy and base stepped directly",
    "runtime": "through the whole runtime, the scan cast directly",
    "rendered": "through the whole runtime, cameras rendered",
}
HEADLINE_NOTE = (
    "In brackets 95 % intervals: Wilson's for rates, the exact Poisson bound where there was no contact, a bootstrap "
    "over episodes for the others. Actions are greedy, the first stop at rest ends an episode. SCT takes the shortest "
    "way as one stretch, from rest to rest without a stop at its corners. The paper's figures are of its own agent in "
    "its own simulator: they are quoted, they are not the same work."
)
ENCODER_NOTE = """
None of the views was trained with. `unseen`: in the buildings of the test split, with looks, light, pose of the
camera and blur drawn as in training. `unseen_plain`: there in plain colours, by a camera in its exact place without
blur. `known`: in the buildings of the training, furnished otherwise, drawn as in training. Evaluations lie between
the first two: they draw looks, and render them by a camera in its exact place without blur. Errors of the ranges
ahead are relative to the true range; the predictors beside the encoder say what the training's views had, and do not
look.
"""
FEWER_NOTE = (
    "Rows of fewer episodes are of some that are spread evenly over each map's. A difference that lies within the "
    "intervals says little."
)
REFERENCE, REFERENCE_SET = "paper", "unseen"
ABOVE_NONE = 1.0 + 1e-9
"""A way that is no detour, rounded up, belongs to the first class; each class holds its upper edge."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part; `data` is for JSON. missing: what file there would have to be, "" where it is there."""

    name: str
    title: str
    markdown: str
    data: Any
    missing: str = ""


def headline(found: Gathered) -> Part:
    """Return the figures that are quoted, through each loop that was driven, beside the paper's own."""
    chosen = [one for one in found.evaluations if one.condition == REFERENCE]
    rows = [[_whole(one), _count(one.summary), *figures(one.summary)] for one in chosen]
    beside = _beside(found)
    rows += [[f"for comparison: {one.name}, {_whole(one)}", _count(one.summary), *figures(one.summary)]
             for one in found.others if one not in beside]  # fmt: skip
    rows += [
        ["paper 1, its own simulator with the motion model (quoted)", "2500", *_quoted(PAPER_SIMULATED)],
        ["paper 1, its own office, simulated (quoted)", NOTHING, *_quoted(PAPER_OFFICE)],
        ["paper 1, the real robot in that office (quoted)", NOTHING, *_quoted(PAPER_REAL)],
    ]
    note = "\n" + "\n\n".join([*verdict(found, PAPER_SIMULATED), HEADLINE_NOTE]) + "\n"
    data = {"ours": [_plain(one) for one in chosen], "others": [_plain(one) for one in found.others],
            "paper": {"simulated": PAPER_SIMULATED, "office": PAPER_OFFICE, "real": PAPER_REAL}}  # fmt: skip
    missing = "" if found.headline else f"{EVALUATE}/*.json of condition {REFERENCE} on the set unseen"
    return Part("headline", "How good", table(("", "episodes", *FIGURES), rows) + note, data, missing)


def robustness(found: Gathered) -> Part:
    """Return one row for every condition that was driven, by the policy and by others beside it."""
    headings = (
        "condition",
        "what it is",
        "driven",
        "episodes",
        *FIGURES,
        "arrived without contact %",
        "SR % on detours",
    )
    told = sorted([(one, "") for one in found.evaluations] + [(one, _driver(one)) for one in _beside(found)],
                  key=lambda pair: (pair[0].condition != REFERENCE, pair[0].condition))  # fmt: skip
    doors = [behind_doors(one.rows, one.configuration.get("seed", 0)) for one, _ in told]
    rows = [_condition_row(one, who, behind) for (one, who), behind in zip(told, doors, strict=True)]
    data = [{**_plain(one), "doors": None if behind is None else behind.as_json()}
            for (one, _), behind in zip(told, doors, strict=True)]  # fmt: skip
    text = table(headings, rows, words=3)
    text += f"\n{FEWER_NOTE}\n"
    text += f"\n{NOTE}\n" if any(one["doors"] is not None for one in data) else ""
    return Part("robustness", "Robustness", text, data, _lacks(rows, EVALUATE))


def _condition_row(one: Evaluated, who: str, doors: BehindDoors | None) -> list[str]:
    """Return the row of an evaluation; with doors it is of the episodes behind them. who: drove, "" the policy."""
    condition = load_conditions().get(one.condition)
    summary = one.summary if doors is None else doors.summary
    count = _count_behind(one, doors, blocked=condition is not None and condition.blocked_s > 0.0)
    elsewhere = "" if one.sets == [REFERENCE_SET] else f", {_of_sets(one)}"
    name = f"`{one.condition}`" + (f", for comparison {who}" if who else "")
    return [name, "" if condition is None else condition.what, _driven(one) + elsewhere, count, *figures(summary),
            _rate(summary.successes_without_contact, summary.episodes),
            percent(summary.hard_success_rate)]  # fmt: skip


def _driver(one: Evaluated) -> str:
    return Path(str(one.configuration.get("policy", one.name))).name


def _beside(found: Gathered) -> list[Evaluated]:
    """Return those of others that were driven in a condition of the robustness table."""
    told = {one.condition for one in found.evaluations} - {REFERENCE}
    return [one for one in found.others if one.condition in told]


def ceilings(found: Gathered) -> Part:
    """Return how often a place can be known at all; beside it the success rate, both in those episodes driven."""
    joined = joined_ceilings(found)
    rows = [
        [f"`{one.condition}`", _share(one.figures, "ideal"), number(one.figures["ideal_median_m"], 1, 100.0),
         _share(one.figures, "waited"), _share(one.figures, "own"), _rate(one.successes, one.driven),
         f"{one.driven} of {one.whole}" if one.driven else NOTHING]
        for one in joined
    ]  # fmt: skip
    headings = ("condition", "ideal estimator within 0.2 m %", "its median error cm", "at the next fix %",
                "the runtime's filter %", "SR %", "driven of its episodes")  # fmt: skip
    text = table(headings, rows) + f"\n{joined_note(joined)}\n"
    data = [{"condition": one.condition, **one.figures, "success_rate": one.rate, "episodes": one.driven,
             "of_driven": one.of_driven} for one in joined]  # fmt: skip
    return Part("ceilings", "What can be known", text, data, _lacks(rows, CEILING))


def seeds(found: Gathered) -> Part:
    """Return one row for every training that was evaluated as the headline is: its set, condition and loop."""
    others = [one for one in found.seeds if one.is_headline]
    named = [*([] if found.headline is None else [("this policy", found.headline)]), *((o.name, o) for o in others)]
    rows = [[name, _count(one.summary), *figures(one.summary)] for name, one in named]
    text = table(("training", "episodes", *FIGURES), rows)
    plain = [{**_plain(one), "name": name} for name, one in named]
    return Part("seeds", "Seeds", text, plain, _lacks(others, SEEDS))


def detours(found: Gathered) -> Part:
    """Return the success rate by how much longer the way is than the straight line, and by map."""
    one = found.headline
    rows, data = [], []
    edges = [*DETOURS, float("inf")]
    for low, high in itertools.pairwise(edges):
        chosen = [] if one is None else [row for row in one.rows if low < max(row.detour, ABOVE_NONE) <= high]
        successes = sum(row.success for row in chosen)
        interval = wilson(successes, len(chosen))
        rate = successes / len(chosen) if chosen else None
        told = "" if interval is None else f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"
        label = f"{low:g} to {high:g}" if high < float("inf") else f"over {low:g}"
        rows.append([label + (" (hard)" if low >= HARD_DETOUR else ""), str(len(chosen)), percent(rate) + told])
        data.append({"from": low, "to": None if high == float("inf") else high, "episodes": len(chosen), "SR": rate})
    text = table(("shortest way / straight line", "episodes", "SR %"), rows)
    per_map = {} if one is None else one.per_map
    text += "\n" + table(("map", "episodes", *FIGURES), [[m, _count(s), *figures(s)] for m, s in per_map.items()])
    plain = {"classes": data, "maps": {name: _rates(summary) for name, summary in per_map.items()}}
    return Part("detours", "Detours and maps", text, plain, "" if one else f"{EVALUATE}/*.json")


def failures(found: Gathered) -> Part:
    """Return how episodes ended that did not arrive, and how far from the goal."""
    one = found.headline
    lost = [] if one is None else [row for row in one.rows if not row.success]
    reasons = {row.ended for row in lost}
    rows, data = [], []
    for reason in sorted(reasons):
        of_it = sorted(row.distance_m for row in lost if row.ended == reason)
        rows.append([_reason(reason), str(len(of_it)), f"{of_it[0]:.2f} to {of_it[-1]:.2f}"])
        data.append({"ended": reason, "episodes": len(of_it), "distance_m": [of_it[0], of_it[-1]]})
    text = table(("how it ended", "episodes", "m from the goal"), rows) if rows else "None of the episodes failed.\n"
    if one is not None:
        stopped = [row.success for row in one.rows if row.ended == "stop"]
        text = (
            f"{len(lost)} of {len(one.rows)} episodes did not arrive. {len(stopped)} ended by the stop action, "
            f"{stopped.count(False)} of these not within 0.2 m of the goal.\n\n{text}"
        )
    return Part("failures", "How it fails", text, data, "" if one else f"{EVALUATE}/*.json")


def actions(found: Gathered) -> Part:
    """Return how often each action was chosen (paper 1, its Fig. 8)."""
    one = found.headline
    counts = (0,) * (len(LINEAR_MPS) * len(ANGULAR_RADPS)) if one is None else one.summary.actions
    total = max(1, sum(counts))
    width = len(ANGULAR_RADPS)
    rows = [
        [f"{v:g} m/s", *(f"{100 * count / total:.1f}" for count in counts[i * width : (i + 1) * width])]
        for i, v in enumerate(LINEAR_MPS)
    ]
    text = table(("% of decisions", *(f"{signed(w)} rad/s" for w in ANGULAR_RADPS)), rows)
    return Part("actions", "Actions", text, list(counts), "" if one else f"{EVALUATE}/*.json")


def ablations(found: Gathered) -> Part:
    """Return the table of the ablations."""
    text = "" if found.ablations is None else ablation_table(found.ablations)
    return Part("ablations", "Ablations", text, found.ablations, "" if text else ABLATIONS)


def encoder(found: Gathered) -> Part:
    """Return how well the colour encoder tells distances, beside predictors that do not look."""
    names = {"encoder": "encoder", "mean_of_bin": "mean of each bearing", "median_of_bin": "median of each bearing"}
    rows = [
        [views, words, str(one["views"]), percent(one[name]["ranges"]["median_relative"]),
         percent(one[name]["ranges"]["mean_relative"]), number(one[name]["free_way"]["mean_m"])]
        for views, one in (found.encoder or {}).items() for name, words in names.items()
    ]  # fmt: skip
    headings = ("views", "predictor", "count", "ranges: median error %", "ranges: mean error %", "free way: error m")
    text = table(headings, rows, words=2) + ENCODER_NOTE
    return Part("encoder", "What colour tells", text, found.encoder, _lacks(rows, ENCODER))


def fine_tuning(found: Gathered) -> Part:
    """Return the figures before and after fine-tuning."""
    rows = [[one.name, f"`{one.condition}`, {_driven(one)}", _of_maps(one), _count(one.summary), *figures(one.summary)]
            for one in found.fine]  # fmt: skip
    text = table(("", "driven", "in", "episodes", *FIGURES), rows, words=3)
    plain = [_plain(one) for one in found.fine]
    return Part("finetune", "Fine-tuning to one building", text, plain, _lacks(rows, FINE))


def throughput(found: Gathered) -> Part:
    """Return how much each training drove, and how fast."""
    rows, data = [], []
    for place, stages in found.trainings.items():
        for stage, one in stages.items():
            rate = NOTHING if one["decisions_per_s"] is None else f"{one['decisions_per_s']:.0f}"
            rows.append([place, stage, str(one["rounds"]), f"{one['decisions']:,}", f"{one['drives']:,}", rate,
                         hours(one["hours"])])  # fmt: skip
            data.append({**one, "training": place, "stage": stage})
    headings = ("training", "stage", "rounds", "decisions", "drives ended", "decisions / s", "wall time")
    return Part(THROUGHPUT, "Training", table(headings, rows, words=2), data, _lacks(rows, TRAINING))


def _share(figures_of: Mapping[str, Any], name: str) -> str:
    """Return a share of a ceiling with its interval, as far as the file has them."""
    value, interval = figures_of.get(name), figures_of.get(f"{name}_ci95")
    if value is None:
        return NOTHING
    return (
        percent(value) if interval is None else f"{percent(value)} ({percent(interval[0])} to {percent(interval[1])})"
    )


PARTS: tuple[Callable[[Gathered], Part], ...] = (
    headline, robustness, ceilings, seeds, detours, failures, actions, ablations, fine_tuning, encoder, throughput,
)  # fmt: skip
"""In the order of a report."""
FILES = {
    "ceilings": CEILING, "ablations": ABLATIONS, "encoder": ENCODER, "throughput": TRAINING, "fine_tuning": FINE,
    "seeds": SEEDS,
}  # fmt: skip
"""Of the function of a part, what it reads; of the others it is `EVALUATE`."""


def all_parts(found: Gathered) -> list[Part]:
    """Return all parts. Raises InputError where a file's values have another shape than its place says."""
    parts = []
    for part in PARTS:
        with shaped(found.folder / FILES.get(part.__name__, EVALUATE), "not what its place says"):
            parts.append(part(found))
    return parts


def _driven(one: Evaluated) -> str:
    more = [f", {name.replace('_', ' ')} {value}" for name, value in one.unusual.items()]
    return LOOPS[one.loop] + ("" if one.color else ", without colour images") + "".join(more)


def _plain(one: Evaluated) -> dict[str, Any]:
    return {
        "name": one.name,
        "condition": one.condition,
        "loop": one.loop,
        "color": one.color,
        "sets": one.sets,
        **_rates(one.summary),
    }


def _rates(summary: Summary) -> dict[str, Any]:
    names = ("episodes", "success_rate", "spl", "sct", "contacts_per_episode", "hard_success_rate", "ci95")
    told = summary.as_json()
    return {name: told[name] for name in names}


def _rate(successes: int, count: int) -> str:
    """Return a success rate with its interval."""
    interval = wilson(successes, count)
    if interval is None:
        return NOTHING
    return f"{percent(successes / count)} ({percent(interval[0])} to {percent(interval[1])})"


def _quoted(paper: Sequence[float]) -> list[str]:
    return [*(f"{value:g}" for value in paper), NOTHING]


def _of_sets(one: Evaluated) -> str:
    return " and ".join(f"set {name}" if name else "episodes of one's own" for name in one.sets)


def _whole(one: Evaluated) -> str:
    """Return what an evaluation is of: its sets, its condition unless that is the paper's, and how it was driven."""
    condition = "" if one.condition == REFERENCE else f", `{one.condition}`"
    return f"{_of_sets(one)}{condition}, {_driven(one)}"


def _of_maps(one: Evaluated) -> str:
    return ", ".join(Path(str(row[0])).stem for row in one.episodes)


def _count(summary: Summary) -> str:
    return str(summary.episodes)


def _count_behind(one: Evaluated, doors: BehindDoors | None, *, blocked: bool) -> str:
    """Return of how many episodes a row is. blocked: the condition has doors, of which older results do not tell."""
    return str(doors) if doors is not None else _count(one.summary) + (", doors not told" if blocked else "")


def _reason(ended: str) -> str:
    return {"stop": "stopped elsewhere", "time": "did not stop in time"}.get(ended, ended)


def _lacks(there: Sequence[Any], place: str) -> str:
    return "" if there else place
