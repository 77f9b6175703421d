"""GenKer of paper 2: roll out both logs from common states, and make a kernel where they first diverge."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hil.physics.state_kernels.kernel_set import KernelSet, no_kernels
from hil.physics.state_kernels.state_table import Array, StateTable
from hil.physics.state_kernels.transitions import TURN, Counted, Ints, Log, MergedLogs, check_log, merge
from onboard.values.errors import InputError

SHUFFLES = 1999
"""Draws of the test of a divergence; its least probability is one of 2000."""
LEAST_SINGULAR = 1e-3
"""Directions with a smaller share of the spread of the fitted states get no slope."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Kernels and the figures of their generation.

    transitions: of the simulated and of the physical log
    states:      number of merged states; common: of those, in both logs
    divergences: number of roll-outs that diverged; dropped: unique divergences without enough data for a map
    """

    kernels: KernelSet
    transitions: tuple[int, int]
    states: int
    common: int
    divergences: int
    dropped: int

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "transitions": {"simulated": self.transitions[0], "real": self.transitions[1]},
            "states": self.states,
            "common_states": self.common,
            "divergences": self.divergences,
            "dropped": self.dropped,
            "kernels": len(self.kernels),
            "physical_probability": self.kernels.arrays.physical.tolist(),
        }


def generate(simulated: Log, physical: Log, table: StateTable) -> GenerationResult:
    """Return the kernels of two logs. Raises InputError for bad logs, and if no roll-out yields a kernel."""
    check_log(simulated, table, "the simulated runs")
    check_log(physical, table, "the real runs")
    merged = merge(simulated, physical, table)
    common = merged.common
    rng = np.random.default_rng(table.seed)
    found: dict[int, float] = {}
    divergences = 0
    differs = functools.cache(lambda state: table.significance == 1.0 or chance(merged, state) <= table.significance)
    for start in rng.choice(common, table.rollouts):
        diverged = roll_out(merged, int(start), table, rng, differs)
        if diverged is not None:
            divergences += 1
            found.setdefault(*diverged)
    if not found:
        raise InputError(
            f"rollouts: none of {table.rollouts} roll-outs from {len(common)} common states diverged: the simulator "
            "agrees with the real runs; otherwise raise rollouts or significance, or lower least_difference and eps_c"
        )
    fitted = [(state, physical_p, *fit(merged, state, table)) for state, physical_p in found.items()]
    kept = [(state, p, known, maps) for state, p, known, maps in fitted if known.any()]
    if not kept:
        raise InputError(
            f"least_rows: none of {len(found)} divergences has {table.least_rows} transitions of one action for its "
            "map; record more runs or lower least_rows"
        )
    arrays = no_kernels(table)._replace(
        centers=merged.states[[state for state, *_ in kept]],
        physical=np.array([p for _, p, *_ in kept]),
        known=np.stack([known for *_, known, _ in kept]),
        maps=np.stack([maps for *_, maps in kept]),
    )
    lengths = (len(simulated), len(physical))
    return GenerationResult(
        KernelSet(table, arrays), lengths, len(merged.states), len(common), divergences, len(found) - len(kept)
    )


def chance(merged: MergedLogs, state: int) -> float:
    """Return the probability that the counts of a state's next states differ so by chance, if both logs are alike.

    A permutation test of homogeneity by the chi-squared statistic: exact for small counts up to its `SHUFFLES` draws.
    """
    parts = [one.after[one.rows(state)] for one in (merged.simulated, merged.physical)]
    _, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    counts = np.bincount(numbers)
    drawn_of = len(parts[1])
    expected = counts * drawn_of / len(numbers)
    rng = np.random.default_rng(state)
    drawn = np.vstack([
        np.bincount(numbers[len(parts[0]) :], minlength=len(counts)),
        rng.multivariate_hypergeometric(counts, drawn_of, SHUFFLES),
    ])  # fmt: skip
    statistic = ((drawn - expected) ** 2 / counts).sum(axis=1)
    return float(np.mean(statistic >= statistic[0] - 1e-9))


def roll_out(
    merged: MergedLogs, state: int, table: StateTable, rng: np.random.Generator, differs: Callable[[int], bool]
) -> tuple[int, float] | None:
    """Return the first divergence of a roll-out in both logs: the merged state before it, and p_p. None without one.

    differs: whether both logs differ in a state by more than chance
    Each step draws an item of both logs. The branches diverge if their states differ, and if the probability of the
    physical branch differs by more than `least_difference`. Otherwise the roll-out follows the physical branch. p_s
    and p_p are how often the physical log takes the simulated and the physical branch, normalised.
    """
    simulated, physical = merged.simulated, merged.physical
    for _ in range(table.length):
        sims, reals = simulated.rows(state), physical.rows(state)
        if len(sims) == 0 or len(reals) == 0:
            return None
        sim = int(simulated.after[rng.choice(sims)])
        real = int(physical.after[rng.choice(reals)])
        if sim != real:
            p_p = physical.probability(state, real)
            if abs(p_p - simulated.probability(state, real)) > table.least_difference and differs(state):
                return state, p_p / (p_p + physical.probability(state, sim))
        state = real
    return None


def fit(merged: MergedLogs, state: int, table: StateTable) -> tuple[np.ndarray, Array]:
    """Return the transfer function of a kernel: (actions,) whether an action has a map, (actions, d, d + 1) the maps.

    Least squares over the physical transitions from the state and the next ones of the same run, `run` in all.
    """
    physical, d = merged.physical, len(table.names)
    rows = _with_successors(physical, physical.rows(state), table.run)
    log, center = physical.log, merged.states[state]
    known, maps = np.zeros(table.action_count, np.bool_), np.zeros((table.action_count, d, d + 1))
    for action in range(table.action_count):
        chosen = rows[log.actions[rows] == action]
        if len(chosen) < table.least_rows:
            continue
        away = _difference(log.states[chosen], center, table)
        increment = _difference(log.nexts[chosen], log.states[chosen], table)
        made = np.where(table.readings, log.nexts[chosen], increment)
        scale = np.where(table.weights > 0.0, table.weights, 1.0)
        mean, mean_made = away.mean(axis=0), made.mean(axis=0)
        slope, *_ = np.linalg.lstsq((away - mean) * scale, made - mean_made, rcond=LEAST_SINGULAR)
        maps[action, :, :d] = slope.T * scale
        maps[action, :, d] = mean_made - maps[action, :, :d] @ mean
        known[action] = True
    return known, maps


def _with_successors(counted: Counted, rows: Ints, run: int) -> Ints:
    """Return transitions and the next ones of the same run, each once."""
    runs = counted.log.runs
    following = rows[:, None] + np.arange(run)
    inside = np.minimum(following, len(runs) - 1)
    same = (following < len(runs)) & (runs[inside] == runs[rows][:, None])
    return np.unique(following[same])


def _difference(states: Array, others: Array, table: StateTable) -> Array:
    away = states - others
    return np.asarray(np.where(table.circular, away - TURN * np.round(away / TURN), away))
