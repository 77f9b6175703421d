"""What keeps a robot safe that drives for its twin (paper 4). Pure: state and what is seen in; new state, command out.

G1   before the twin runs for the first time, and while somebody else has paused it, the guard does nothing: without
     virtual frames the robot's own limits stop it
G2   danger: the distance along the commanded arc to the nearest real obstacle is at most the braking distance (of
     the commanded or the measured speed, whichever is higher) and `margin_m`; paper 4: 1.5 m from 1 m/s
G3   a real scan that is missing or old is danger, so is a way into a sector where nobody looks (onboard.zones)
G4   a virtual frame later than `deadline_s` is a safety stop as well
G5   a safety stop commands zero, and pauses the twin, until both robot and twin stand
G6   after danger the robot turns at `turn_radps` until `free_m` are free straight ahead, or `NEARLY` the most that the
     room has to offer as seen from here, and the last velocity's arc is out of danger for as long as G7 may drive it;
     to the side where that is nearer. A whole turn without that shows how much room there really is, and the robot
     goes on from rest
G7   then it commands the last velocity until the robot has it, or for `START_S`, then also resumes the twin, until
     frames come again, for `RESUME_S` at most. Meanwhile G2 and G3 hold, which leads back to G5
G8   a twin that does not resume is asked again after `RETRY_S` at rest
G9   a virtual contact stops the robot and cancels its goal: the twin stands elsewhere now
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from onboard import zones
from onboard.geometry import wrap
from onboard.messages import STOP, Scan, Twist
from onboard.scheduler import NS_PER_S

REST_MPS = 0.02
REST_RADPS = 0.05
REACHED_MPS = 0.1
"""The last velocity is reached when the measured speed is this near."""
START_S = 0.6
RESUME_S = 0.5
RETRY_S = 1.0
NEARLY = 0.9
"""Where nothing is free for `free_m`, this part of the most that is free is enough."""
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


class Phase(str, Enum):
    """What the guard is doing. The values appear in its log and its result."""

    WAITING = "waiting"
    WATCHING = "watching"
    STOPPING = "stopping"
    TURNING = "turning"
    STARTING = "starting"
    RESUMING = "resuming"


class Cause(str, Enum):
    """Why the robot was stopped."""

    NONE = ""
    OBSTACLE = "obstacle"
    SCAN = "real scan missing or old"
    LATE = "virtual frame late"
    CONTACT = "virtual contact"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the guard looks at, now.

    scan:         the newest real scan, None before the first
    command:      the newest that went to the base, zero when that is long ago
    measured:     the base's own speed, None while it is not heard; yaw_rad: its heading, in a frame that does not jump
    twin_running: what the twin says of itself, None before its first word
    frame_ns:     arrival of the newest virtual frame, None before the first
    contact:      the twin told of a contact since the last time
    """

    now_ns: int
    scan: Scan | None
    command: Twist
    measured: Twist | None
    yaw_rad: float
    twin_running: bool | None
    frame_ns: int | None
    contact: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """What lives between two looks.

    since_ns:    beginning of the phase
    last:        velocity before the stop, to go on with
    side:        1 turns left, -1 right; turned_rad: how far so far; yaw_rad: heading at the last look
    enough_m:    so much straight ahead ends this turn; best_free_m: the most that it has shown so far
    failed_ns:   when the twin last did not resume
    """

    phase: Phase = Phase.WAITING
    cause: Cause = Cause.NONE
    since_ns: int = 0
    last: Twist = STOP
    side: int = 1
    turned_rad: float = 0.0
    yaw_rad: float = 0.0
    enough_m: float = 0.0
    best_free_m: float = 0.0
    failed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be sent: an operator's command (None is none), and words to the twin and to the runtime."""

    teleop: Twist | None = None
    pause: bool = False
    resume: bool = False
    cancel: bool = False


def advance(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Return the guard after one look, and what it orders."""
    if guard.phase is Phase.WAITING:
        return _waiting(guard, seen)
    if guard.phase is Phase.WATCHING:
        return _watching(guard, seen, rules)
    if guard.phase is Phase.STOPPING:
        return _stopping(guard, seen, rules)
    if guard.phase is Phase.TURNING:
        return _turning(guard, seen, rules)
    return _going_on(guard, seen, rules)


def danger(seen: Seen, command: Twist, rules: Rules, ahead_s: float = 0.0) -> Cause:
    """Return why a command is dangerous in the real room, now or within `ahead_s`, or Cause.NONE (G2, G3)."""
    scan = seen.scan
    if scan is None or abs(seen.now_ns - scan.stamp_ns) > rules.scan_stale_s * NS_PER_S:
        return Cause.SCAN
    if zones.look(scan, command, rules.radius_m) is zones.Look.AHEAD_BLIND:
        return Cause.SCAN
    speed_mps = max(abs(command.v_mps), abs(seen.measured.v_mps) if seen.measured else 0.0)
    stop_m = zones.braking_m(speed_mps, rules.braking_mps2, rules.reaction_s) + rules.margin_m + speed_mps * ahead_s
    free_m = zones.travel_m(zones.obstacles(scan), command, rules.radius_m)
    return Cause.OBSTACLE if free_m <= stop_m else Cause.NONE


def free_ahead_m(scan: Scan, bearing_rad: float, radius_m: float) -> float:
    """Return how far the way in a direction is free for the footprint; 0 where nobody looks."""
    points = zones.obstacles(scan)
    c, s = math.cos(bearing_rad), math.sin(bearing_rad)
    bin_ = int((bearing_rad + math.pi) / (2.0 * math.pi) * len(scan.seen)) % len(scan.seen)
    if not scan.seen[bin_]:
        return 0.0
    turned = points @ ((c, -s), (s, c))
    return zones.travel_m(turned, STRAIGHT, radius_m)


def _enter(guard: Guard, phase: Phase, seen: Seen) -> Guard:
    return replace(guard, phase=phase, since_ns=seen.now_ns, yaw_rad=seen.yaw_rad)


def _elapsed_s(guard: Guard, seen: Seen) -> float:
    return (seen.now_ns - guard.since_ns) / NS_PER_S


def _late(seen: Seen, rules: Rules) -> bool:
    return seen.frame_ns is None or seen.now_ns - seen.frame_ns > rules.deadline_s * NS_PER_S


def _waiting(guard: Guard, seen: Seen) -> tuple[Guard, Order]:
    """Begin to watch once the twin runs and shows something (G1)."""
    if seen.twin_running and seen.frame_ns is not None:
        return _enter(guard, Phase.WATCHING, seen), Order()
    return guard, Order()


def _watching(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Look for what asks for a safety stop."""
    if seen.twin_running is False:
        return _enter(guard, Phase.WAITING, seen), Order()
    cause = Cause.CONTACT if seen.contact else danger(seen, seen.command, rules)
    if cause is Cause.NONE and _late(seen, rules):
        cause = Cause.LATE
    if cause is Cause.NONE:
        return guard, Order()
    return _stop(replace(guard, last=_worth_keeping(seen.command)), cause, seen)


def _worth_keeping(command: Twist) -> Twist:
    """Return the velocity to go on with: none after a stop or while backing."""
    return command if command.v_mps > 0.0 else STOP


def _stop(guard: Guard, cause: Cause, seen: Seen) -> tuple[Guard, Order]:
    """Begin a safety stop (G5, G9)."""
    stopped = replace(_enter(guard, Phase.STOPPING, seen), cause=cause)
    return stopped, Order(STOP, pause=True, cancel=cause is Cause.CONTACT)


def _stopping(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Stand until robot and twin do; then turn, or go on where nothing is in the way."""
    if seen.contact and guard.cause is not Cause.CONTACT:
        return _stop(guard, Cause.CONTACT, seen)
    waits = guard.failed_ns is not None and seen.now_ns - guard.failed_ns < RETRY_S * NS_PER_S
    standing = _resting(seen.measured) and seen.twin_running is False
    if not standing or waits or danger(seen, STOP, rules) is Cause.SCAN:
        return guard, Order(STOP, pause=seen.twin_running is not False)
    if guard.cause is Cause.CONTACT:
        return _enter(replace(guard, last=STOP), Phase.RESUMING, seen), Order(STOP, resume=True)
    if danger(seen, guard.last, rules) is Cause.NONE and guard.cause is Cause.LATE:
        return _enter(guard, Phase.STARTING, seen), Order(guard.last)
    return _begin_turn(guard, seen, rules)


def _resting(measured: Twist | None) -> bool:
    """Return whether the robot is known to stand."""
    return measured is not None and abs(measured.v_mps) <= REST_MPS and abs(measured.w_radps) <= REST_RADPS


def _begin_turn(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Choose how much room is enough, and the side on which that is nearer."""
    bearings = [float(bearing) for bearing in zones.BIN_CENTERS_RAD] if seen.scan else []
    free = {bearing: free_ahead_m(seen.scan, bearing, rules.radius_m) for bearing in bearings if seen.scan}
    enough_m = min(rules.free_m, NEARLY * max(free.values(), default=0.0))
    nearest = min((bearing for bearing, free_m in free.items() if free_m >= enough_m), key=abs, default=1.0)
    side = 1 if nearest >= 0.0 else -1
    guard = replace(guard, side=side, turned_rad=0.0, best_free_m=0.0, enough_m=enough_m)
    return _enter(guard, Phase.TURNING, seen), Order(Twist(0.0, side * rules.turn_radps))


def _turning(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Turn until there is room (G6)."""
    if danger(seen, STOP, rules) is Cause.SCAN or seen.scan is None:
        return _stop(guard, Cause.SCAN, seen)
    free_m = free_ahead_m(seen.scan, 0.0, rules.radius_m)
    turned_rad = guard.turned_rad + abs(wrap(seen.yaw_rad - guard.yaw_rad))
    guard = replace(guard, yaw_rad=seen.yaw_rad, turned_rad=turned_rad, best_free_m=max(guard.best_free_m, free_m))
    if turned_rad >= 2.0 * math.pi:
        guard = replace(guard, enough_m=min(guard.enough_m, NEARLY * guard.best_free_m), last=STOP)
    if free_m >= guard.enough_m and danger(seen, guard.last, rules, START_S + RESUME_S) is Cause.NONE:
        return _enter(guard, Phase.STARTING, seen), Order(guard.last)
    return guard, Order(Twist(0.0, guard.side * rules.turn_radps))


def _going_on(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Command the last velocity, then resume the twin, then leave the robot to its policy (G7, G8)."""
    cause = danger(seen, guard.last, rules)
    if cause is not Cause.NONE and guard.last != STOP:
        return _stop(guard, cause, seen)
    if guard.phase is Phase.STARTING:
        reached = seen.measured is not None and abs(seen.measured.v_mps - guard.last.v_mps) <= REACHED_MPS
        if not reached and _elapsed_s(guard, seen) < START_S:
            return guard, Order(guard.last)
        return _enter(guard, Phase.RESUMING, seen), Order(guard.last, resume=True)
    if seen.twin_running and seen.frame_ns is not None and seen.frame_ns >= guard.since_ns:
        return replace(_enter(guard, Phase.WATCHING, seen), cause=Cause.NONE, failed_ns=None), Order()
    if _elapsed_s(guard, seen) < RESUME_S:
        return guard, Order(guard.last, resume=not seen.twin_running)
    return _stop(replace(guard, failed_ns=seen.now_ns), Cause.LATE, seen)
