"""What a decision earned, and how much better it was than expected. Pure functions of numbers.

The reward is the paper's (paper 1, section 1.9). A drive that ends in any other way than at its goal (by a
false stop, by the clock, by being stuck) has lost the success: nothing is expected after its end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engines.train.reinforce_config import RewardSection

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
