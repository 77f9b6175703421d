"""What a policy does in each condition, and beside what it does in the paper's on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from engines.report.results.markdown import FIGURE_HEADINGS, figures, table
from engines.report.results.result_files import EVALUATE, FAST, REFERENCE, REFERENCE_SET, Evaluated, Gathered
from engines.report.results.section import Part, driven, rate, whole
from engines.report.sections.differences import NOTE as DIFFERENCES_NOTE
from engines.report.sections.differences import Difference, code_mark, difference_of_rates, pairs_of
from hil.drive.conditions import load_conditions
from hil.evaluate.metrics import NOTE as DOORS_NOTE
from hil.evaluate.metrics import BehindDoors, Summary, behind_doors, is_behind
from hil.evaluate.result import Row
from hil.evaluate.tables import NOTHING

LOW = 0.9
"""A model card lists each condition with a success rate below this."""
MINUS = f"SR minus that in `{REFERENCE}`, points"
ENDS = {"stop": "stopped elsewhere", "time": "did not stop in time"}
NOTE = (
    f"A condition with fewer episodes than `{REFERENCE}` drives an even selection from each map. Compare such rows by "
    f"the difference, not by SR. {DIFFERENCES_NOTE} The last columns count failed episodes by their end, with the "
    "median distance to the goal."
)


@dataclass(frozen=True, slots=True)
class InCondition:
    """One evaluation in a condition. who: drove, "" the policy. doors: of a condition with doors, else None.

    less: difference of its success rate to that of the same driver in the paper's condition; None where that one
          did not drive these episodes, or is this one
    code: `OTHER_CODE` where another state of the code drove those
    """

    one: Evaluated
    who: str
    doors: BehindDoors | None
    less: Difference | None
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
    def name(self) -> str:
        """Return the first cell of its row: the condition, and what is otherwise than in most rows."""
        told = f"`{self.one.condition}`" + (f", {self.who}" if self.who else "")
        if self.one.sets != [REFERENCE_SET]:
            return f"{told}, {whole(self.one)}"
        plain = self.one.loop == FAST and self.one.color and not self.one.unusual
        return told if plain else f"{told}, {driven(self.one)}"

    @property
    def what(self) -> str:
        """Return what its condition is."""
        condition = load_conditions().get(self.one.condition)
        return "" if condition is None else condition.what

    @property
    def count(self) -> str:
        """Return of how many episodes its row is."""
        return str(self.summary.episodes) if self.doors is None else str(self.doors)


def robustness(found: Gathered) -> Part:
    """Return one row for every condition that was driven, by the policy and by others beside it."""
    there = in_conditions(found)
    reasons = sorted({row.ended for one in there for row in one.rows if not row.success})
    headings = ("condition", "what it is", "episodes", FIGURE_HEADINGS[0], MINUS, *FIGURE_HEADINGS[1:],
                "arrived without contact %", *(ENDS.get(why, why) for why in reasons))  # fmt: skip
    text = table(headings, [_row(one, reasons) for one in there], words=2) + f"\n{NOTE}\n"
    text += f"\n{DOORS_NOTE}\n" if any(one.doors is not None for one in there) else ""
    return Part("robustness", "Robustness", text, "" if there else f"{EVALUATE}/*.json")


def weak_conditions(found: Gathered) -> list[list[str]]:
    """Return condition, what it is, episodes, SR and contacts of the policy's low success rates, the worst first."""
    low = [one for one in in_conditions(found) if not one.who and (one.summary.success_rate or 0.0) < LOW]
    low.sort(key=lambda one: one.summary.success_rate or 0.0)
    return [[one.name, one.what, one.count, *(figures(one.summary)[column] for column in (0, -1))] for one in low]


def in_conditions(found: Gathered) -> list[InCondition]:
    """Return what was driven, the quoted figures first, then what else was driven in that condition."""
    conditions = {one.condition for one in found.evaluations} - {REFERENCE}
    told = [(one, "") for one in found.evaluations]
    told += [(one, one.driver) for one in found.others if one.condition in conditions]
    told.sort(key=lambda pair: (pair[0].condition != REFERENCE, pair[0].condition, pair[0] is not found.headline))
    return [_in_condition(one, who, found) for one, who in told]


def _in_condition(one: Evaluated, who: str, found: Gathered) -> InCondition:
    doors = behind_doors(one.rows, one.configuration.get("seed", 0))
    reference = _reference(one, who, found)
    pairs = [] if reference is None else pairs_of(one, reference)
    if doors is not None:
        pairs = [pair for pair in pairs if is_behind(pair[0])]
    code = "" if reference is None else code_mark(one, reference)
    return InCondition(one, who, doors, difference_of_rates(pairs), code)


def _reference(one: Evaluated, who: str, found: Gathered) -> Evaluated | None:
    """Return what the same driver did with the same robot, as the headline was driven."""
    quoted = [found.headline] if not who else [each for each in found.others if each.driver == who and each.is_headline]
    return next((each for each in quoted if each and each is not one and one.is_of_robot(each)), None)


def _row(of: InCondition, reasons: Sequence[str]) -> list[str]:
    first, *others = figures(of.summary)
    less = NOTHING if of.less is None else f"{of.less}{of.code}"
    unhurt = rate(of.summary.successes_without_contact, of.summary.episodes)
    return [of.name, of.what, of.count, first, less, *others, unhurt, *(_ended(of.rows, why) for why in reasons)]


def _ended(rows: Sequence[Row], why: str) -> str:
    """Return how many episodes failed by this end, and how far from the goal in the median."""
    lost_m = [row.distance_m for row in rows if row.ended == why and not row.success]
    return f"{len(lost_m)} ({median(lost_m):.2f} m)" if lost_m else NOTHING
