"""The result of a replay in the words of the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hil.replay.compare import Comparison
from hil.replay.other_policy import Moment, PolicyComparison
from hil.report.charts import ScanPicture, scan_picture
from hil.report.session_metrics import plural
from hil.report.timeline import shown
from onboard.policy.contract import ACTIONS

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


SHADES = 4
"""Number of shades; a shade is the share of a cell in its row."""


class Choice(NamedTuple):
    """An action as two texts: forward [m/s] and turning speed [rad/s]; ("none", "") without an action."""

    forward: str
    turning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Count of a pair of actions. shade: 0 (never) to SHADES; same: both actions are equal."""

    count: int
    shade: int
    same: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded action: its count, how often the other policy agrees, and the other policy's choices."""

    done: Choice
    count: int
    same: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows: recorded actions; columns: the other policy's actions. Only actions that occur, slow ones first.

    speeds: forward speed of neighbouring columns, and the number of these columns
    """

    speeds: tuple[tuple[str, int], ...]
    columns: tuple[Choice, ...]
    rows: tuple[Row, ...]


Pairs = Mapping[tuple[int, int], int]
"""Count of each (recorded action, action of the other policy)."""


def confusion_of(pairs: Pairs) -> Confusion | None:
    """Return the table, or None without a decision."""
    done = sorted({one for one, _ in pairs})
    other = sorted({one for _, one in pairs})
    if not pairs:
        return None
    columns = tuple(map(choice, other))
    speeds = tuple((speed, len(list(same))) for speed, same in itertools.groupby(column.forward for column in columns))
    return Confusion(speeds, columns, tuple(_row(pairs, one, other) for one in done))


def _row(pairs: Pairs, done: int, others: list[int]) -> Row:
    counts = [pairs.get((done, other), 0) for other in others]
    total = sum(counts)
    cells = tuple(
        Cell(count, -(-SHADES * count // total) if total else 0, other == done)
        for other, count in zip(others, counts, strict=True)
    )
    return Row(choice(done), total, pairs.get((done, done), 0), cells)


def choice(number: int) -> Choice:
    """Return the speeds of an action as text."""
    if not 0 <= number < len(ACTIONS):
        return Choice("none", "")
    twist = ACTIONS[number]
    return Choice(f"{twist.v_mps:g}", f"{twist.w_radps:+g}" if twist.w_radps else "0")


def action_text(number: int) -> str:
    """Return an action in words."""
    forward, turning = choice(number)
    return f"{forward} m/s, {turning} rad/s" if turning else forward


def parted(pairs: Pairs) -> str:
    """Return in words how the differing decisions differ, or ""."""
    ways = {"faster": 0, "slower": 0, "as fast but turning otherwise": 0, "with no action in one of the two": 0}
    for way, count in _ways(pairs):
        ways[way] += count
    parts = [f"{count:,} {way}" for way, count in ways.items() if count]
    return f"Of the {plural(sum(ways.values()), 'other')}: {', '.join(parts)}." if parts else ""


def _ways(pairs: Pairs) -> Iterator[tuple[str, int]]:
    for (done, other), count in pairs.items():
        if done == other:
            continue
        if not (0 <= done < len(ACTIONS) and 0 <= other < len(ACTIONS)):
            yield "with no action in one of the two", count
            continue
        more = ACTIONS[other].v_mps - ACTIONS[done].v_mps
        yield "faster" if more > 0 else "slower" if more < 0 else "as fast but turning otherwise", count
