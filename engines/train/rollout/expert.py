"""The expert: a dynamic window with the true state scores every action; the scores become soft targets.

The expert knows the true pose, plant and delay, and a scan without faults. Its knowledge of the building is one of:

`map`:  the whole map, as the planner of `hil/evaluate/baselines`. It drives best, but the student cannot see the reason
        for its choice of a side, and learns to stand before an obstacle;
`seen`: the scans since the last reset of the student's memory, as `onboard.policy.dwa.policy`. Unseen space counts as
        free. The student can know as much, so it can learn to leave a dead end.

Between two fixes the student may believe wrongly that it is at the goal. So at the goal the expert turns on the spot
until a fix is newer than `news_s`, and the student learns to wait for a fix before it stops. Without localisation the
expert does not wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import make_policy
from hil.physics.free_space import Episode
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.policy.dwa.dynamic_window import STAND, UNSAFE
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, between, inverse
from onboard.values.messages import Motion, Observation, Pose, Scan, Twist

Floats32 = npt.NDArray[np.float32]
Knowledge = Literal["map", "seen"]

_POLICIES: dict[Knowledge, str] = {"map": "planner", "seen": "reactive"}


class Truth(NamedTuple):
    """True state at a decision: pose in the map frame, body twist, and the scan of all cameras."""

    pose: Pose
    twist: Twist
    scan: Scan


class Expert:
    """The expert of one drive. It remembers its scans, so call `scores` at every decision."""

    def __init__(self, setting: Setting, episode: Episode, knows: Knowledge, news_s: float | None = None) -> None:
        """Plan with the true plant. Raises InputError if the map planner cannot drive."""
        policy = make_policy(_POLICIES[knows], replace(setting, plant=setting.base_plant), episode)
        self._policy, self._start, self._forgets = policy, episode.start, knows == "seen"
        self._goal_xy_m = apply(inverse(episode.start), episode.goal_xy_m)
        self._memory = policy.initial_memory()
        # The age of a fix counts from its arrival.
        senses = setting.senses
        self._news_s = news_s + senses.fix_delay_s if news_s is not None and senses.localization else None

    def scores(self, observation: Observation, truth: Truth, fresh: bool = False) -> Floats32:
        """Return (28,) scores: minus the time left after each action [s], as `DynamicWindow.decide`.

        fresh: whether the student's memory was reset before this decision
        """
        if fresh and self._forgets:
            self._memory = self._policy.initial_memory()
        motion = Motion(between(self._start, truth.pose), truth.twist)
        seen = replace(
            observation, filtered=motion, goal_xy_m=self._goal_xy_m, scan=truth.scan, map_from_start=self._start
        )
        decision, self._memory = self._policy.decide(seen, self._memory)
        return WAITING if self._waits(observation, decision.logits) else decision.logits

    def _waits(self, observation: Observation, scores: Floats32) -> bool:
        """Return whether the expert would stop at the goal, but the last fix is too old."""
        if self._news_s is None or scores[STOP_ACTION] < STAND:
            return False
        age_ns = observation.localization_age_ns
        return age_ns is None or age_ns > self._news_s * NS_PER_S


def goal_compass(pose: Pose, goal_xy_m: tuple[float, float]) -> Floats32:
    """Return (3,) rho [m], cos(phi), sin(phi) of a goal relative to a pose in the same frame."""
    x, y = apply(inverse(pose), goal_xy_m)
    rho = float(np.hypot(x, y))
    return np.array([rho, x / rho, y / rho] if rho > 0.0 else [0.0, 1.0, 0.0], np.float32)


def _waiting() -> Floats32:
    scores = np.full(len(ACTIONS), UNSAFE, np.float32)
    scores[ACTIONS.index(Twist(0.0, 1.0))] = 0.0
    return scores


WAITING = _waiting()
"""Scores while waiting for a fix: a slow turn on the spot, always safe for a round footprint."""


def soft_targets(scores: Floats32, temperature_s: float) -> tuple[Floats32, float]:
    """Return (28,) probabilities, and the weight of this decision: 0 if no action is safe.

    The probability of a safe action is proportional to exp(-time lost / temperature).
    """
    best = float(scores.max())
    if best <= 0.5 * UNSAFE:
        return np.full(len(scores), 1.0 / len(scores), np.float32), 0.0
    odds = np.exp(np.maximum((scores - best) / temperature_s, _LEAST))
    odds[scores <= 0.5 * UNSAFE] = 0.0
    return np.asarray(odds / odds.sum(), np.float32), 1.0


_LEAST = -60.0
"""Smallest exponent; smaller probabilities count as this."""
