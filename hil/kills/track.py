"""What the wheels say of a drive: the way between two instants, by the base's own stamps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from onboard.geometry import distance
from onboard.messages import Pose, Twist

REST_MPS = 0.005
REST_RADPS = 0.01
"""Slower than this in both is rest."""


@dataclass(frozen=True, slots=True)
class Row:
    """Odometry: stamp [ns] in the base's clock, pose in its odometry frame, twist."""

    stamp_ns: int
    pose: Pose
    twist: Twist

    @property
    def rests(self) -> bool:
        """Whether the base stands."""
        return abs(self.twist.v_mps) < REST_MPS and abs(self.twist.w_radps) < REST_RADPS


@dataclass(frozen=True, slots=True)
class Kill:
    """One end of a runtime, from the last odometry before it to rest.

    v_mps, w_radps: the base's twist as it happened
    way_m:          along the path; at 30 Hz the first step of it lies partly before the kill
    turned_rad:     the sum of turns to either side
    time_s:         until rest, by the base's stamps
    """

    v_mps: float
    w_radps: float
    way_m: float
    turned_rad: float
    time_s: float


def judge(rows: Sequence[Row], killed_ns: int) -> Kill:
    """Return what the base did after an instant. Raises ValueError when nothing was heard before it."""
    before = [number for number, row in enumerate(rows) if row.stamp_ns <= killed_ns]
    if not before:
        raise ValueError("no odometry before the kill")
    rolling = rows[before[-1] :]
    pairs = list(itertools.pairwise(rolling))
    way_m = sum(distance(one.pose, two.pose) for one, two in pairs)
    turned = sum(abs(math.remainder(two.pose.yaw_rad - one.pose.yaw_rad, math.tau)) for one, two in pairs)
    moving = [row.stamp_ns for row in rolling if not row.rests]
    time_s = (max(moving) - rolling[0].stamp_ns) / 1e9 if moving else 0.0
    return Kill(rolling[0].twist.v_mps, rolling[0].twist.w_radps, way_m, turned, time_s)
