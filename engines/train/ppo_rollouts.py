"""Driving for the reinforcement: every action is drawn by its probability, and what it earned is written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from engines.network.network import PolicyNetwork
from engines.train.ppo_config import ReinforceSection, RewardSection
from engines.train.rollout.collector import Rules, drawn, make_buildings
from engines.train.rollout.optimizer_step import Weights, put_weights
from engines.train.rollout.sequences import COMPASS, SMALL, Recorder, Run
from engines.train.rollout.student import Student
from engines.train.rollout.vector_env import Glimpse, Lane, Tensors

# ---- What a decision earned, and how much better it was than expected. Pure functions of numbers

Floats = npt.NDArray[np.float64]


class Standing(NamedTuple):
    """How a drive stands. geodesic_m: length of the way left, inf where none was ever known; contacts: so far."""

    geodesic_m: float
    contacts: int


def standing(geodesic_m: float, contacts: int, before: Standing | None = None) -> Standing:
    """Return how a drive stands; where no way is known from, the way left is the last one known."""
    if not math.isfinite(geodesic_m) and before is not None:
        geodesic_m = before.geodesic_m
    return Standing(geodesic_m, contacts)


def reward(section: RewardSection, before: Standing, after: Standing, reached: bool) -> float:
    """Return what was earned between two decisions, or between the last one and the end of the drive."""
    gained_m = before.geodesic_m - after.geodesic_m if math.isfinite(before.geodesic_m) else 0.0
    touched = after.contacts - before.contacts
    return section.success * reached + gained_m - section.step - section.contact * touched


def advantages(rewards: Floats, values: Floats, last: npt.NDArray[np.bool_], discount: float, trace: float) -> Floats:
    """Return (T,) generalised advantage estimates (Schulman et al., 2016) of decisions in a row in one lane.

    rewards: (T,); values: (T + 1,) what was expected at each decision and at the one after them
    last:    (T,) whether a decision was the last of its drive: nothing of the next drive counts for it
    """
    found, coming = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        goes_on = 0.0 if last[t] else discount
        surprise = rewards[t] + goes_on * values[t + 1] - values[t]
        coming = surprise + goes_on * trace * coming
        found[t] = coming
    return found


Floats32 = npt.NDArray[np.float32]

ACTION, LOG_PROBABILITY, REFERENCE = "action", "log_probability", "reference"
ADVANTAGE, RETURN = "advantage", "return"
"""What is learned from, beside the tensors. REFERENCE: logits over the temperature, of the policy at the start."""


class Decided(NamedTuple):
    """A decision. row: tensors by name, (1, ...); memory: (layers, width) before it; value: what it expected."""

    row: Tensors
    fresh: bool
    memory: Floats32
    value: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """What came of a round: runs to learn from, and how many drives ended how. reward: the mean of a decision."""

    runs: list[Run]
    decisions: int
    reward: float
    drives: int
    reached: int
    false_stops: int
    contacts: int


@dataclass(slots=True)
class Tape:
    """One lane's decisions with what they earned. The last one waits for the next glimpse to know what it earned."""

    section: ReinforceSection
    most_run: int
    _decided: list[Decided] = field(default_factory=list)
    _rewards: list[float] = field(default_factory=list)
    _last: list[bool] = field(default_factory=list)
    _stands: Standing | None = None

    def see(self, glimpse: Glimpse) -> None:
        """Take what has become of the last decision."""
        if self._stands is not None:
            ended = glimpse.ended
            if ended is None:
                after = standing(glimpse.geodesic_m, glimpse.contacts, self._stands)
            else:
                after = standing(ended.left_m, ended.outcome.contacts, self._stands)
            reached = ended is not None and ended.outcome.reached
            self._rewards.append(reward(self.section.reward, self._stands, after, reached))
            self._last.append(ended is not None)
        before = self._stands if glimpse.ended is None else None
        self._stands = standing(glimpse.geodesic_m, glimpse.contacts, before)

    def add(self, decided: Decided) -> None:
        """Take a decision on what was seen last."""
        self._decided.append(decided)

    def take(self) -> tuple[list[Run], list[float]]:
        """Return runs of the decisions whose reward is known, and the rewards; the others stay for the next round."""
        count = len(self._rewards)
        values = np.array([one.value for one in self._decided[: count + 1]])
        section, rewards = self.section, np.array(self._rewards)
        gains = advantages(rewards, values, np.array(self._last, bool), section.discount, section.trace)
        recorder = Recorder(self.most_run)
        for one, gain in zip(self._decided[:count], gains, strict=True):
            learned = {ADVANTAGE: _row(gain), RETURN: _row(gain + one.value)}
            recorder.add({**one.row, **learned}, one.fresh, one.memory)
        earned, self._rewards, self._last = self._rewards, [], []
        self._decided = self._decided[count:]
        return recorder.take(), earned


class RolloutCollector:
    """Lanes with one policy that learns, and beside it the one it began as, which is asked but never obeyed.

    For one chapter, as `engines.train.rollout.collector.Collector` is. reference: the weights that the stage began
    with.
    """

    def __init__(
        self,
        section: ReinforceSection,
        reference: Weights,
        rules: Rules,
        network: PolicyNetwork,
        seed: Sequence[int],
        number: int,
        device: torch.device,
    ) -> None:
        lane_rules, count = rules.lanes(expert=False), rules.driving.lanes
        buildings = make_buildings(rules, seed)
        streams = [np.random.default_rng([*seed, number, lane]) for lane in range(count)]
        self._lanes = [Lane(lane_rules, buildings, rng) for rng in streams]
        self._rng = np.random.default_rng([*seed, number, count])
        self._section, self._network = section, network
        self._student = Student(network, count, device)
        self._reference = Student(_began_as(network, reference, device), count, device)
        self._tapes = [Tape(section, rules.driving.most_run) for _ in self._lanes]

    def collect(self, weights: Weights) -> Rollout:
        """Drive a round with some weights, by name; those that are not named stay as they are.

        The last decision of a round is learned from in the next one, and tells in this one what was still expected.
        """
        put_weights(self._network, weights)
        ended = []
        for _ in range(self._section.decisions):
            glimpses = [lane.wait() for lane in self._lanes]
            ended += [glimpse.ended.outcome for glimpse in glimpses if glimpse.ended is not None]
            self._decide(glimpses)
        taken = [tape.take() for tape in self._tapes]
        rewards = [one for _, earned in taken for one in earned]
        return Rollout(
            runs=[run for runs, _ in taken for run in runs],
            decisions=len(rewards),
            reward=float(np.mean(rewards)),
            drives=len(ended),
            reached=sum(one.reached for one in ended),
            false_stops=sum(one.ended == "stop" and not one.reached for one in ended),
            contacts=sum(one.contacts for one in ended),
        )

    def _decide(self, glimpses: Sequence[Glimpse]) -> None:
        student, rows = self._student, self._student.rows(glimpses)
        for one in (student, self._reference):
            one.refresh(glimpses)
        memories = [student.memory(lane) for lane in range(len(glimpses))]
        logits, values = student.decide(rows)
        began, _ = self._reference.decide(rows)
        sharpness = np.float32(1.0 / self._section.temperature)
        for lane, glimpse in enumerate(glimpses):
            action, log_probability = drawn(sharpness * logits[lane], self._rng)
            row = {
                **rows[lane],
                COMPASS: glimpse.compass[None],
                ACTION: np.array([action], np.int64),
                LOG_PROBABILITY: _row(log_probability),
                REFERENCE: (sharpness * began[lane][None]).astype(SMALL),
            }
            self._tapes[lane].see(glimpse)
            self._tapes[lane].add(Decided(row, glimpse.fresh, memories[lane], float(values[lane])))
            self._lanes[lane].answer(action)


def _began_as(network: PolicyNetwork, weights: Weights, device: torch.device) -> PolicyNetwork:
    """Return a network of the same kind with other weights; its colour encoder is never asked."""
    began = PolicyNetwork(network.widths, network.variant)
    put_weights(began, weights)
    return began.to(device)


def _row(value: float) -> Floats32:
    return np.array([value], np.float32)
