"""Verdict on a run with a fault: whether the robot reacted as required, as values for a table and for JSON.

A run that cannot show the effect of a fault has neither passed nor failed. There are two such cases: the robot stood at
the onset, or the same run without the fault has the same problem (a stop, a jump, a contact).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from hil.reliability.faults import expectations
from hil.reliability.faults.expectations import (
    DRIVES_ON,
    GOES_ON,
    SHORT,
    Aftermath,
    Expectation,
    Problem,
    Reaction,
    Run,
    problems,
    settled,
    stood,
)
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.invariants import Monitor, Violation
from hil.reliability.faults.observed_tick import UNKNOWN, is_stop
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S

# ---- True stopping distance of the simulated base

STANDS_M = 0.001
"""A base with less path than this until the end of the fault stands."""
REST_S = 0.25
"""The base must stand for this time before the end; otherwise it may still move slowly."""


@dataclass(frozen=True, slots=True)
class StoppingDistance:
    """Stopping distance of the base after the onset.

    from_mps: true speed along x at the inputs of the fault's first tick [m/s]
    way_m:    length of the true path from there to rest [m]
    ticks:    number of ticks to rest
    """

    from_mps: float
    way_m: float
    ticks: int


def rolled(run: Run) -> StoppingDistance | None:
    """Return the stopping distance; None if the base did not stop during the fault, or if its path is unknown.

    For a run that ended early, the motion after its end counts too.
    """
    numbers = [number for number, truth in enumerate(run.truth) if truth.now_ns >= run.onset_ns]
    there = [run.truth[number] for number in numbers if run.ended or run.truth[number].now_ns < run.end_ns]
    if len(there) < 2:
        return None
    first, last = there[0], there[-1]
    ways = ((number, last.path_m - truth.path_m) for number, truth in enumerate(there))
    stood = next((number for number, left_m in ways if left_m <= STANDS_M), None)
    if stood is None or (last.now_ns - there[stood].now_ns) / NS_PER_S < REST_S:
        return None
    return StoppingDistance(first.v_mps, there[stood].path_m - first.path_m, stood)


MOST_SHOWN = 3
"""The verdict names at most this many broken rules, and counts the others."""
ALIKE = frozenset({DRIVES_ON, GOES_ON, expectations.place_stays.__name__, expectations.no_contact.__name__})
"""Kinds of problems that a run without the fault may also have. The fault is then not their cause."""


class Mode(Enum):
    """The kind of run into which a fault was injected."""

    CLOCK = "simulated clock"
    RECORDING = "recording, open loop"
    PROCESS = "process, DDS"


class Status(Enum):
    """The result of a run with a fault."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SHOWN = "nothing shown"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one fault in one mode.

    happened: summary in one line; or the reason why the fault did not run or showed nothing
    problems: differences from the required reaction
    within:   deadline of the reaction as a tick after the onset; settled: first tick of the reaction
    reason:   reason of the command in tick `settled` (`limits.Reason`); "" if the fault requires no stop or slow speed
    rolled:   true stopping distance of the base; None if it did not stop or its path is unknown
    """

    fault: Fault
    mode: Mode
    status: Status
    happened: str
    problems: tuple[str, ...] = ()
    within: int | None = None
    settled: int | None = None
    ticks: int = 0
    contacts: int | None = None
    reason: str = ""
    rolled: StoppingDistance | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        fault, must = self.fault, self.fault.must
        return {
            "name": fault.name,
            "what": fault.what,
            "must": must.text(),
            "why": fault.why,
            "mode": self.mode.value,
            "status": self.status.value,
            "happened": self.happened,
            "problems": list(self.problems),
            "within_ticks": self.within,
            "timeouts": list(must.timeouts),
            "settled_tick": self.settled,
            "ticks": self.ticks,
            "contacts": self.contacts,
            "reason": self.reason,
            "from_mps": None if self.rolled is None else round(self.rolled.from_mps, 3),
            "rolled_m": None if self.rolled is None else round(self.rolled.way_m, 3),
            "stood_tick": None if self.rolled is None else self.rolled.ticks,
        }


def judge(
    fault: Fault, mode: Mode, run: Run, config: Config, plant: Plant, without: Callable[[], Run | None] | None = None
) -> Verdict:
    """Return the verdict on a run with a fault from its onset to its end.

    without: repeats the run without the fault; called only if needed. It returns None if the robot then does not drive
    """
    must, monitor = fault.must, Monitor(config, plant)
    broken = [violation for tick, path_m in _with_path(run) for violation in monitor.watch(tick, path_m)]
    found, nothing = _weighed(must, run, config, without)
    wrong = (*(problem.what for problem in found), *_lines(broken))
    if nothing and not wrong:
        return Verdict(fault, mode, Status.NOT_SHOWN, nothing, ticks=len(run.during), contacts=run.contacts)
    timed = must.during in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS)
    first = settled(must, run, config) if timed else None
    return Verdict(
        fault=fault,
        mode=mode,
        status=Status.FAILED if wrong else Status.PASSED,
        happened=_happened(fault, run, config),
        problems=wrong,
        within=must.within_ticks(config) if timed else None,
        settled=first,
        ticks=len(run.during),
        contacts=run.contacts,
        reason="" if first is None else run.during[first].reason,
        rolled=rolled(run),
    )


def _with_path(run: Run) -> Iterator[tuple[TickRecord, float | None]]:
    """Yield each tick with the true path so far [m]; None where it is unknown."""
    for tick, truth in itertools.zip_longest(run.ticks, run.truth[: len(run.ticks)]):
        yield tick, None if truth is None else truth.path_m


def _weighed(
    must: Expectation, run: Run, config: Config, without: Callable[[], Run | None] | None
) -> tuple[list[Problem], str]:
    """Return the problems that the fault caused, and the reason why the run shows nothing, or ""."""
    if why := stood(run):
        return [], why
    found = problems(must, run, config)
    if short := next((problem.what for problem in found if problem.kind == SHORT), ""):
        return [problem for problem in found if problem.kind != SHORT], short
    if without is None or not found:
        return found, ""
    plain = without()
    if plain is None:
        return [], "the robot does not drive without the fault either"
    plain = replace(plain, onset_ns=run.onset_ns, end_ns=run.end_ns)
    if any(tick.state.startswith("reached") for tick in plain.during):
        return [], "without the fault, the robot reaches its goal meanwhile"
    same = {problem.kind: problem.what for problem in problems(must, plain, config) if problem.kind in ALIKE}
    left = [problem for problem in found if problem.kind not in same]
    weighed = [same[problem.kind] for problem in found if problem.kind in same]
    return left, f"same result without the fault: {weighed[0]}" if weighed else ""


def not_run(fault: Fault, mode: Mode, why: str) -> Verdict:
    """Return the verdict on a fault that did not run. why: the reason."""
    return Verdict(fault, mode, Status.NOT_RUN, why)


def _lines(broken: list[Violation]) -> list[str]:
    lines = [f"{one.rule}: {one.what} (slot {one.slot})" for one in broken[:MOST_SHOWN]]
    return lines + ([f"and {len(broken) - MOST_SHOWN} more broken rules"] if len(broken) > MOST_SHOWN else [])


def _happened(fault: Fault, run: Run, config: Config) -> str:
    """Return the robot's reaction in one line."""
    during, after, must = run.during, run.after, fault.must
    if run.ended:
        return f"the run ended, {'with' if run.stopped_last else 'without'} a stop: {run.ended}"
    parts = []
    first = settled(must, run, config)
    if must.during in (Reaction.STANDS, Reaction.NOT_FORWARD, Reaction.SLOWS):
        reasons = [tick.reason for tick in during[first:]] if first is not None else []
        why = f" ({_mostly(reasons)})" if reasons else ""
        parts.append(f"from tick {first} on{why}" if first is not None else "never")
    elif during:
        speeds = [abs(tick.command.v_mps) for tick in during]
        most = _mostly([tick.reason for tick in during])
        parts.append(f"{min(speeds):.2f} to {max(speeds):.2f} m/s, mostly {most}")
    again = next((number for number, tick in enumerate(after) if not is_stop(tick)), None)
    if must.then is Aftermath.GOES_ON and must.during is not Reaction.DRIVES and again is not None:
        parts.append(f"drives {again} ticks after the end")
    if (way := rolled(run)) is not None:
        parts.append(f"stood {way.ticks} ticks after the onset, {way.way_m:.2f} m on, from {way.from_mps:.2f} m/s")
    if run.contacts:
        parts.append(f"{run.contacts} contacts")
    last = (after or during)[-1:]
    return "; ".join([*parts, *(tick.state for tick in last)])


def _mostly(reasons: Sequence[str]) -> str:
    """Return the most frequent reason of the commands, in words."""
    most = Counter(reasons).most_common(1)[0][0]
    return {"none": "as the policy wants", UNKNOWN: "unknown"}.get(most, most)
