"""The teacher: the map planner of `hil/baselines`, told the truth, scores every action; scores become soft targets.

It knows the building, its own pose, the plant and the delay of the drive exactly, and sees what no flawed or missing
camera hides. So what it would do is what the student should have done, not what the student could have known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hil.baselines import make_policy
from hil.baselines.planner import MapPlanner
from hil.routes import Episode
from hil.setting import Setting
from onboard.dynamic_window import UNSAFE
from onboard.errors import InputError
from onboard.geometry import apply, between, inverse
from onboard.messages import Motion, Observation, Pose, Scan, Twist

Floats32 = npt.NDArray[np.float32]


class Truth(NamedTuple):
    """What the simulator knows at a decision: pose in the map frame, body twist, and the scan of a whole robot."""

    pose: Pose
    twist: Twist
    scan: Scan


class Expert:
    """The teacher of one drive; what it has seen on the way is kept, so it must be asked at every decision."""

    def __init__(self, setting: Setting, episode: Episode) -> None:
        planner = make_policy("planner", setting, episode)
        if not isinstance(planner, MapPlanner):
            raise InputError("the expert must be the map planner")
        planner.locate(episode.start)
        self._planner, self._start = planner, episode.start
        self._goal_xy_m = apply(inverse(episode.start), episode.goal_xy_m)
        self._memory = planner.initial_memory()

    def scores(self, observation: Observation, truth: Truth) -> Floats32:
        """Return (28,) minus the seconds that would be left after each action, as `DynamicWindow.decide` gives them."""
        motion = Motion(between(self._start, truth.pose), truth.twist)
        seen = replace(observation, filtered=motion, goal_xy_m=self._goal_xy_m, scan=truth.scan)
        decision, self._memory = self._planner.decide(seen, self._memory)
        return decision.logits

    def compass(self, truth: Truth) -> Floats32:
        """Return (3,) rho [m], cos(phi), sin(phi) of the goal as it really lies from the robot."""
        x, y = apply(inverse(between(self._start, truth.pose)), self._goal_xy_m)
        rho = float(np.hypot(x, y))
        return np.array([rho, x / rho, y / rho] if rho > 0.0 else [0.0, 1.0, 0.0], np.float32)


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
