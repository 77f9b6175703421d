"""Rollouts for PPO: actions sampled from the policy, with their rewards and advantages."""

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
from engines.train.rollout.vector_env import DecisionRequest, Lane, Tensors

# ---- Reward and advantage: pure functions of numbers

Floats = npt.NDArray[np.float64]


class Progress(NamedTuple):
    """Progress of a drive. geodesic_m: length of the path left, inf while no path is known; contacts: so far."""

    geodesic_m: float
    contacts: int


def progress(geodesic_m: float, contacts: int, before: Progress | None = None) -> Progress:
    """Return the progress of a drive; without a known path, the path left is the last known length."""
    if not math.isfinite(geodesic_m) and before is not None:
        geodesic_m = before.geodesic_m
    return Progress(geodesic_m, contacts)


def reward(section: RewardSection, before: Progress, after: Progress, reached: bool) -> float:
    """Return the reward between two decisions, or between the last decision and the end of the drive."""
    gained_m = before.geodesic_m - after.geodesic_m if math.isfinite(before.geodesic_m) else 0.0
    touched = after.contacts - before.contacts
    return section.success * reached + gained_m - section.step - section.contact * touched


def advantages(rewards: Floats, values: Floats, last: npt.NDArray[np.bool_], discount: float, trace: float) -> Floats:
    """Return (T,) generalised advantage estimates (Schulman et al., 2016) of consecutive decisions in one lane.

    rewards: (T,); values: (T + 1,) critic's value at each decision and at the next decision after them
    last:    (T,) whether a decision was the last of its drive; rewards of the next drive do not count for it
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
"""Rows of a run besides the tensors. REFERENCE: logits over the temperature, of the policy at the start of PPO."""


class RolloutDecision(NamedTuple):
    """A decision. row: tensors by name, (1, ...); memory: (layers, width) before it; value: by the critic."""

    row: Tensors
    fresh: bool
    memory: Floats32
    value: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """Result of a round: runs to learn from, and counts of drives by their end. reward: mean of a decision."""

    runs: list[Run]
    decisions: int
    reward: float
    drives: int
    reached: int
    false_stops: int
    contacts: int


@dataclass(slots=True)
class RolloutBuffer:
    """Decisions of one lane with their rewards. The reward of the last decision is known at the next request."""

    section: ReinforceSection
    most_run: int
    _decided: list[RolloutDecision] = field(default_factory=list)
    _rewards: list[float] = field(default_factory=list)
    _last: list[bool] = field(default_factory=list)
    _progress: Progress | None = None

    def see(self, request: DecisionRequest) -> None:
        """Add the reward of the last decision."""
        if self._progress is not None:
            ended = request.ended
            if ended is None:
                after = progress(request.geodesic_m, request.contacts, self._progress)
            else:
                after = progress(ended.left_m, ended.outcome.contacts, self._progress)
            reached = ended is not None and ended.outcome.reached
            self._rewards.append(reward(self.section.reward, self._progress, after, reached))
            self._last.append(ended is not None)
        before = self._progress if request.ended is None else None
        self._progress = progress(request.geodesic_m, request.contacts, before)

    def add(self, decided: RolloutDecision) -> None:
        """Add the decision on the last request."""
        self._decided.append(decided)

    def take(self) -> tuple[list[Run], list[float]]:
        """Return runs of the decisions with a known reward, and the rewards; others stay for the next round."""
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
    """Lanes driven by the learning policy, for one chapter. The reference policy only gives its logits.

    reference: the weights at the start of the stage
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
        self._buffers = [RolloutBuffer(section, rules.driving.most_run) for _ in self._lanes]

    def collect(self, weights: Weights) -> Rollout:
        """Drive a round with weights by name; weights without a name stay.

        The last decision of a round gives this round its last value, and becomes part of the next round.
        """
        put_weights(self._network, weights)
        ended = []
        for _ in range(self._section.decisions):
            requests = [lane.wait() for lane in self._lanes]
            ended += [request.ended.outcome for request in requests if request.ended is not None]
            self._decide(requests)
        taken = [buffer.take() for buffer in self._buffers]
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

    def _decide(self, requests: Sequence[DecisionRequest]) -> None:
        student, rows = self._student, self._student.rows(requests)
        for one in (student, self._reference):
            one.refresh(requests)
        memories = [student.memory(lane) for lane in range(len(requests))]
        logits, values = student.decide(rows)
        began, _ = self._reference.decide(rows)
        sharpness = np.float32(1.0 / self._section.temperature)
        for lane, request in enumerate(requests):
            action, log_probability = drawn(sharpness * logits[lane], self._rng)
            row = {
                **rows[lane],
                COMPASS: request.compass[None],
                ACTION: np.array([action], np.int64),
                LOG_PROBABILITY: _row(log_probability),
                REFERENCE: (sharpness * began[lane][None]).astype(SMALL),
            }
            self._buffers[lane].see(request)
            self._buffers[lane].add(RolloutDecision(row, request.fresh, memories[lane], float(values[lane])))
            self._lanes[lane].answer(action)


def _began_as(network: PolicyNetwork, weights: Weights, device: torch.device) -> PolicyNetwork:
    """Return a network of the same variant with other weights. Its colour encoder is not used."""
    began = PolicyNetwork(network.widths, network.variant)
    put_weights(began, weights)
    return began.to(device)


def _row(value: float) -> Floats32:
    return np.array([value], np.float32)
