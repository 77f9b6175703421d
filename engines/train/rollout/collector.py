"""Driving and labelling (DAgger): the student drives, the expert scores each action."""

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
from engines.train.rollout.expert import Knowledge, soft_targets
from engines.train.rollout.optimizer_step import Weights, put_weights
from engines.train.rollout.places import Building, PlacesSection, make_building
from engines.train.rollout.sequences import COMPASS, TARGETS, WEIGHT, Recorder, Run
from engines.train.rollout.student import Student
from engines.train.rollout.vector_env import DecisionRequest, FinishedDrive, Lane, LaneRules
from hil.drive.episode_sets import RESERVED_SEEDS
from hil.drive.setting import Setting
from onboard.config.toml_file import Fraction, Positive, Section
from onboard.values.errors import OnboardError

MOST_LANES, LONGEST_S = 10_000, 3600.0
Lasting = Annotated[float, Field(ge=1.0, le=LONGEST_S)]
"""Duration of a drive: long enough for a decision, at most an hour."""


class DrivingSection(Section):
    """How the student drives while it learns.

    lanes:          drives side by side
    buildings:      maps of one collector in a chapter, drawn by seed (None: all); each has furniture of its own
    decisions:      of each lane in a round
    most_run:       longest run of consecutive decisions for backpropagation
    memory_reset_s: period of the memory reset in training; None never resets (a robot follows its [policy])
    max_s, stuck_s: timeouts of a drive: in all, and without progress towards the goal
    knows:          the expert's knowledge of the building: the whole map, or only scans since the last reset
    news_s:         the expert stops at the goal only with a fix newer than this; None stops at once
    expert:         share of decisions that the expert drives, in spells of `expert_spell`; a little more (`_spells`)
    greedy:         share of drives with the student's best action; other drives sample the action
    temperature_s:  of the expert's soft targets: losing this time makes an action e times less likely
    """

    lanes: int = Field(32, ge=1, le=MOST_LANES)
    buildings: int | None = Field(None, ge=1)
    decisions: int = Field(48, ge=1)
    most_run: int = Field(48, ge=1)
    memory_reset_s: Annotated[float, Field(gt=0.0, le=LONGEST_S)] | None = 10.0
    max_s: Lasting = 60.0
    stuck_s: Lasting = 20.0
    knows: Knowledge = "seen"
    news_s: Positive | None = 1.5
    expert: Fraction = 0.15
    expert_spell: int = Field(8, ge=1)
    greedy: Fraction = 0.5
    temperature_s: Positive = 0.04


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of a collector. Raises ConfigError if domain or places do not fit the robot."""

    places: PlacesSection
    domain: DomainSection
    driving: DrivingSection
    colour: float
    robot: Setting

    def __post_init__(self) -> None:
        self.domain.check(self.robot.config.rates)
        self.places.check(self.robot.config.goal)

    def lanes(self, *, expert: bool = True) -> LaneRules:
        """Return the settings of every lane."""
        driving = self.driving
        times = (driving.memory_reset_s, driving.max_s, driving.stuck_s, driving.knows, driving.news_s)
        return LaneRules(self.places, self.domain, *times, self.colour, expert)


@dataclass(frozen=True, slots=True)
class CollectedRound:
    """Result of a round: runs to learn from, and counts of drives by their end."""

    runs: list[Run]
    decisions: int
    drives: int
    reached: int
    contacts: int


class Collector:
    """Lanes with one student, for one chapter. number: index of this collector among those of the training."""

    def __init__(
        self, rules: Rules, network: PolicyNetwork, seed: Sequence[int], number: int, device: torch.device
    ) -> None:
        driving = rules.driving
        lane_rules = rules.lanes()
        buildings = make_buildings(rules, [*seed, number] if number else seed, driving.buildings)
        streams = [np.random.default_rng([*seed, number, lane]) for lane in range(driving.lanes)]
        self._lanes = [Lane(lane_rules, buildings, rng) for rng in streams]
        self._rng = np.random.default_rng([*seed, number, driving.lanes])
        self._driving, self._network = driving, network
        self._student = Student(network, driving.lanes, device)
        self._recorders = [Recorder(driving.most_run) for _ in self._lanes]
        self._greedy = self._rng.random(driving.lanes) < driving.greedy
        self._spell = np.zeros(driving.lanes, np.int64)

    def collect(self, weights: Weights) -> CollectedRound:
        """Drive a round with weights by name; weights without a name stay."""
        put_weights(self._network, weights)
        ended: list[FinishedDrive] = []
        for _ in range(self._driving.decisions):
            requests = [lane.wait() for lane in self._lanes]
            ended += [request.ended for request in requests if request.ended is not None]
            self._decide(requests)
        return CollectedRound(
            runs=[run for recorder in self._recorders for run in recorder.take()],
            decisions=self._driving.decisions * len(self._lanes),
            drives=len(ended),
            reached=sum(one.outcome.reached for one in ended),
            contacts=sum(one.outcome.contacts for one in ended),
        )

    def _decide(self, requests: Sequence[DecisionRequest]) -> None:
        student, rows = self._student, self._student.rows(requests)
        student.refresh(requests)
        memories = [student.memory(lane) for lane in range(len(requests))]
        logits, _ = student.decide(rows)
        for lane, request in enumerate(requests):
            if request.scores is None:
                raise ValueError("the lanes of a collector have an expert")
            targets, weight = soft_targets(request.scores, self._driving.temperature_s)
            row = {
                **rows[lane],
                TARGETS: targets[None],
                WEIGHT: np.array([weight], np.float32),
                COMPASS: request.compass[None],
            }
            self._recorders[lane].add(row, request.fresh, memories[lane])
            if request.ended is not None:
                self._greedy[lane] = self._rng.random() < self._driving.greedy
            self._lanes[lane].answer(self._action(lane, logits[lane], request.scores))

    def _action(self, lane: int, logits: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> int:
        """Return the action: the expert's during a spell, else the student's, greedy or sampled."""
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
    """Return a sampled action and its log probability. An action with the logit -inf is never drawn.

    Raises OnboardError if the largest logit is not finite, thus also for NaN.
    """
    largest = float(logits.max())
    if not math.isfinite(largest):
        raise OnboardError(
            f"no action can be drawn: the largest logit of the policy that drives is {largest}: its weights are too "
            "large or damaged, or reinforce.temperature is too small; start from other weights, or raise it"
        )
    odds = np.exp(logits.astype(np.float64) - largest)
    probabilities = odds / odds.sum()
    action = int(rng.choice(len(odds), p=probabilities))
    return action, float(np.log(probabilities[action]))


def _spells(driving: DrivingSection) -> float:
    """Return the probability that a spell of the expert begins at a decision outside of a spell.

    With `expert` e and spells of n, the expert drives e / (1 - e / n) of all decisions, a little more than e.
    From e = n / (n + 1) on, the expert drives all decisions.
    """
    if driving.expert >= 1.0:
        return 1.0
    return min(1.0, driving.expert / ((1.0 - driving.expert) * driving.expert_spell))


def make_buildings(rules: Rules, seed: Sequence[int], most: int | None = None) -> list[Building]:
    """Return at most `most` of the maps, drawn by seed (None: every map), with furniture by seed. Raises InputError."""
    places = rules.places.maps
    furniture = list(zip(places, furniture_seeds(seed, len(places)), strict=True))
    if most is not None and most < len(places):
        chosen = np.random.default_rng([*seed, len(places)]).permutation(len(places))[:most]
        furniture = [furniture[int(index)] for index in sorted(chosen)]
    return [make_building(rules.places, place, number, rules.robot) for place, number in furniture]


def furniture_seeds(seed: Sequence[int], count: int) -> list[int]:
    """Return seeds of furniture; the seeds reserved for the evaluation never occur."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(2**31, size=count)
    while (reserved := np.isin(numbers, list(RESERVED_SEEDS))).any():
        numbers[reserved] = rng.integers(2**31, size=int(reserved.sum()))
    return [int(number) for number in numbers]


def plain_robot(rules: Rules) -> Rules:
    """Return the rules of validation: the configured robot, always greedy, never the expert."""
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
