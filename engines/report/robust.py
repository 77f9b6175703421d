"""What a policy does in each condition, and beside what it does in the paper's on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engines.report.differences import OTHER_CODE_NOTE, Difference, code_mark, difference_of_rates, pairs_of
from engines.report.gathered import EVALUATE, FAST, REFERENCE, REFERENCE_SET, Evaluated, Gathered
from engines.report.markdown import FIGURE_HEADINGS, figures, table
from engines.report.resets import reset_words
from engines.report.told import (
    LOOPS,
    NOT_STATED,
    Part,
    count,
    driven_besides,
    lacks,
    of_sets,
    plain,
    rate,
)
from hil.conditions import load_conditions
from hil.evaluate.doors import NOTE, BehindDoors, behind_doors, is_behind
from hil.evaluate.metrics import Summary
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING, percent

LOW = 0.9
"""A success rate below this is told once more in words, and how those episodes ended (`failing.py`)."""
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
