"""What a policy does in each condition, and beside what it does in the paper's on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from engines.report.results.markdown import FIGURE_HEADINGS, figures, table
from engines.report.results.result_files import EVALUATE, FAST, REFERENCE, REFERENCE_SET, Evaluated, Gathered
from engines.report.results.section import (
    LOOPS,
    NOT_STATED,
    Part,
    count,
    driven_besides,
    lacks,
    of_sets,
    plain,
    rate,
    reason,
)
from engines.report.sections.differences import (
    OTHER_CODE_NOTE,
    Difference,
    code_mark,
    difference_of_rates,
    differences,
    pairs_of,
    told_beside,
)
from hil.drive.conditions import load_conditions
from hil.drive.setting import REACHED_M
from hil.evaluate.metrics import NOTE, BehindDoors, Summary, behind_doors, is_behind
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING, percent

# ---- What the clock's reset of the memory does: conditions that differ by it alone, on the same episodes

RESET, NEVER = "memory_reset_s", "never"


def reset_words(evaluations: Sequence[Evaluated]) -> list[str]:
    """Return a sentence for each two conditions of which one resets the memory by the clock and the other never does.

    With doors it is of the episodes behind them.
    """
    never = [one for one in evaluations if _values(one).get(RESET) == NEVER]
    pairs = [(reset, other) for other in never for reset in evaluations if _differ_by_the_reset(reset, other)]
    told = [_words(*pair) for pair in sorted(pairs, key=lambda pair: pair[0].condition)]
    return [words for words in told if words]


def _words(reset: Evaluated, never: Evaluated) -> str:
    doors = any(is_behind(row) for row in reset.rows)
    pairs = [pair for pair in pairs_of(reset, never) if not doors or is_behind(pair[0])]
    if not pairs:
        return ""
    named = [f"`{one.condition}`" + (" behind doors" if doors else "") for one in (reset, never)]
    return told_beside(*named, len(pairs), differences(pairs), code_mark(reset, never))


def _values(one: Evaluated) -> dict[str, Any]:
    """Return the values of its condition; nothing of a result of before they were kept."""
    return dict(one.configuration.get("condition_values") or {})


def _differ_by_the_reset(reset: Evaluated, never: Evaluated) -> bool:
    one, other = _values(reset), _values(never)
    alike = (reset.loop, reset.color, reset.unusual) == (never.loop, never.color, never.unusual)
    return alike and reset.is_of_robot(never) and one.pop(RESET, NEVER) != other.pop(RESET, None) and one == other


LOW = 0.9
"""A success rate below this is told once more in words, and how those episodes ended (`robustness.py`)."""
MINUS = f"SR minus that in `{REFERENCE}` on the same episodes, points"
PAIRED_NOTE = (
    f"A row of fewer episodes than `{REFERENCE}` is of a part of them, chosen evenly from each map, which may be "
    f"easier or harder than the whole: its SR does not compare with that of the row `{REFERENCE}`. The differences do: "
    "each is of one driver, on the episodes that it drove both times (behind doors: on those behind doors). An "
    "interval that holds 0 shows no difference. They are 95 % intervals: about one in twenty does not hold the true "
    f"difference, and here are many. All is driven with {LOOPS[FAST]}, unless a row says otherwise."
)
RESETS_NOTE = "What the memory's reset by the clock does, beside the same without it:"


@dataclass(frozen=True, slots=True)
class InCondition:
    """One evaluation in a condition. who: drove, "" the policy. doors: of a condition with doors, else None.

    less: difference of its success rate to that of the same driver in the paper's condition; None where that one
          did not drive these episodes, or is this one
    paired: how many episodes that difference is of
    code: `OTHER_CODE` where another state of the code drove those
    """

    one: Evaluated
    who: str
    doors: BehindDoors | None
    less: Difference | None
    paired: int
    code: str

    @property
    def summary(self) -> Summary:
        """Return the figures of its row: with doors those of the episodes behind them."""
        return self.one.summary if self.doors is None else self.doors.summary

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the episodes that its figures are of."""
        return self.one.rows if self.doors is None else tuple(row for row in self.one.rows if is_behind(row))

    @property
    def is_low(self) -> bool:
        """Return whether it is the policy's own, of a success rate below `LOW`."""
        return not self.who and self.summary.success_rate is not None and self.summary.success_rate < LOW

    @property
    def name(self) -> str:
        """Return the first cell of its row: the condition, and what is otherwise than in most rows."""
        elsewhere = "" if self.one.sets == [REFERENCE_SET] else f", {of_sets(self.one)}"
        loop = "" if self.one.loop == FAST else f", {LOOPS[self.one.loop]}"
        beside = f", for comparison {self.who}" if self.who else ""
        return f"`{self.one.condition}`{beside}{loop}{driven_besides(self.one)}{elsewhere}"


def robustness(found: Gathered) -> Part:
    """Return one row for every condition that was driven, by the policy and by others beside it."""
    driven = in_conditions(found)
    headings = ("condition", "what it is", "episodes", FIGURE_HEADINGS[0], MINUS, *FIGURE_HEADINGS[1:],
                "arrived without contact %", "SR % on detours")  # fmt: skip
    text = table(headings, [_row(one) for one in driven], words=2) + f"\n{PAIRED_NOTE}\n"
    text += f"\n{NOTE}\n" if any(one.doors is not None for one in driven) else ""
    text += f"\n{OTHER_CODE_NOTE}\n" if any(one.code and one.less for one in driven) else ""
    text += f"\n{_low_words(driven)}\n"
    resets = reset_words(found.evaluations)
    text += "".join(f"\n{words}\n" for words in (RESETS_NOTE, *resets) if resets)
    data = [{**plain(one.one), "doors": None if one.doors is None else one.doors.as_json(),
             "less_reference": None if one.less is None else [one.less.mean, *one.less.interval]}
            for one in driven]  # fmt: skip
    return Part("robustness", "Robustness", text, data, lacks(driven, EVALUATE))


def in_conditions(found: Gathered) -> list[InCondition]:
    """Return what was driven, the quoted figures first, then what else was driven in that condition."""
    told = [(one, "") for one in found.evaluations] + [(one, one.driver) for one in others_beside(found)]
    told.sort(key=lambda pair: (pair[0].condition != REFERENCE, pair[0].condition, pair[0] is not found.headline))
    return [_in_condition(one, who, found) for one, who in told]


def others_beside(found: Gathered) -> list[Evaluated]:
    """Return those of others that were driven in a condition of the robustness table."""
    told = {one.condition for one in found.evaluations} - {REFERENCE}
    return [one for one in found.others if one.condition in told]


def low_ones(driven: Sequence[InCondition]) -> list[InCondition]:
    """Return those of a low success rate, the worst first."""
    return sorted((one for one in driven if one.is_low), key=lambda one: one.summary.success_rate or 0.0)


def _in_condition(one: Evaluated, who: str, found: Gathered) -> InCondition:
    doors = behind_doors(one.rows, one.configuration.get("seed", 0))
    reference = _reference(one, who, found)
    pairs = [] if reference is None else pairs_of(one, reference)
    if doors is not None:
        pairs = [pair for pair in pairs if is_behind(pair[0])]
    code = "" if reference is None else code_mark(one, reference)
    return InCondition(one, who, doors, difference_of_rates(pairs), len(pairs), code)


def _reference(one: Evaluated, who: str, found: Gathered) -> Evaluated | None:
    """Return what the same driver did with the same robot, as the headline was driven."""
    quoted = [found.headline] if not who else [each for each in found.others if each.driver == who and each.is_headline]
    return next((each for each in quoted if each and each is not one and one.is_of_robot(each)), None)


def _row(of: InCondition) -> list[str]:
    condition = load_conditions().get(of.one.condition)
    blocked = condition is not None and condition.blocked_s > 0.0
    first, *others = figures(of.summary)
    return [of.name, "" if condition is None else condition.what, _count(of, blocked=blocked), first,
            _less(of), *others,
            rate(of.summary.successes_without_contact, of.summary.episodes),
            percent(of.summary.hard_success_rate)]  # fmt: skip


def _less(of: InCondition) -> str:
    if of.less is None:
        return NOTHING
    return str(of.less) + of.code + ("" if of.paired == of.summary.episodes else f", {of.paired} episodes")


def _count(of: InCondition, *, blocked: bool) -> str:
    """Return of how many episodes a row is. blocked: the condition has doors, of which older results do not tell."""
    return str(of.doors) if of.doors is not None else count(of.summary) + (f", doors {NOT_STATED}" if blocked else "")


def _low_words(driven: Sequence[InCondition]) -> str:
    low = low_ones(driven)
    if not low:
        return f"SR is {100 * LOW:g} % or more in every condition."
    told = ", ".join(f"{one.name} {percent(one.summary.success_rate)}" for one in low)
    own = sum(not one.who for one in driven)
    return f"SR is below {100 * LOW:g} % in {len(low)} of the policy's {own} rows, the worst first: {told}."


# ---- How episodes ended that did not arrive, and how far from the goal

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
