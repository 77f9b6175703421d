"""The five runs of paper 2 for one seed: Design, Deploy, Kernels, Redesign under kernels, Redeploy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hil.physics.state_kernels.generate import generate
from hil.physics.state_kernels.kernel_set import KernelArrays, no_kernels
from hil.physics.state_kernels.state_table import Array, StateTable
from hil.physics.state_kernels.transitions import Log
from onboard.values.errors import InputError

RUNS = ("design", "deploy", "kernels", "redesign_kernels", "redeploy")
CURVE_POINTS = 50
WAYS = ("tested", "paper")
"""By a test of the counts, as the state table states; by frequencies alone, as in paper 2."""

Policy = npt.NDArray[Any]
"""What an experiment's controller looks its actions up in."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Missions of one run. rewards: (missions,) total of each mission; effects: states that kernels have set."""

    rewards: Array
    log: Log
    effects: int

    @property
    def atr(self) -> float:
        """Average total reward: sum of the rewards over the number of missions."""
        return float(self.rewards.mean())


class Experiment(Protocol):
    """A robot in its simulator and in its reality, with what one seed draws."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def kernels_file(self) -> Path:
        """State table of its kernels."""

    @property
    def design(self) -> Policy:
        """The designed policy."""

    def drive(self, policy: Policy, real: bool, kernels: KernelArrays, rng: np.random.Generator) -> RunResult:
        """Drive all missions."""

    def redesign(self, kernels: KernelArrays, rng: np.random.Generator) -> tuple[Policy, Array]:
        """Return a better policy for the simulator under kernels, and its learning curve: rewards, may be empty."""


@dataclass(frozen=True, slots=True)
class FiveRuns:
    """Results of one seed.

    atr:         average total reward of each of `RUNS`
    transitions: of the simulated and of the real log
    curves:      average total reward after a growing share of the missions, (`CURVE_POINTS`,); "learning" is the
                 reward of missions while the redesign learns
    effects:     states that the kernels have set in the run Kernels
    by_way:      by way of judging a divergence (`WAYS`), then "gap" or "control": kernels of the real log, and of a
                 second log of the simulator in its place
    """

    seed: int
    atr: dict[str, float]
    transitions: tuple[int, int]
    states: int
    common: int
    divergences: int
    kernels: int
    effects: int
    curves: dict[str, Array]
    by_way: dict[str, dict[str, Found]]


@dataclass(frozen=True, slots=True)
class Found:
    """Kernels of two logs. atr: of the design in the simulator under these kernels"""

    divergences: int
    kernels: int
    atr: float


def five_runs(experiment: Experiment, table: StateTable, seed: int) -> FiveRuns:
    """Return the five runs of a seed. Raises InputError if the logs yield no kernel."""

    def rng(number: int) -> np.random.Generator:
        return np.random.default_rng((seed, number))

    none = no_kernels(table)
    design = experiment.drive(experiment.design, False, none, rng(1))
    deploy = experiment.drive(experiment.design, True, none, rng(2))
    made = generate(design.log, deploy.log, table.model_copy(update={"seed": seed}))
    kernels = made.kernels.arrays
    under = experiment.drive(experiment.design, False, kernels, rng(3))
    policy, learning = experiment.redesign(kernels, rng(4))
    redesigned = experiment.drive(policy, False, kernels, rng(5))
    redeployed = experiment.drive(policy, True, none, rng(6))
    runs = dict(zip(RUNS, (design, deploy, under, redesigned, redeployed), strict=True))
    again = experiment.drive(experiment.design, False, none, rng(7))
    by_way = {
        way: {name: _found(experiment, one, seed, design, log) for name, log in (("gap", deploy), ("control", again))}
        for way, one in zip(WAYS, (table, table.model_copy(update={"significance": 1.0})), strict=True)
    }
    curves = {name: _growing(run.rewards) for name, run in runs.items()}
    if len(learning):
        curves["learning"] = np.array([part.mean() for part in np.array_split(learning, CURVE_POINTS)])
    return FiveRuns(
        seed, {name: run.atr for name, run in runs.items()}, made.transitions, made.states, made.common,
        made.divergences, len(made.kernels), under.effects, curves, by_way,
    )  # fmt: skip


def _found(experiment: Experiment, table: StateTable, seed: int, design: RunResult, other: RunResult) -> Found:
    try:
        made = generate(design.log, other.log, table.model_copy(update={"seed": seed}))
    except InputError:  # nothing diverged, or too seldom for a map
        return Found(0, 0, design.atr)
    under = experiment.drive(experiment.design, False, made.kernels.arrays, np.random.default_rng((seed, 8)))
    return Found(made.divergences, len(made.kernels), under.atr)


def _growing(rewards: Array) -> Array:
    ends = np.linspace(0, len(rewards), CURVE_POINTS + 1)[1:].astype(int)
    return np.asarray((np.cumsum(rewards)[ends - 1]) / ends)
