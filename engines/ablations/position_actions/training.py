"""A lane for position actions, executed exactly: the training domain of the paper's agent (a)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from engines.ablations.position_actions.drive import COUNT, PositionDrive
from engines.ablations.position_actions.expert import position_scores
from engines.network.lineage import POLICY
from engines.network.network import untrained
from engines.network.policy_checkpoint import save_policy
from engines.runs.processes import alone_in
from engines.train.config import TrainConfig, described, rules_of
from engines.train.dagger import Imitation
from engines.train.rollout.collector import Collector, Round
from engines.train.rollout.domain_randomization import draw_drill
from engines.train.rollout.expert import goal_compass
from engines.train.rollout.places import Building, Turns, geodesic_m
from engines.train.rollout.vector_env import FRESH, MADE, Ended, Glimpse, LaneRules, Seat
from engines.train.rollout.workers import Crew, LocalCrew
from engines.train.stages import check
from hil.drive.fast.course import varied
from onboard.policy.encode import tensors
from onboard.values.errors import InputError


class PositionLane:
    """One drive after another; what `engines.train.rollout.vector_env.Lane` is for the 28 actions. The scan has no
    flaws."""

    def __init__(self, rules: LaneRules, buildings: Sequence[Building], rng: np.random.Generator) -> None:
        self._rules, self._rng = rules, rng
        self._turns = Turns(rules.places, buildings, rng)
        self._begin()

    def wait(self) -> Glimpse:
        """Return what there is to decide on, in this drive or in the next one."""
        ended: Ended | None = None
        if self._drive.ended:
            ended = Ended(self._drive.outcome(), self._episode.geodesic_m, self._left_m())
            self._begin()
        observation, fresh = self._drive.observe()
        pose = self._drive.robot.pose
        return Glimpse(
            tensors=tensors(observation, FRESH, MADE),
            image=None,
            fresh=fresh,
            scores=position_scores(self._building, self._goal, pose) if self._rules.expert else None,
            compass=goal_compass(pose, self._goal.xy_m),
            geodesic_m=self._left_m(),
            contacts=int(self._drive.robot.state.contacts),
            ended=ended,
        )

    def answer(self, action: int) -> None:
        """Make the step."""
        self._drive.act(action)

    def _begin(self) -> None:
        rules, rng = self._rules, self._rng
        self._building, self._episode, self._goal = self._turns.next()
        setting = draw_drill(rules.domain, self._building, self._episode, rng).setting
        course, seat = varied(self._building.course, setting), Seat(rules.memory_reset_s, wants_color=False)
        seed = int(rng.integers(2**31))
        self._drive = PositionDrive(setting, course, self._episode, seat, seed, rules.max_s, exact=True)

    def _left_m(self) -> float:
        pose = self._drive.robot.pose
        return geodesic_m(self._building, self._goal, (pose.x_m, pose.y_m))


# ---- The position agent's training: the imitation of `engines/train`, with lanes and a teacher of its own

Floats32 = npt.NDArray[np.float32]


class PositionCollector(Collector):
    """Drives by position actions; of the network's 28 logits all but four are left out."""

    lane = PositionLane

    def _action(self, lane: int, logits: Floats32, scores: Floats32) -> int:
        four = np.where(np.arange(len(logits)) < COUNT, logits, np.float32(-np.inf))
        return super()._action(lane, four, scores)


class PositionImitation(Imitation):
    """The trainer, with one collector in place."""

    def _crew(self, colour: float) -> Crew[Round]:
        return LocalCrew(PositionCollector, rules_of(self._config, colour), self._network, self._device)


def train_position(config: TrainConfig, folder: Path, device: torch.device) -> Path:
    """Train, or go on, and return the policy's file, as `stages.train` does. Raises OnboardError."""
    if config.network.rgb:
        raise InputError(f"{config.name}: the position agent has no colour")
    check(config)
    torch.manual_seed(config.seed)
    network = untrained(config.seed, config.network.widths, config.network.variant)
    with alone_in(folder):
        PositionImitation(config, network, folder, device).run()
        file = folder / POLICY
        save_policy(file, network, described(config))
    return file
