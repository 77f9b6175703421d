"""The 1-D shuttle of paper 2: a point robot drives to two waypoints; "reality" has stretches of hard ground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from hil.physics.state_kernels.kernel_set import KernelArrays, effect
from hil.physics.state_kernels.state_table import Array
from hil.physics.state_kernels.transitions import Ints, Log
from hil.reality_gap.five_runs import Policy, RunResult
from onboard.config.toml_file import Finite, Fraction, NonNegative, Positive, PositiveFraction, Section
from onboard.values.kernel import kernel

Count = Annotated[int, Field(ge=1)]


class Mission(Section):
    """Two trips, each with a deadline."""

    length_m: Positive
    accuracy_m: Positive
    deadline_s: Positive
    reward: Positive
    missions: Count


class Controller(Section):
    """A spring: the velocity is `gain` times the action times the distance to go."""

    step_s: Positive
    gain: Positive
    actions: Annotated[list[Positive], Field(min_length=2)]
    explore: Fraction
    speed_noise: Fraction


class HardGround(Section):
    """Stretches at random places in which only a share of the velocity is left."""

    stretches: Count
    length_m: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    margin_m: NonNegative
    speed: PositiveFraction


class Sarsa(Section):
    """SARSA with one value a terrain, bin of the distance, and action."""

    missions: Count
    learning_rate: PositiveFraction
    discount: PositiveFraction
    distances_m: list[Finite]


class ShuttleSettings(Section):
    """`hil/reality_gap/shuttle.toml`."""

    mission: Mission
    controller: Controller
    hard_ground: HardGround
    sarsa: Sarsa


class Numbers(NamedTuple):
    """Settings for the compiled loop. steps: control steps up to the deadline; ground: (n, 2) stretches [m]."""

    length_m: float
    accuracy_m: float
    steps: int
    reward: float
    step_s: float
    gain: float
    actions: Array
    explore: float
    speed_noise: float
    ground: Array
    speed: float
    learning_rate: float
    discount: float
    edges_m: Array


@kernel
def _hard(x_m: float, ground: Array) -> float:
    for i in range(len(ground)):
        if ground[i, 0] <= x_m <= ground[i, 1]:
            return 1.0
    return 0.0


@kernel
def _chosen(values: Array, explore: float, rng: np.random.Generator) -> int:
    if rng.random() < explore:
        return int(rng.random() * len(values))
    return int(np.argmax(values))


@kernel
def _drive(
    missions: int, values: Array, learns: bool, numbers: Numbers, kernels: KernelArrays, rng: np.random.Generator
) -> tuple[Array, Array, Ints, Array, Array, Ints, int, int]:
    """Drive missions by the best action of `values`, (2, bins, actions), which learn by SARSA if `learns`.

    Return the reward of each mission; states, actions, rewards, nexts and missions of all transitions; their number;
    and the number of effects of kernels.
    """
    most = missions * 2 * numbers.steps
    states, nexts = np.empty((most, 3)), np.empty((most, 3))
    actions, runs, rewards = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    total = np.zeros(missions)
    count, effects = 0, 0
    for mission in range(missions):
        rate = numbers.learning_rate * (1.0 - mission / missions)
        x = rng.random() * numbers.length_m
        terrain = _hard(x, numbers.ground)
        for way in range(2):
            target = numbers.length_m * way
            place = np.searchsorted(numbers.edges_m, abs(target - x))
            action = _chosen(values[int(terrain), place], numbers.explore, rng)
            arrived = False
            for step in range(numbers.steps):
                state, following = states[count], nexts[count]
                state[0], state[1], state[2] = x, way, terrain
                velocity = numbers.gain * numbers.actions[action] * (target - x)
                velocity *= 1.0 + numbers.speed_noise * (2.0 * rng.random() - 1.0)
                if _hard(x, numbers.ground) > 0.0:
                    velocity *= numbers.speed
                following[0] = x + numbers.step_s * velocity
                following[1] = way
                following[2] = _hard(following[0], numbers.ground)
                if len(kernels.centers) > 0 and effect(state, action, kernels, rng.random(), following) >= 0:
                    effects += 1
                x, terrain = following[0], following[2]
                arrived = abs(target - x) <= numbers.accuracy_m
                late = not arrived and step == numbers.steps - 1
                reward = numbers.reward if arrived else -numbers.reward if late else 0.0
                if arrived:
                    following[1] = way + 1
                before, at, done = int(state[2]), place, action
                place = np.searchsorted(numbers.edges_m, abs(target - x))
                action = _chosen(values[int(terrain), place], numbers.explore, rng)
                if learns:
                    ahead = 0.0 if arrived or late else values[int(terrain), place, action]
                    error = reward + numbers.discount * ahead - values[before, at, done]
                    values[before, at, done] += rate * error
                actions[count], rewards[count], runs[count] = done, reward, mission
                total[mission] += reward
                count += 1
                if arrived:
                    break
            if not arrived:
                break
    return total, states, actions, rewards, nexts, runs, count, effects


class Shuttle:
    """The shuttle of one seed: its own hard ground. A policy is an array of action values, (2, bins, actions)."""

    name = "1d"
    kernels_file = Path(__file__).with_name("shuttle_kernels.toml")

    def __init__(self, settings: ShuttleSettings, seed: int) -> None:
        self._settings = settings
        mission, controller, sarsa = settings.mission, settings.controller, settings.sarsa
        self.ground = _ground(settings, np.random.default_rng((seed, 0)))
        self._numbers = Numbers(
            mission.length_m, mission.accuracy_m, round(mission.deadline_s / controller.step_s), mission.reward,
            controller.step_s, controller.gain, np.array(controller.actions), controller.explore,
            controller.speed_noise, np.zeros((0, 2)), settings.hard_ground.speed, sarsa.learning_rate, sarsa.discount,
            np.array(sarsa.distances_m),
        )  # fmt: skip

    @property
    def design(self) -> Policy:
        """The designed controller: action 0 everywhere."""
        values = np.zeros((2, len(self._settings.sarsa.distances_m) + 1, len(self._settings.controller.actions)))
        values[:, :, 0] = 1.0
        return values

    def drive(self, policy: Policy, real: bool, kernels: KernelArrays, rng: np.random.Generator) -> RunResult:
        """Drive the missions. real: on the hard ground"""
        return self._run(self._settings.mission.missions, policy, False, real, kernels, rng)

    def redesign(self, kernels: KernelArrays, rng: np.random.Generator) -> tuple[Policy, Array]:
        """Learn by SARSA in the simulator under kernels. Return the policy, and the reward of each mission."""
        values = 1e-3 * self.design
        driven = self._run(self._settings.sarsa.missions, values, True, False, kernels, rng)
        return values, driven.rewards

    def _run(
        self, missions: int, values: Array, learns: bool, real: bool, kernels: KernelArrays, rng: np.random.Generator
    ) -> RunResult:
        numbers = self._numbers._replace(ground=self.ground) if real else self._numbers
        total, states, actions, rewards, nexts, runs, n, effects = _drive(
            missions, values, learns, numbers, kernels, rng
        )
        return RunResult(total, Log(states[:n], actions[:n], rewards[:n], nexts[:n], runs[:n]), effects)


def _ground(settings: ShuttleSettings, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return (n, 2) stretches of hard ground, begin and end [m]; they may overlap."""
    hard, mission = settings.hard_ground, settings.mission
    lengths = rng.uniform(hard.length_m[0], hard.length_m[1], hard.stretches)
    begins = rng.uniform(hard.margin_m, mission.length_m - hard.margin_m - lengths)
    return np.stack([begins, begins + lengths], axis=1)
