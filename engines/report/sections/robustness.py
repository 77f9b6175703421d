"""Table of conditions, each with the difference to the paper's condition on the same episodes."""

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
"""The model card lists conditions with a lower success rate."""
MINUS = f"SR minus that in `{REFERENCE}`, points"
ENDS = {"stop": "stopped elsewhere", "time": "did not stop in time"}
NOTE = (
    f"A condition with fewer episodes than `{REFERENCE}` drives an even selection from each map. Compare such rows by "
    f"the difference, not by SR. {DIFFERENCES_NOTE} The last columns count failed episodes by their end, with the "
    "median distance to the goal."
)


@dataclass(frozen=True, slots=True)
class InCondition:
    """An evaluation in a condition. driver: "" for the policy. doors: figures behind doors, None without doors.

    less: difference of the success rate to the same driver in the paper's condition; None without common episodes
    code: `OTHER_CODE` if another version of the code drove the paper's condition
    """

    one: Evaluated
    driver: str
    doors: BehindDoors | None
    less: Difference | None
    code: str

    @property
    def summary(self) -> Summary:
        """Return the figures of the row; with doors, only of episodes behind doors."""
        return self.one.summary if self.doors is None else self.doors.summary

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the episodes of the figures."""
        return self.one.rows if self.doors is None else tuple(row for row in self.one.rows if is_behind(row))

    @property
    def name(self) -> str:
        """Return the first cell: the condition, and unusual settings."""
        text = f"`{self.one.condition}`" + (f", {self.driver}" if self.driver else "")
        if self.one.sets != [REFERENCE_SET]:
            return f"{text}, {whole(self.one)}"
        plain = self.one.loop == FAST and self.one.color and not self.one.unusual
        return text if plain else f"{text}, {driven(self.one)}"

    @property
    def what(self) -> str:
        """Return the description of the condition."""
        condition = load_conditions().get(self.one.condition)
        return "" if condition is None else condition.what

    @property
    def count(self) -> str:
        """Return the number of episodes, as text."""
        return str(self.summary.episodes) if self.doors is None else str(self.doors)


def robustness(found: Gathered) -> Part:
    """Return a row for each condition and driver."""
    there = in_conditions(found)
    reasons = sorted({row.ended for one in there for row in one.rows if not row.success})
    headings = ("condition", "what it is", "episodes", FIGURE_HEADINGS[0], MINUS, *FIGURE_HEADINGS[1:],
                "arrived without contact %", *(ENDS.get(why, why) for why in reasons))  # fmt: skip
    text = table(headings, [_row(one, reasons) for one in there], words=2) + f"\n{NOTE}\n"
    text += f"\n{DOORS_NOTE}\n" if any(one.doors is not None for one in there) else ""
    return Part("Robustness", text, "" if there else f"{EVALUATE}/*.json")


def weak_conditions(found: Gathered) -> list[list[str]]:
    """Return condition, description, episodes, SR and contacts for low success rates, the worst first."""
    low = [one for one in in_conditions(found) if not one.driver and (one.summary.success_rate or 0.0) < LOW]
    low.sort(key=lambda one: one.summary.success_rate or 0.0)
    return [[one.name, one.what, one.count, *(figures(one.summary)[column] for column in (0, -1))] for one in low]


def in_conditions(found: Gathered) -> list[InCondition]:
    """Return all evaluations by condition, the headline first; within a condition the policy before others."""
    conditions = {one.condition for one in found.evaluations} - {REFERENCE}
    evaluations = [(one, "") for one in found.evaluations]
    evaluations += [(one, one.driver) for one in found.others if one.condition in conditions]
    evaluations.sort(
        key=lambda pair: (pair[0].condition != REFERENCE, pair[0].condition, pair[0] is not found.headline)
    )
    return [_in_condition(one, driver, found) for one, driver in evaluations]


def _in_condition(one: Evaluated, driver: str, found: Gathered) -> InCondition:
    doors = behind_doors(one.rows, one.configuration.get("seed", 0))
    reference = _reference(one, driver, found)
    pairs = [] if reference is None else pairs_of(one, reference)
    if doors is not None:
        pairs = [pair for pair in pairs if is_behind(pair[0])]
    code = "" if reference is None else code_mark(one, reference)
    return InCondition(one, driver, doors, difference_of_rates(pairs), code)


def _reference(one: Evaluated, driver: str, found: Gathered) -> Evaluated | None:
    """Return the headline evaluation of the same driver and robot, None without one."""
    quoted = (
        [found.headline]
        if not driver
        else [each for each in found.others if each.driver == driver and each.is_headline]
    )
    return next((each for each in quoted if each and each is not one and one.is_of_robot(each)), None)


def _row(of: InCondition, reasons: Sequence[str]) -> list[str]:
    first, *others = figures(of.summary)
    less = NOTHING if of.less is None else f"{of.less}{of.code}"
    unhurt = rate(of.summary.successes_without_contact, of.summary.episodes)
    return [of.name, of.what, of.count, first, less, *others, unhurt, *(_ended(of.rows, why) for why in reasons)]


def _ended(rows: Sequence[Row], why: str) -> str:
    """Return the number of failures by this end, with the median distance to the goal."""
    lost_m = [row.distance_m for row in rows if row.ended == why and not row.success]
    return f"{len(lost_m)} ({median(lost_m):.2f} m)" if lost_m else NOTHING
