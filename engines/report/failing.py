"""How episodes ended that did not arrive, and how far from the goal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engines.report.gathered import EVALUATE, REFERENCE, Evaluated, Gathered
from engines.report.markdown import table
from engines.report.robust import LOW, InCondition, in_conditions, low_ones
from engines.report.told import Part, reason
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING
from hil.outcome import REACHED_M

CELLS_NOTE = (
    "In each cell: how many, and how far from the goal they ended, median (farthest) [m]. Below the quoted figures' "
    f"row are the conditions with an SR below {100 * LOW:g} %, the worst first."
)
NONE_FAILED = "None of the episodes failed.\n"


def failures(found: Gathered) -> Part:
    """Return how episodes of the headline ended that did not arrive, and those of conditions of a low success rate."""
    one = found.headline
    told = [] if one is None else [(f"`{REFERENCE}`", one.rows)]
    told += [(_name(low), low.rows) for low in low_ones(in_conditions(found)) if low.one is not one]
    ended = [(name, len(episodes), _lost(episodes)) for name, episodes in told]
    reasons = sorted({why for _, _, lost in ended for why in lost})
    rows = [[name, f"{sum(map(len, lost.values()))} of {count}", *(_cell(lost.get(why, ())) for why in reasons)]
            for name, count, lost in ended]  # fmt: skip
    text = table(("condition", "did not arrive", *map(reason, reasons)), rows) if reasons else NONE_FAILED
    text += f"\n{CELLS_NOTE}\n" if reasons else ""
    if one is not None:
        text = f"{_quoted(one)}\n\n{text}"
    data = [{"condition": name, "ended": why, "episodes": len(of_it), "median_m": median(of_it), "most_m": of_it[-1]}
            for name, _, lost in ended for why, of_it in lost.items()]  # fmt: skip
    return Part("failures", "How it fails", text, data, "" if one else f"{EVALUATE}/*.json")


def _quoted(one: Evaluated) -> str:
    stopped = [row.success for row in one.rows if row.ended == "stop"]
    lost = sum(not row.success for row in one.rows)
    return (
        f"{lost} of {len(one.rows)} episodes did not arrive. {len(stopped)} ended by the stop action, "
        f"{stopped.count(False)} of these not within {REACHED_M:g} m of the goal."
    )


def _name(low: InCondition) -> str:
    return low.name + ("" if low.doors is None else ", behind doors")


def _lost(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return by reason how far from the goal the episodes ended that did not arrive, the nearest first [m]."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.distance_m):
        if not row.success:
            found.setdefault(row.ended, []).append(row.distance_m)
    return found


def _cell(distances_m: Sequence[float]) -> str:
    if not distances_m:
        return NOTHING
    return f"{len(distances_m)}: {median(distances_m):.2f} ({distances_m[-1]:.2f})"
