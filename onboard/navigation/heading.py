"""The final heading: at the goal the robot turns in place to the goal's heading. Pure.

H1   the turn begins where a goal without a heading would be reached (`mission.py`), if the goal states a heading
H2   the goal is reached within TOLERANCE_RAD of the heading, at rest, by the filter's pose
H3   the command is exactly a turn in place, at most TURN_RADPS, slower towards the end, and zero within TOLERANCE_RAD
H4   the turn ends the drive after LONGEST_S. An operator, a pause or a lost input restarts this time
H5   a robot that is moved away from the goal by more than LEFT_M beyond the tolerance drives to the goal again

The limits have the last word on the turn, as on any command.
"""

from __future__ import annotations

import math

from onboard.values.messages import Twist

TOLERANCE_RAD = 0.1
TURN_RADPS = 1.0
SLOWER_PER_S = 2.0
"""Yaw rate for each radian that is left [1/s]."""
LEAST_RADPS = 0.25
LONGEST_S = 20.0
LEFT_M = 0.1


def turn(off_rad: float) -> Twist:
    """Return the command that turns by `off_rad`, left positive (H3)."""
    if abs(off_rad) <= TOLERANCE_RAD:
        return Twist(0.0, 0.0)
    return Twist(0.0, math.copysign(min(max(SLOWER_PER_S * abs(off_rad), LEAST_RADPS), TURN_RADPS), off_rad))
