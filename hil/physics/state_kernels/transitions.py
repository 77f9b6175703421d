"""The log H = {(s, a, r, s')} of a simulator or a robot, its states merged by distance, and P(s'|s) by counting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.physics.state_kernels.state_table import Array, StateTable
from onboard.values.errors import InputError
from onboard.values.kernel import kernel

Ints = npt.NDArray[np.int64]
TURN = 2.0 * math.pi


@dataclass(frozen=True, slots=True)
class Log:
    """Transitions in the order of time, run after run.

    states, nexts: (n, d) state before and after; actions: (n,) action; rewards: (n,) of the performance monitor
    runs:          (n,) number of the run (a mission, a recording)
    """

    states: Array
    actions: Ints
    rewards: Array
    nexts: Array
    runs: Ints

    def __len__(self) -> int:
        return len(self.states)


def joined(logs: Sequence[Log]) -> Log:
    """Return logs as one; their runs stay apart."""
    firsts = np.cumsum([0, *(int(log.runs.max(initial=-1)) + 1 for log in logs)])
    runs = [log.runs + first for log, first in zip(logs, firsts, strict=False)]
    parts = [[log.states, log.actions, log.rewards, log.nexts] for log in logs]
    states, actions, rewards, nexts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Log(states, actions, rewards, nexts, np.concatenate(runs))


def check_log(log: Log, table: StateTable, name: str) -> None:
    """Raise InputError if a log is empty, or holds a value that is not finite or an unknown action.

    name: file or run that the message names
    """
    if len(log) == 0:
        raise InputError(f"{name}: no transitions: a run must hold two states, {table.period_s:g} s apart")
    for states in (log.states, log.nexts):
        for row, column in np.argwhere(~np.isfinite(states))[:1]:
            raise InputError(
                f"{name}: transition {row}: {table.names[column]} is {states[row, column]}, must be finite"
            )
    count = table.action_count
    wrong = np.flatnonzero((log.actions < 0) | (log.actions >= count))
    if len(wrong):
        raise InputError(f"{name}: transition {wrong[0]}: action {log.actions[wrong[0]]}, must be 0 to {count - 1}")


@kernel
def difference(s: Array, other: Array, circular: npt.NDArray[np.bool_], out: Array) -> None:
    """Put s - other into `out`, (d,); of an angle, the turn of at most half a circle."""
    for i in range(len(s)):
        away = s[i] - other[i]
        out[i] = away - TURN * np.round(away / TURN) if circular[i] else away


@kernel
def state_distance(s: Array, other: Array, weights: Array, circular: npt.NDArray[np.bool_]) -> float:
    """Return c(s, s') = sum_i w_i |s_i - s'_i| (paper 2)."""
    c = 0.0
    for i in range(len(s)):
        away = s[i] - other[i]
        if circular[i]:
            away -= TURN * np.round(away / TURN)
        c += weights[i] * abs(away)
    return c


def distances(s: Array, others: Array, table: StateTable) -> Array:
    """Return (n,) the distances c of one state to others, (n, d): the plain definition of `state_distance`."""
    away = others - s
    turned = away - TURN * np.round(away / TURN)
    return np.asarray(np.abs(np.where(table.circular, turned, away)) @ table.weights)


@kernel
def _merged(states: Array, weights: Array, circular: npt.NDArray[np.bool_], eps_c: float) -> tuple[Ints, Ints, int]:
    """Return (n,) the number of each state, (n,) the row of each number, and the count of numbers.

    All leaders are found first. So equal states have equal numbers, whichever log they are in.
    """
    numbers = np.empty(len(states), np.int64)
    leaders = np.empty(len(states), np.int64)
    count = 0
    for row in range(len(states)):
        led = False
        for number in range(count):
            if state_distance(states[row], states[leaders[number]], weights, circular) <= eps_c:
                led = True
                break
        if not led:
            leaders[count] = row
            count += 1
    for row in range(len(states)):
        least = np.inf
        for number in range(count):
            c = state_distance(states[row], states[leaders[number]], weights, circular)
            if c < least:
                numbers[row], least = number, c
    return numbers, leaders, count


@dataclass(frozen=True, slots=True)
class Counted:
    """A log as counts: P(s'|s), the policy folded in.

    log:          the log
    before, after: (n,) number of the merged state before and after each transition
    """

    log: Log
    before: Ints
    after: Ints
    _order: Ints
    _first: Ints

    def rows(self, state: int) -> Ints:
        """Return the transitions that begin in a merged state."""
        return self._order[self._first[state] : self._first[state + 1]]

    def probability(self, state: int, following: int) -> float:
        """Return P(s'|s) of two merged states, 0 for a state that the log does not hold."""
        after = self.after[self.rows(state)]
        return float(np.mean(after == following)) if len(after) else 0.0


def _counted(log: Log, before: Ints, after: Ints, count: int) -> Counted:
    order = np.argsort(before, kind="stable")
    first = np.searchsorted(before[order], np.arange(count + 1))
    return Counted(log, before, after, order, first)


@dataclass(frozen=True, slots=True)
class MergedLogs:
    """Both logs over the same merged states. states: (m, d) each merged state, by its first sample."""

    states: Array
    simulated: Counted
    physical: Counted

    @property
    def common(self) -> Ints:
        """Numbers of the states in which both logs have a transition."""
        return np.intersect1d(self.simulated.before, self.physical.before)


def merge(simulated: Log, physical: Log, table: StateTable) -> MergedLogs:
    """Return both logs over the same states: a state belongs to the nearest leader within eps_c.

    A leader is a state that no earlier leader is that near to.


    Raises InputError without common states; it names the dimension in which the nearest states differ most.
    """
    parts = (simulated.states, simulated.nexts, physical.states, physical.nexts)
    every = np.ascontiguousarray(np.concatenate(parts))
    numbers, leaders, count = _merged(every, table.weights, table.circular, table.eps_c)
    ends = np.cumsum([len(part) for part in parts])
    sim, sim_next, real, real_next, _ = np.split(numbers, ends)
    merged = MergedLogs(
        every[leaders[:count]], _counted(simulated, sim, sim_next, count), _counted(physical, real, real_next, count)
    )
    if len(merged.common) == 0:
        raise InputError(_nothing_common(simulated.states, physical.states, table))
    return merged


def _nothing_common(simulated: Array, physical: Array, table: StateTable) -> str:
    """Return what keeps the nearest two states of both logs apart."""
    nearest = min(
        ((float(away.min()), row, int(away.argmin())) for row in range(len(physical))
         for away in [distances(physical[row], simulated, table)]),
    )  # fmt: skip
    c, row, other = nearest
    away = np.zeros(len(table.names))
    difference(physical[row], simulated[other], table.circular, away)
    most = int(np.argmax(table.weights * np.abs(away)))
    return (
        f"the runs have no common state: the nearest two are {c:.4g} apart, eps_c is {table.eps_c:g}; they differ most "
        f"in {table.names[most]} (simulated {simulated[other, most]:.4g}, real {physical[row, most]:.4g})"
    )
