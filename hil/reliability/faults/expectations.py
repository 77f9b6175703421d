"""The required reaction to a fault, its deadline, and the checks of a run's ticks against it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hil.reliability.faults.invariants import GRACE_TICKS, ROUNDING
from hil.reliability.faults.observed_tick import driving, is_stop
from onboard.config.config import Config
from onboard.navigation.odometry import MAX_SPEED_MPS
from onboard.safety.limits import SLOW_FRACTION
from onboard.state import TickRecord
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance
from onboard.values.messages import STOP
from onboard.values.reasons import row_of

AGAIN_S = 2.0
"""A robot that may drive on must do so within this time after the end of a fault."""


SHORT, HELD, DRIVES_ON, GOES_ON, ENDS = "short", "held", "drives on", "goes on", "ends"
"""Kinds of problems. The problems of a check have the check's name as their kind."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A difference from the required reaction. kind: `SHORT` to `ENDS`, or the name of a check; what: one line."""

    kind: str
    what: str


class Reaction(Enum):
    """Required behaviour of the robot during the fault."""

    STANDS = "stands"
    NOT_FORWARD = "does not go forward"
    SLOWS = "goes no faster than in a slow zone"
    DRIVES = "drives on"
    HOLDS = "keeps its limits"


class Aftermath(Enum):
    """Required behaviour of the robot after the fault."""

    GOES_ON = "continues by itself"
    STAYS = "stays until there is a new goal"
    LEAVES = "the run has ended, with a stop"
    HOLDS = ""


@dataclass(frozen=True, slots=True)
class Truth:
    """True state of the simulated base at a time: length of its path so far [m], and its speed along x [m/s]."""

    now_ns: int
    path_m: float
    v_mps: float


@dataclass(frozen=True, slots=True)
class Run:
    """The ticks of one run with one fault, and the true motion.

    ended:    error that ended the run early, "" for none; stopped_last: whether the last command was a stop
    contacts: number of contacts with solid objects; None if unknown
    truth:    true states of the base at the inputs of each tick, and after an early end; empty if unknown
    """

    ticks: Sequence[TickRecord]
    onset_ns: int
    end_ns: int
    ended: str = ""
    stopped_last: bool = True
    contacts: int | None = None
    truth: Sequence[Truth] = ()

    @property
    def during(self) -> list[TickRecord]:
        """The ticks during the fault."""
        return [tick for tick in self.ticks if self.onset_ns <= tick.slot.start_ns < self.end_ns]

    @property
    def after(self) -> list[TickRecord]:
        """The ticks after the fault."""
        return [tick for tick in self.ticks if tick.slot.start_ns >= self.end_ns]


class Check(Protocol):
    """A function that checks a whole run; its name is the kind of its problem."""

    __name__: str

    def __call__(self, run: Run, config: Config, /) -> str:
        """Return the problem of the run, or "" if there is none."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The required reaction to a fault.

    timeouts:  keys of the configuration [ms or s]; the reaction may take their sum, and `ticks` more
    decisions: number of decisions that may be due before the reaction; 0 for none
    reasons:   reasons of the limits (`limits.Reason`), or "none", allowed after the reaction; empty allows any
    state:     required beginning of the final state
    checks:    further checks of the run
    ahead:     the injection makes the policy want straight ahead; a policy that turns away would not test the limits
    """

    during: Reaction
    then: Aftermath = Aftermath.GOES_ON
    timeouts: tuple[str, ...] = ()
    decisions: int = 0
    ticks: int = GRACE_TICKS
    reasons: tuple[str, ...] = ()
    state: str = ""
    checks: tuple[Check, ...] = ()
    ahead: bool = False

    def within_ticks(self, config: Config) -> int:
        """Return the deadline of the reaction as a tick after the onset, counted from 0."""
        rates, due = config.rates, self.decisions
        waited = math.ceil(round(sum(seconds_of(config, key) for key in self.timeouts) * rates.control_hz, 6))
        return waited + (due * rates.ticks_per_decision + rates.delay_ticks if due else 0) + self.ticks

    def reasons_from(self, config: Config) -> int:
        """Return the first tick after the onset, counted from 0, in which only `reasons` may shape the command."""
        rates = config.rates
        return self.within_ticks(config) + (rates.ticks_per_decision + rates.delay_ticks if self.ahead else 0)

    def text(self, within: int | None = None) -> str:
        """Return the reaction in words. within: deadline as a tick; None leaves it out."""
        by = "" if within is None else f" by tick {within}"
        parts = [self.during.value + by + (", commanded straight ahead" if self.ahead else "")]
        if self.state:
            parts.append(f'ends the drive: "{self.state}"')
        return "; ".join([*parts, *filter(None, [self.then.value])])


def number_of(config: Config, key: str) -> float:
    """Return a number of the configuration by its key, for example "odometry.stale_ms"."""
    table, name = key.split(".")
    return float(getattr(getattr(config, table), name))


def seconds_of(config: Config, key: str) -> float:
    """Return a time of the configuration by its key [s]."""
    value = number_of(config, key)
    return value / 1e3 if key.endswith("_ms") else value


def holds(must: Expectation, tick: TickRecord, config: Config) -> bool:
    """Return whether the command of a tick agrees with the required behaviour during the fault."""
    if must.during is Reaction.STANDS:
        return is_stop(tick)
    if must.during is Reaction.NOT_FORWARD:
        return tick.command.v_mps <= 0.0
    if must.during is Reaction.SLOWS:
        return tick.command.v_mps <= SLOW_FRACTION * config.limits.v_max_mps
    return True


def settled(must: Expectation, run: Run, config: Config) -> int | None:
    """Return the first tick after the onset, from 0, from which `holds` stays true to the end; else None."""
    first: int | None = None
    for number, tick in enumerate(run.during):
        if not holds(must, tick, config):
            first = None
        elif first is None:
            first = number
    return first


def stood(run: Run) -> str:
    """Return a reason if the robot stood at the onset, as such a run shows nothing; else ""."""
    began = [tick for tick in run.ticks if tick.slot.start_ns < run.onset_ns][-GRACE_TICKS:]
    return "" if any(not is_stop(tick) for tick in began) else "the robot stood when the fault began"


def problems(must: Expectation, run: Run, config: Config) -> list[Problem]:
    """Return all differences of a run from the required reaction."""
    found = [*_during(must, run, config), *_then(must, run, config)]
    checked = [Problem(check.__name__, wrong) for check in must.checks if (wrong := check(run, config))]
    return found + checked


def _during(must: Expectation, run: Run, config: Config) -> list[Problem]:
    during, within = run.during, must.within_ticks(config)
    if must.during is Reaction.DRIVES:
        return _drives(during)
    if must.then is Aftermath.LEAVES or must.during is Reaction.HOLDS:
        return []
    if len(during) <= within:
        return [Problem(SHORT, f"only {len(during)} ticks of the fault were run, it may take {within}")]
    first = settled(must, run, config)
    if first is None:
        return [Problem(HELD, f"never so: {must.during.value}")]
    late = f"it {must.during.value} from tick {first} on, must by tick {within}"
    found = [] if first <= within else [Problem(HELD, late)]
    shaped = during[max(first, must.reasons_from(config)) :]
    other = sorted({tick.reason for tick in shaped} - set(must.reasons))
    if must.reasons and other:
        found.append(Problem(HELD, f"it {must.during.value} for another reason: {', '.join(other)}"))
    return found


def _drives(during: Sequence[TickRecord]) -> list[Problem]:
    stopped = next((tick for tick in during if not driving(tick) and not tick.state.startswith("reached")), None)
    if stopped is not None:
        return [Problem(DRIVES_ON, f'it does not drive on: "{stopped.state}"')]
    half = during[len(during) // 2 :]
    if half and not half[-1].state.startswith("reached") and all(is_stop(tick) for tick in half):
        return [Problem(DRIVES_ON, f"it does not drive on: it stands ({half[-1].reason})")]
    return []


def _then(must: Expectation, run: Run, config: Config) -> list[Problem]:
    if must.then is Aftermath.LEAVES:
        return _left(run)
    if run.ended:
        return [Problem(ENDS, f"the run ended: {run.ended}")]
    after = run.after
    if must.then is Aftermath.STAYS:
        moved = next((tick for tick in after if not is_stop(tick)), None)
        last = (after or run.during)[-1]
        again = [] if moved is None else [f"it moves again in slot {moved.slot.number} without a new goal"]
        wrong = must.state and not last.state.startswith(must.state)
        return [Problem(ENDS, what) for what in ([*again, f'its state is "{last.state}"'] if wrong else again)]
    soon = after[: round(AGAIN_S * config.rates.control_hz)]
    idle = [tick for tick in soon if is_stop(tick) and not tick.state.startswith("reached")]
    if must.then is Aftermath.GOES_ON and soon and len(idle) == len(soon):
        return [Problem(GOES_ON, f'it does not continue: it stands ({soon[-1].reason}, "{soon[-1].state}")')]
    return []


def _left(run: Run) -> list[Problem]:
    if not run.ended:
        return [Problem(ENDS, "the run continues")]
    return [] if run.stopped_last else [Problem(ENDS, "the run ended without a stop")]


# ---- Checks of a whole run

STEP_SLACK_M = 0.6
"""A good fix after some seconds without fixes corrects the position by less. An injected jump is metres long."""
LATE_S = 0.3
SETTLED_S = 0.5


def place_stays(run: Run, config: Config) -> str:
    """Check that the estimated position does not jump between two ticks."""
    lived = [tick for tick in run.ticks if tick.slot.start_ns >= run.onset_ns and tick.filtered is not None]
    for before, now in itertools.pairwise(lived):
        if before.filtered is None or now.filtered is None:
            continue
        leapt_m = distance(before.filtered.pose, now.filtered.pose)
        if leapt_m > STEP_SLACK_M + MAX_SPEED_MPS * (now.slot.start_ns - before.slot.start_ns) / NS_PER_S:
            return f"its pose estimate jumps by {leapt_m:.2f} m in slot {now.slot.number}"
    return ""


def misses_counted(run: Run, config: Config) -> str:
    """Check that the runtime counted the missed slots and did not run them later in a burst."""
    during = run.during
    missed = sum(tick.slot.missed for tick in during)
    wanted = int(LATE_S * config.rates.control_hz) - GRACE_TICKS
    if missed < wanted:
        return f"{missed} slots were counted as missed, must be {wanted} at least"
    slots = [tick.slot.number for tick in during]
    return "" if len(set(slots)) == len(slots) else "a slot was run twice"


def no_contact(run: Run, config: Config) -> str:
    """Check that the robot had no contact; passes if contacts are unknown."""
    return f"{run.contacts} contacts" if run.contacts else ""


def mostly_stands(run: Run, config: Config) -> str:
    """Check that the robot stands in at least half of the ticks, from half a second after the onset."""
    during = run.during[round(SETTLED_S * config.rates.control_hz) :]
    standing = sum(is_stop(tick) for tick in during)
    return "" if 2 * standing >= len(during) else f"it stands in {standing} of {len(during)} ticks, must in half"


def slows_after_a_miss(run: Run, config: Config) -> str:
    """Check that the wanted speed is halved one decision after the first deadline miss.

    The check uses the wanted speed, because the limits may have slowed the robot before.
    """
    during, rates = run.during, config.rates
    due = rates.ticks_per_decision + rates.delay_ticks + GRACE_TICKS
    most = max((abs(tick.wanted.v_mps) for tick in during[:due]), default=0.0) / 2
    worst = max((abs(tick.wanted.v_mps) for tick in during[due + rates.ticks_per_decision :]), default=0.0)
    return f"{worst:.2f} m/s are wanted after a miss, must be {most:.2f} at most" if worst > most + ROUNDING else ""


def stands_in_between(run: Run, config: Config) -> str:
    """Check that a stale scan stops the robot in at least a fifth of the ticks, from half a second after the onset."""
    during = run.during[round(SETTLED_S * config.rates.control_hz) :]
    standing = sum(is_stop(tick) and tick.reason == "stale_scan" for tick in during)
    return "" if 5 * standing >= len(during) else f"it stands in {standing} of {len(during)} ticks, must in a fifth"


def late_operator_holds(run: Run, config: Config) -> str:
    """Check that late commands of an operator arrive, and that the runtime treats each as a stop.

    The operator of this fault never sends a stop, so any other command means that the runtime obeyed a late command.
    """
    dead_man_ns = round(config.limits.teleop_dead_man_s * NS_PER_S)
    known = [(tick.slot.start_ns, tick.inputs.teleop) for tick in run.during if tick.inputs.teleop is not None]
    in_force = [teleop for now_ns, teleop in known if now_ns - teleop.arrival_ns <= dead_man_ns]
    if not in_force:
        return "no late command of an operator holds the robot"
    obeyed = sum(teleop.twist != STOP for teleop in in_force)
    return (
        f"a late command of an operator is obeyed in {obeyed} of {len(in_force)} ticks, must in none" if obeyed else ""
    )


def goal_refused(run: Run, config: Config) -> str:
    """Check that the runtime refused a goal for its latency."""
    refused = any(row_of(tick.state) is reasons.GOAL_LATE for tick in run.during)
    return "" if refused else "no goal was refused for its age"
