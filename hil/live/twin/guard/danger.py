"""Danger to a robot that drives for its twin (paper 4), and the inputs of its guard. Pure.

`rules.py` has the numbered rules (G1 to G9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from onboard.config.footprint import Footprint
from onboard.perception import collision
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Scan, Twist

REST_MPS = 0.02
REST_RADPS = 0.05
STRAIGHT = Twist(0.1, 0.0)
"""A straight motion. The free distance does not depend on its speed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Parameters of the rules for a robot and a room, in SI units.

    radius_m:     radius of the footprint plus the stop margin, as in the limits
    braking_mps2: deceleration of the plant
    reaction_s:   latency from an obstacle in view to braking wheels, including the scan's period
    margin_m:     distance added to the braking distance (G2)
    deadline_s:   largest age of a virtual frame (G4)
    scan_stale_s: age after which a real scan is stale (G3)
    turn_radps:   yaw rate of the guard's turn (G6)
    free_m:       free distance ahead that ends a turn (G6)
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
    """Reason why the guard stopped the robot, or why the guard waits."""

    NONE = ""
    OBSTACLE = "obstacle"
    RIVALS = "second publisher of scan or odometry"
    SCAN = "real scan missing or stale"
    LATE = "virtual frame late"
    CONTACT = "virtual contact"
    PAUSED = "twin paused by another process or by itself"
    SILENT = "no message from the twin"
    GAVE_UP = "twin does not resume"


@dataclass(frozen=True, slots=True)
class GuardInputs:
    """Inputs of the guard at a look.

    now_ns:       time of the look [ns]
    scan:         the newest valid real scan, stamped with its arrival; None before the first scan
    command:      the newest command to the base; zero if the command is stale
    measured:     measured velocity of the base; None if the odometry is stale
    yaw_rad:      measured heading of the base, in a frame that does not jump
    twin_running: whether the twin says that it runs; None before its first state and if the state is stale
    frame_ns:     arrival of the newest virtual frame; None before the first frame
    contact:      whether the twin reported a contact since the last look
    frame_lag_ns: from the odometry that caused this frame to the newest odometry, by the robot's stamps
    elsewhere:    whether a reset of the twin was requested since the last look
    driving:      whether the runtime drives to a goal; None while unknown
    rivals:       whether the real scan or the odometry has a second publisher
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
    rivals: bool = False


def danger(seen: GuardInputs, command: Twist, rules: Rules, ahead_s: float = 0.0) -> Cause:
    """Return the cause if a command is dangerous in the real room, now or within `ahead_s`, or Cause.NONE (G2, G3)."""
    scan = seen.scan
    if seen.rivals:
        return Cause.RIVALS
    if scan is None or abs(seen.now_ns - scan.stamp_ns) > rules.scan_stale_s * NS_PER_S:
        return Cause.SCAN
    if collision.view_sector(scan, command, rules.radius_m) is collision.SectorView.AHEAD_BLIND:
        return Cause.SCAN
    speed_mps = max(abs(command.v_mps), abs(seen.measured.v_mps) if seen.measured else 0.0)
    stop_m = collision.braking_m(speed_mps, rules.braking_mps2, rules.reaction_s) + rules.margin_m + speed_mps * ahead_s
    free_m = collision.travel_m(collision.obstacles(scan), command, Footprint(rules.radius_m))
    return Cause.OBSTACLE if free_m <= stop_m else Cause.NONE


def free_ahead_m(scan: Scan, bearing_rad: float, radius_m: float) -> float:
    """Return the free distance of the footprint in a direction [m]; 0 if no camera sees that direction."""
    points = collision.obstacles(scan)
    c, s = math.cos(bearing_rad), math.sin(bearing_rad)
    bin_ = int((bearing_rad + math.pi) / (2.0 * math.pi) * len(scan.seen)) % len(scan.seen)
    if not scan.seen[bin_]:
        return 0.0
    turned = points @ ((c, -s), (s, c))
    return collision.travel_m(turned, STRAIGHT, Footprint(radius_m))


def late(seen: GuardInputs, rules: Rules) -> bool:
    """Return whether the newest virtual frame is late, by its arrival or by the odometry that caused it (G4)."""
    limit_ns = rules.deadline_s * NS_PER_S
    return seen.frame_ns is None or seen.now_ns - seen.frame_ns > limit_ns or abs(seen.frame_lag_ns) > limit_ns


def resting(measured: Twist | None) -> bool:
    """Return whether the robot stands by its odometry; False if the odometry is stale."""
    return measured is not None and abs(measured.v_mps) <= REST_MPS and abs(measured.w_radps) <= REST_RADPS


def moves(seen: GuardInputs) -> bool:
    """Return whether the robot moves, its odometry is stale, or its command is not zero."""
    return seen.command.v_mps != 0.0 or seen.command.w_radps != 0.0 or not resting(seen.measured)
