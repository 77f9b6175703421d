"""Driving and labelling: the student drives, the expert says what it would have done (DAgger)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from engines.network.network import PolicyNetwork
from engines.train.rollout.domain_randomization import DomainSection
from engines.train.rollout.expert import Knows, soft_targets
from engines.train.rollout.optimizer_step import Weights, put_weights
from engines.train.rollout.places import Building, PlacesSection, make_building
from engines.train.rollout.sequences import COMPASS, TARGETS, WEIGHT, Recorder, Run
from engines.train.rollout.student import Student
from engines.train.rollout.vector_env import Ended, Glimpse, Lane, LaneRules
from hil.drive.episode_sets import RESERVED_SEEDS
from hil.drive.setting import Setting
from onboard.config.toml_file import Fraction, Positive, Section
from onboard.values.errors import OnboardError

MOST_LANES, LONGEST_S = 10_000, 3600.0
Lasting = Annotated[float, Field(ge=1.0, le=LONGEST_S)]
"""Of a drive: time for a decision, and no more than an hour."""


class DrivingSection(Section):
    """How the student drives while it learns.

    lanes:          drives side by side
    decisions:      of each lane in a round
    most_run:       decisions in a row that are learned from together
    memory_reset_s: how often the memory is reset in training; none never does (a robot resets as its [policy] says)
    max_s, stuck_s: a drive is ended after so long, and when it has come no nearer to its goal for so long
    knows:          what the expert knows of the building: all its map, or what it has seen as the student has
    news_s:         the expert stops for good only with a fix newer than this; none stops at once
    expert:         share of decisions that the expert drives, in spells of `expert_spell`; a little more (`_spells`)
    greedy:         share of drives in which the student takes its best action; in the others it draws one
    temperature_s:  of the expert's soft targets: so many seconds lost are e times less likely
    """

    lanes: int = Field(32, ge=1, le=MOST_LANES)
    decisions: int = Field(48, ge=1)
    most_run: int = Field(48, ge=1)
    memory_reset_s: Annotated[float, Field(gt=0.0, le=LONGEST_S)] | None = 10.0
    max_s: Lasting = 60.0
    stuck_s: Lasting = 20.0
    knows: Knows = "seen"
    news_s: Positive | None = 1.5
    expert: Fraction = 0.15
    expert_spell: int = Field(8, ge=1)
    greedy: Fraction = 0.5
    temperature_s: Positive = 0.04


@dataclass(frozen=True, slots=True)
class Rules:
    """All that a collector needs to know. Raises ConfigError where domain or places do not fit the robot."""

    places: PlacesSection
    domain: DomainSection
    driving: DrivingSection
    colour: float
    robot: Setting

    def __post_init__(self) -> None:
        self.domain.check(self.robot.config.rates)
        self.places.check(self.robot.config.goal)

    def lanes(self, *, expert: bool = True) -> LaneRules:
        """Return what every lane must know."""
        driving = self.driving
        times = (driving.memory_reset_s, driving.max_s, driving.stuck_s, driving.knows, driving.news_s)
        return LaneRules(self.places, self.domain, *times, self.colour, expert)


@dataclass(frozen=True, slots=True)
class Round:
    """What came of a round: runs to learn from, and how many drives ended how."""

    runs: list[Run]
    decisions: int
    drives: int
    reached: int
    contacts: int


class Collector:
    """Lanes with one student, for one chapter of the training. `number` tells collectors of one training apart."""

    def __init__(
        self, rules: Rules, network: PolicyNetwork, seed: Sequence[int], number: int, device: torch.device
    ) -> None:
        driving = rules.driving
        lane_rules = rules.lanes()
        buildings = make_buildings(rules, seed)
        streams = [np.random.default_rng([*seed, number, lane]) for lane in range(driving.lanes)]
        self._lanes = [Lane(lane_rules, buildings, rng) for rng in streams]
        self._rng = np.random.default_rng([*seed, number, driving.lanes])
        self._driving, self._network = driving, network
        self._student = Student(network, driving.lanes, device)
        self._recorders = [Recorder(driving.most_run) for _ in self._lanes]
        self._greedy = self._rng.random(driving.lanes) < driving.greedy
        self._spell = np.zeros(driving.lanes, np.int64)

    def collect(self, weights: Weights) -> Round:
        """Drive a round with some weights, by name; those that are not named stay as they are."""
        put_weights(self._network, weights)
        ended: list[Ended] = []
        for _ in range(self._driving.decisions):
            glimpses = [lane.wait() for lane in self._lanes]
            ended += [glimpse.ended for glimpse in glimpses if glimpse.ended is not None]
            self._decide(glimpses)
        return Round(
            runs=[run for recorder in self._recorders for run in recorder.take()],
            decisions=self._driving.decisions * len(self._lanes),
            drives=len(ended),
            reached=sum(one.outcome.reached for one in ended),
            contacts=sum(one.outcome.contacts for one in ended),
        )

    def _decide(self, glimpses: Sequence[Glimpse]) -> None:
        student, rows = self._student, self._student.rows(glimpses)
        student.refresh(glimpses)
        memories = [student.memory(lane) for lane in range(len(glimpses))]
        logits, _ = student.decide(rows)
        for lane, glimpse in enumerate(glimpses):
            if glimpse.scores is None:
                raise ValueError("the lanes of a collector have an expert")
            targets, weight = soft_targets(glimpse.scores, self._driving.temperature_s)
            row = {
                **rows[lane],
                TARGETS: targets[None],
                WEIGHT: np.array([weight], np.float32),
                COMPASS: glimpse.compass[None],
            }
            self._recorders[lane].add(row, glimpse.fresh, memories[lane])
            if glimpse.ended is not None:
                self._greedy[lane] = self._rng.random() < self._driving.greedy
            self._lanes[lane].answer(self._action(lane, logits[lane], glimpse.scores))

    def _action(self, lane: int, logits: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> int:
        """Return who decides: the expert for a spell now and then, else the student, greedy or by chance."""
        driving, rng = self._driving, self._rng
        if self._spell[lane] == 0 and rng.random() < _spells(driving):
            self._spell[lane] = driving.expert_spell
        if self._spell[lane] > 0:
            self._spell[lane] -= 1
            return int(np.argmax(scores))
        if self._greedy[lane]:
            return int(np.argmax(logits))
        return drawn(logits, rng)[0]


def drawn(logits: npt.NDArray[np.float32], rng: np.random.Generator) -> tuple[int, float]:
    """Return an action drawn by its probability, and the logarithm of that; one with the logit -inf is never drawn.

    Raises OnboardError where the largest logit is not finite, which it is not either where any is no number.
    """
    largest = float(logits.max())
    if not math.isfinite(largest):
        raise OnboardError(
            f"no action can be drawn: the largest logit of the policy that drives is {largest}: its weights are too "
            "large or damaged, or reinforce.temperature is too small; begin with other ones, or raise it"
        )
    odds = np.exp(logits.astype(np.float64) - largest)
    probabilities = odds / odds.sum()
    action = int(rng.choice(len(odds), p=probabilities))
    return action, float(np.log(probabilities[action]))


def _spells(driving: DrivingSection) -> float:
    """Return how likely a spell of the expert begins with a decision that is in none, 1 where it always drives.

    With `expert` e and spells of n it drives e / (1 - e / n) of all decisions, a little more than e, and all of them
    from e = n / (n + 1) on: in spells of 8 they are 0.153 for 0.15, 0.533 for 0.5, 1 for 0.9.
    """
    if driving.expert >= 1.0:
        return 1.0
    return min(1.0, driving.expert / ((1.0 - driving.expert) * driving.expert_spell))


def make_buildings(rules: Rules, seed: Sequence[int]) -> list[Building]:
    """Return every map with furniture by seed. Raises InputError."""
    furniture = furniture_seeds(seed, len(rules.places.maps))
    return [
        make_building(rules.places, place, number, rules.robot)
        for place, number in zip(rules.places.maps, furniture, strict=True)
    ]


def furniture_seeds(seed: Sequence[int], count: int) -> list[int]:
    """Return seeds of furniture, none of them one of those that the evaluation keeps to itself."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(2**31, size=count)
    while (reserved := np.isin(numbers, list(RESERVED_SEEDS))).any():
        numbers[reserved] = rng.integers(2**31, size=int(reserved.sum()))
    return [int(number) for number in numbers]


def plain_robot(rules: Rules) -> Rules:
    """Return the rules for looking how good the student is: the configured robot, always greedy, never the expert."""
    domain = DomainSection(
        plant_spread=0.0, delay_ticks=_delay(rules), drift_scale=(1.0, 1.0), drift_paper=1.0, no_localization=0.0,
        often_localized=0.0, late_localization=0.0, camera_gone=0.0, scan_noise=0.0, scan_holes=0.0, pedestrians=0.0,
        limits=1.0,
    )  # fmt: skip
    driving = rules.driving.model_copy(update={"expert": 0.0, "greedy": 1.0})
    return replace(rules, domain=domain, driving=driving)


def _delay(rules: Rules) -> tuple[int, int]:
    ticks = rules.robot.config.rates.delay_ticks
    return ticks, ticks
