"""A lane for position actions, executed exactly: the training domain of the paper's agent (a)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engines.ablations.position_drive import PositionDrive
from engines.ablations.position_expert import position_scores
from engines.train.domain import draw_drill
from engines.train.expert import goal_compass
from engines.train.lanes import FRESH, MADE, Ended, Glimpse, LaneRules, Seat
from engines.train.places import Building, Turns, geodesic_m
from hil.course import varied
from onboard.encode import tensors


class PositionLane:
    """One drive after another; what `engines.train.lanes.Lane` is for the 28 actions. The scan has no flaws."""

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
