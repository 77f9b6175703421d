"""What is dangerous to a robot that drives for its twin (paper 4), and what its guard looks at. Pure.

The rules by number are in `rules.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from onboard.perception import collision
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Scan, Twist

REST_MPS = 0.02
REST_RADPS = 0.05
STRAIGHT = Twist(0.1, 0.0)
"""Any speed straight ahead: how far that way is free does not depend on it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of one robot and one room, in SI units.

    radius_m:     footprint and stop margin, as the limits sweep it
    braking_mps2: of the plant; reaction_s: from an obstacle in view to the wheels braking, the scan's period included
    """

    radius_m: float
    braking_mps2: float
    reaction_s: float = 0.3
    margin_m: float = 0.3
    deadline_s: float = 0.2
    scan_stale_s: float = 0.5
    turn_radps: float = 0.5
    free_m: float = 2.5


class Cause(str, Enum):
    """Why the robot was stopped, or why the guard waits."""

    NONE = ""
    OBSTACLE = "obstacle"
    SCAN = "real scan missing or old"
    LATE = "virtual frame late"
    CONTACT = "virtual contact"
    PAUSED = "twin paused by somebody else or by itself"
    SILENT = "twin not heard"
    GAVE_UP = "twin does not resume"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the guard looks at, now.

    scan:         the newest real scan, its stamp that of its arrival; None before the first
    command:      the newest that went to the base, zero when that is long ago
    measured:     the base's own speed, None while it is not heard; yaw_rad: its heading, in a frame that does not jump
    twin_running: what the twin says of itself, None before its first word and while it is not heard
    frame_ns:     arrival of the newest virtual frame, None before the first
    contact:      the twin told of a contact since the last time
    frame_lag_ns: from the odometry that this frame follows from to the newest, by the robot's stamps
    elsewhere:    the twin was asked to reset since the last time
    driving:      whether the runtime drives to a goal, None while that is not known
    """

    now_ns: int
    scan: Scan | None
    command: Twist
    measured: Twist | None
    yaw_rad: float
    twin_running: bool | None
    frame_ns: int | None
    contact: bool = False
    frame_lag_ns: int = 0
    elsewhere: bool = False
    driving: bool | None = None


def danger(seen: Seen, command: Twist, rules: Rules, ahead_s: float = 0.0) -> Cause:
    """Return why a command is dangerous in the real room, now or within `ahead_s`, or Cause.NONE (G2, G3)."""
    scan = seen.scan
    if scan is None or abs(seen.now_ns - scan.stamp_ns) > rules.scan_stale_s * NS_PER_S:
        return Cause.SCAN
    if collision.look(scan, command, rules.radius_m) is collision.Look.AHEAD_BLIND:
        return Cause.SCAN
    speed_mps = max(abs(command.v_mps), abs(seen.measured.v_mps) if seen.measured else 0.0)
    stop_m = collision.braking_m(speed_mps, rules.braking_mps2, rules.reaction_s) + rules.margin_m + speed_mps * ahead_s
    free_m = collision.travel_m(collision.obstacles(scan), command, rules.radius_m)
    return Cause.OBSTACLE if free_m <= stop_m else Cause.NONE


def free_ahead_m(scan: Scan, bearing_rad: float, radius_m: float) -> float:
    """Return how far the way in a direction is free for the footprint; 0 where nobody looks."""
    points = collision.obstacles(scan)
    c, s = math.cos(bearing_rad), math.sin(bearing_rad)
    bin_ = int((bearing_rad + math.pi) / (2.0 * math.pi) * len(scan.seen)) % len(scan.seen)
    if not scan.seen[bin_]:
        return 0.0
    turned = points @ ((c, -s), (s, c))
    return collision.travel_m(turned, STRAIGHT, radius_m)


def late(seen: Seen, rules: Rules) -> bool:
    """Return whether the newest virtual frame came, or was true, too long ago (G4)."""
    limit_ns = rules.deadline_s * NS_PER_S
    return seen.frame_ns is None or seen.now_ns - seen.frame_ns > limit_ns or abs(seen.frame_lag_ns) > limit_ns


def resting(measured: Twist | None) -> bool:
    """Return whether the robot is known to stand."""
    return measured is not None and abs(measured.v_mps) <= REST_MPS and abs(measured.w_radps) <= REST_RADPS


def moves(seen: Seen) -> bool:
    """Return whether the robot moves, or is told to."""
    return seen.command.v_mps != 0.0 or seen.command.w_radps != 0.0 or not resting(seen.measured)
