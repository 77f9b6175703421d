"""The parts of a report, each from the gathered files alone: a title, Markdown, and the same figures as values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engines.report.results.checks import shaped
from engines.report.results.markdown import FIGURE_HEADINGS, figures, hours, signed, table
from engines.report.results.result_files import (
    ABLATIONS,
    CEILING,
    DEMOS,
    ENCODER,
    EVALUATE,
    FINE,
    REFERENCE,
    REFERENCE_SET,
    SEEDS,
    THROUGHPUT,
    TRAINING,
    VALIDATION,
    Gathered,
)
from engines.report.results.section import Part, count, lacks, plain, rate, rates, share, whole
from engines.report.sections.ablations import ablation_table
from engines.report.sections.differences import verdict
from engines.report.sections.realtime import demonstrations
from engines.report.sections.robustness import failures, others_beside, robustness
from engines.report.sections.trainings import choice, fine_tuning, seeds
from engines.report.sections.upper_bound import far_note, joined_ceilings, joined_note, made_note
from hil.evaluate.metrics import DETOURS, HARD_DETOUR
from hil.evaluate.tables import NOTHING, number, percent
from onboard.policy.contract import ANGULAR_RADPS, LINEAR_MPS

PAPER_SIMULATED, PAPER_OFFICE, PAPER_REAL = (97.4, 82.2, 51.0), (100.0, 78.8, 59.9), (40.0, 28.9, 10.1)
"""SR, SPL, SCT of paper 1, section 1.9: with the motion model in HM3D, in its office simulated, and there for real."""
HEADLINE_NOTE = (
    "In brackets 95 % intervals: Wilson's for rates, Agresti and Min's for differences of rates, the exact Poisson "
    "bound where there was no contact, a bootstrap over episodes for the others. Actions are greedy, the first stop at "
    "rest ends an episode. SCT takes the shortest way as one stretch, from rest to rest without a stop at its corners. "
    "The paper's figures are of its own agent in its own simulator: they are quoted, they are not the same work."
)
ENCODER_NOTE = """
None of the views was trained with. `unseen`: in the buildings of the test split, with looks, light, pose of the
camera and blur drawn as in training. `unseen_plain`: there in plain colours, by a camera in its exact place without
blur. `known`: in the buildings of the training, furnished otherwise, drawn as in training. Evaluations lie between
the first two: they draw looks, and render them by a camera in its exact place without blur. Errors of the ranges
ahead are relative to the true range; the predictors beside the encoder say what the training's views had, and do not
look.
"""
ABOVE_NONE = 1.0 + 1e-9
"""A way that is no detour, rounded up, belongs to the first class; each class holds its upper edge."""


def headline(found: Gathered) -> Part:
    """Return the figures that are quoted, through each loop that was driven, beside the paper's own."""
    chosen = [one for one in found.evaluations if one.condition == REFERENCE]
    chosen.sort(key=lambda one: one is not found.headline)
    rows = [[whole(one), count(one.summary), *figures(one.summary)] for one in chosen]
    beside = others_beside(found)
    rows += [[f"for comparison: {one.name}, {whole(one)}", count(one.summary), *figures(one.summary)]
             for one in found.others if one not in beside]  # fmt: skip
    rows += [
        ["paper 1, its own simulator with the motion model (quoted)", "2500", *_quoted(PAPER_SIMULATED)],
        ["paper 1, its own office, simulated (quoted)", NOTHING, *_quoted(PAPER_OFFICE)],
        ["paper 1, the real robot in that office (quoted)", NOTHING, *_quoted(PAPER_REAL)],
    ]
    note = "\n" + "\n\n".join([*verdict(found, PAPER_SIMULATED), HEADLINE_NOTE]) + "\n"
    data = {"ours": [plain(one) for one in chosen], "others": [plain(one) for one in found.others],
            "paper": {"simulated": PAPER_SIMULATED, "office": PAPER_OFFICE, "real": PAPER_REAL}}  # fmt: skip
    missing = "" if found.headline else f"{EVALUATE}/*.json of condition {REFERENCE} on the set {REFERENCE_SET}"
    return Part("headline", "How good", table(("", "episodes", *FIGURE_HEADINGS), rows) + note, data, missing)


def ceilings(found: Gathered) -> Part:
    """Return how often a place can be known at all; beside it the success rate, both in those episodes driven."""
    joined = joined_ceilings(found)
    rows = [
        [f"`{one.condition}`", _share(one.of_all, "ideal"), f"{one.driven} of {one.whole}" if one.driven else NOTHING,
         _share(one.figures, "ideal"), number(one.figures["ideal_median_m"], 1, 100.0),
         _share(one.figures, "waited"), _share(one.figures, "own"), rate(one.successes, one.driven) + one.code]
        for one in joined
    ]  # fmt: skip
    headings = ("condition", "ideal estimator within 0.2 m, all episodes %", "driven", "ideal %", "its median error cm",
                "at the next fix %", "the runtime's filter %", "SR %")  # fmt: skip
    notes = [joined_note(joined), far_note(joined), made_note(found, joined)]
    text = table(headings, rows) + "".join(f"\n{note}\n" for note in notes if note)
    data = [{"condition": one.condition, **one.figures, "ideal_of_all": one.of_all["ideal"], "success_rate": one.rate,
             "episodes": one.driven, "of_driven": one.of_driven} for one in joined]  # fmt: skip
    return Part("ceilings", "What can be known", text, data, lacks(rows, CEILING))


def _share(of: Mapping[str, Any], name: str) -> str:
    """Return a share of a ceiling with its interval, as far as the file has them."""
    return share(of.get(name), of.get(f"{name}_ci95"))


def detours(found: Gathered) -> Part:
    """Return the success rate by how much longer the way is than the straight line, and by map."""
    one = found.headline
    rows, data = [], []
    edges = [*DETOURS, float("inf")]
    for low, high in itertools.pairwise(edges):
        chosen = [] if one is None else [row for row in one.rows if low < max(row.detour, ABOVE_NONE) <= high]
        successes = sum(row.success for row in chosen)
        label = f"{low:g} to {high:g}" if high < float("inf") else f"over {low:g}"
        rows.append([label + (" (hard)" if low >= HARD_DETOUR else ""), str(len(chosen)), rate(successes, len(chosen))])
        data.append({"from": low, "to": None if high == float("inf") else high, "episodes": len(chosen),
                     "SR": successes / len(chosen) if chosen else None})  # fmt: skip
    text = table(("shortest way / straight line", "episodes", "SR %"), rows)
    per_map = {} if one is None else one.per_map
    text += "\n" + table(
        ("map", "episodes", *FIGURE_HEADINGS), [[m, count(s), *figures(s)] for m, s in per_map.items()]
    )
    told = {"classes": data, "maps": {name: rates(summary) for name, summary in per_map.items()}}
    return Part("detours", "Detours and maps", text, told, "" if one else f"{EVALUATE}/*.json")


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
    return Part("encoder", "What colour tells", text, found.encoder, lacks(rows, ENCODER))


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
    return Part(THROUGHPUT, "Training", table(headings, rows, words=2), data, lacks(rows, TRAINING))


PARTS: tuple[Callable[[Gathered], Part], ...] = (
    headline, demonstrations, robustness, ceilings, seeds, choice, detours, failures, actions, ablations, fine_tuning,
    encoder, throughput,
)  # fmt: skip
"""In the order of a report."""
FILES = {
    "ceilings": CEILING, "ablations": ABLATIONS, "encoder": ENCODER, "throughput": TRAINING, "fine_tuning": FINE,
    "seeds": SEEDS, "choice": VALIDATION, "demonstrations": DEMOS,
}  # fmt: skip
"""Of the function of a part, what it reads; of the others it is `EVALUATE`."""


def all_parts(found: Gathered) -> list[Part]:
    """Return all parts. Raises InputError where a file's values have another shape than its place says."""
    parts = []
    for part in PARTS:
        with shaped(found.folder / FILES.get(part.__name__, EVALUATE), "not what its place says"):
            parts.append(part(found))
    return parts


def _quoted(paper: Sequence[float]) -> list[str]:
    return [*(f"{value:g}" for value in paper), NOTHING]
