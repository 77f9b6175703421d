"""The result of a replay in the words of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hil.replay.compare import Comparison
from hil.replay.other_policy import Moment, PolicyComparison
from hil.report.charts import ScanPicture, scan_picture
from hil.report.confusion_matrix import Confusion, action_text, confusion_of, parted
from hil.report.session_metrics import plural
from hil.report.timeline import shown

MOST_FIELDS = 40
OUTCOMES = {
    "identical": ("identical", "good"),
    "no difference in what was compared": ("no difference in what was compared", "allowed"),
    "within tolerance": ("within tolerance, but not identical", "allowed"),
    "too little compared": ("too little compared", "bad"),
    "differs": ("differs", "bad"),
}
"""Words of the page and weight of each `Compared.outcome`."""
TERMS = "It got the recorded observations and kept its own memory; the recorded actions stayed active."


@dataclass(frozen=True, slots=True)
class Mark:
    """The first difference: its tick and field, and both values as text."""

    tick: int
    t_s: float
    place: str
    recorded: str
    replayed: str
    apart: str
    picture: ScanPicture | None


@dataclass(frozen=True, slots=True)
class FieldRow:
    """All differences of one field: number of values, largest difference, number outside the tolerance."""

    name: str
    values: int
    worst: str
    outside: int


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A decision that another policy would have made differently."""

    tick: int
    t_s: float
    recorded: str
    now: str
    margin: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Statement on a replay. weight: "good" (identical), "allowed" (within tolerance, or in part) or "bad"."""

    headline: str
    detail: str
    weight: str
    mark: Mark | None = None
    fields: tuple[FieldRow, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    confusion: Confusion | None = None


def verdict_of(outcome: Comparison | PolicyComparison) -> Verdict:
    """Return the statement on a replay."""
    return _of_opinion(outcome) if isinstance(outcome, PolicyComparison) else _of_compared(outcome)


def _of_compared(found: Comparison) -> Verdict:
    outcome, weight = OUTCOMES.get(found.outcome, (found.outcome, "bad"))
    detail = ", ".join(_amounts(found))
    if found.first is None:
        of_all = f" of {found.ticks + found.skipped:,}" if found.skipped else ""
        return Verdict(f"Replay: {outcome}, {found.ticks:,}{of_all} {_ticks(found)}", detail, weight)
    one = found.first.difference
    mark = Mark(
        found.first.tick, found.first.t_s, f"stage {one.stage}, field {one.field}{one.place}", _value(one.recorded),
        _value(one.replayed), f"{one.by:.3g} apart" if math.isfinite(one.by) else "",
        None if found.first.scans is None else scan_picture(*found.first.scans),
    )  # fmt: skip
    fields = tuple(
        FieldRow(name, count.values, f"{count.worst:.3g}" if math.isfinite(count.worst) else "other", count.outside)
        for name, count in list(found.fields.items())[:MOST_FIELDS]
    )
    detail = f"{plural(found.ticks, 'tick')}, {detail}; {found.same:,} of {found.decisions:,} actions the same"
    first = f"first at tick {mark.tick:,} ({mark.t_s:.3f} s) in {one.stage}, {one.field}{one.place}"
    return Verdict(f"Replay {outcome}, {first}", detail, weight, mark, fields)


def _ticks(found: Comparison) -> str:
    return "tick" if found.ticks + found.skipped == 1 else "ticks"


def _amounts(found: Comparison) -> Iterator[str]:
    """Yield the amounts that were compared and not compared, and the tolerance."""
    yield plural(found.decisions, "decision")
    yield f"{plural(found.fused, 'scan')} fused again"
    for why, count in found.unfused.items():
        yield f"{count:,} not ({shown(why)})"
    if found.skipped:
        yield f"{plural(found.skipped, 'tick')} not comparable"
    if found.gaps:
        yield plural(found.gaps, "gap")
    yield f"judged {' and '.join(dict.fromkeys(session.measure.description for session in found.sessions))}"
    if found.recorded_s and found.took_s:
        yield f"{found.recorded_s / found.took_s:.1f} times as fast as it was driven"
    if found.cut_off:
        yield "cut off: what is left, from a repaired copy"


def _of_opinion(found: PolicyComparison) -> Verdict:
    share = 100.0 * found.same / found.decisions if found.decisions else 0.0
    return Verdict(
        f"{found.policy} would have done the same in {share:.1f} % of {plural(found.decisions, 'decision')}",
        " ".join(filter(None, [TERMS, parted(found.pairs)])),
        "good" if found.same == found.decisions else "allowed",
        disagreements=tuple(_disagreement(moment) for moment in sorted(found.moments, reverse=True)),
        confusion=confusion_of(found.pairs),
    )


def _disagreement(one: Moment) -> Disagreement:
    return Disagreement(one.tick, one.t_s, action_text(one.recorded), action_text(one.decided), one.margin)


def _value(value: object) -> str:
    """Return a value as text, with enough digits to distinguish two values."""
    return f"{value:.9g}" if isinstance(value, float) else "none" if value is None else shown(str(value))
