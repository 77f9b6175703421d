"""The teacher: a dynamic window told the truth scores every action; scores become soft targets.

It knows its own pose, the plant and the delay of the drive exactly, and sees what no flawed or missing camera hides.
Of the building it knows one of two things:

`map`:  all of it, as the map planner of `hil/baselines`. What it does is then the best that can be done, but nothing
        that the student sees says which way round an obstacle it is, and who cannot tell stays before it;
`seen`: what has been in its scans since the student's memory was last reset, as `onboard.policy.dwa.policy`. What
was never
        seen counts as free. So it knows no more than the student can, and its way out of a dead end can be learned.

The student only believes to be at the goal, and between two fixes of the localisation it may believe wrongly. So where
the expert would stop for good, it turns on the spot until a fix is newer than `news_s`, and the student learns to look
once more before it stops. Without localisation there is nothing to wait for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hil.drive.setting import Setting
from hil.evaluate.baselines.planner import MapPlanner
from hil.evaluate.baselines.registry import make_policy
from hil.physics.free_space import Episode
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.policy.dwa.dynamic_window import STAND, UNSAFE
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, between, inverse
from onboard.values.messages import Motion, Observation, Pose, Scan, Twist

Floats32 = npt.NDArray[np.float32]
Knows = Literal["map", "seen"]

_POLICIES: dict[Knows, str] = {"map": "planner", "seen": "reactive"}


class Truth(NamedTuple):
    """What the simulator knows at a decision: pose in the map frame, body twist, and the scan of a whole robot."""

    pose: Pose
    twist: Twist
    scan: Scan


class Expert:
    """The teacher of one drive; what it has seen on the way is kept, so it must be asked at every decision."""

    def __init__(self, setting: Setting, episode: Episode, knows: Knows, news_s: float | None = None) -> None:
        """Be told the true plant. Raises InputError where the map planner cannot drive."""
        policy = make_policy(_POLICIES[knows], replace(setting, plant=setting.base_plant), episode)
        if isinstance(policy, MapPlanner):
            policy.locate(episode.start)
        self._policy, self._start, self._forgets = policy, episode.start, knows == "seen"
        self._goal_xy_m = apply(inverse(episode.start), episode.goal_xy_m)
        self._memory = policy.initial_memory()
        # A fix is news from when it comes, however late that is.
        senses = setting.senses
        self._news_s = news_s + senses.fix_delay_s if news_s is not None and senses.localization else None

    def scores(self, observation: Observation, truth: Truth, fresh: bool = False) -> Floats32:
        """Return (28,) minus the seconds that would be left after each action, as `DynamicWindow.decide` gives them.

        fresh: the student's memory has been reset before this decision
        """
        if fresh and self._forgets:
            self._memory = self._policy.initial_memory()
        motion = Motion(between(self._start, truth.pose), truth.twist)
        seen = replace(observation, filtered=motion, goal_xy_m=self._goal_xy_m, scan=truth.scan)
        decision, self._memory = self._policy.decide(seen, self._memory)
        return WAITING if self._waits(observation, decision.logits) else decision.logits

    def _waits(self, observation: Observation, scores: Floats32) -> bool:
        """Return whether it stands at the goal, but the student has had no news of its place for long."""
        if self._news_s is None or scores[STOP_ACTION] < STAND:
            return False
        age_ns = observation.localization_age_ns
        return age_ns is None or age_ns > self._news_s * NS_PER_S


def goal_compass(pose: Pose, goal_xy_m: tuple[float, float]) -> Floats32:
    """Return (3,) rho [m], cos(phi), sin(phi) of a goal seen from a pose, both in one frame."""
    x, y = apply(inverse(pose), goal_xy_m)
    rho = float(np.hypot(x, y))
    return np.array([rho, x / rho, y / rho] if rho > 0.0 else [0.0, 1.0, 0.0], np.float32)


def _waiting() -> Floats32:
    scores = np.full(len(ACTIONS), UNSAFE, np.float32)
    scores[ACTIONS.index(Twist(0.0, 1.0))] = 0.0
    return scores


WAITING = _waiting()
"""The scores of one who waits for news: a slow turn on the spot, which a round footprint may always make."""


def soft_targets(scores: Floats32, temperature_s: float) -> tuple[Floats32, float]:
    """Return (28,) probabilities, and the weight of this decision: 0 where nothing that the expert could do is safe.

    Among safe actions one is as likely as exp(- seconds lost / temperature).
    """
    best = float(scores.max())
    if best <= 0.5 * UNSAFE:
        return np.full(len(scores), 1.0 / len(scores), np.float32), 0.0
    odds = np.exp(np.maximum((scores - best) / temperature_s, _LEAST))
    odds[scores <= 0.5 * UNSAFE] = 0.0
    return np.asarray(odds / odds.sum(), np.float32), 1.0


_LEAST = -60.0
"""Of an exponent; below this a probability is nothing."""
