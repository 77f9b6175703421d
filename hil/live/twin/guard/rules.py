"""What keeps a robot safe that drives for its twin (paper 4). Pure: state and what is seen in; new state, command out.

G1   before the twin runs, and while somebody else or the twin itself has paused it, the guard waits: it only stops the
     robot when that moves into danger. A robot that moves when the twin is paused, or no longer heard, is stopped
     first, and held for `HOLD_S`: then, without virtual frames, its own limits stop it
G2   danger: the distance along the commanded arc to the nearest real obstacle is at most the braking distance (of
     the commanded or the measured speed, whichever is higher) and `margin_m`; paper 4: 1.5 m from 1 m/s
G3   a real scan that is missing, or came `scan_stale_s` ago, is danger, so is a way into a sector where nobody looks
     (onboard.perception.collision). One in another frame than the base's, or whose stamp stands still, is none
     (`link.py`)
G4   a virtual frame is late, and that a safety stop as well, when the last came `deadline_s` ago, or when the odometry
     that it follows from is so much older than the newest, by the robot's own stamps
G5   a safety stop commands zero, and pauses the twin, until both robot and twin stand
G6   after danger the robot turns at `turn_radps` until `free_m` are free straight ahead, or `NEARLY` the most that the
     room has to offer as seen from here, and the last velocity's arc is out of danger for as long as G7 may drive it;
     to the side where that is nearer. A whole turn without that shows how much room there really is, and the robot
     goes on from rest
G7   then it commands the last velocity until the robot has it, or for `START_S`, then also resumes the twin, until
     frames come again, for `RESUME_S` at most. Meanwhile G2 and G3 hold, which leads back to G5. The last velocity is
     zero once the twin was put elsewhere, and while the runtime drives to no goal
G8   nothing but zero is commanded while the twin is not heard. One that does not resume, or whose frames are late again
     within `STEADY_S`, is asked again after `RETRY_S`, from rest; after `TRIES` in a row, or when it was not heard for
     `GONE_S`, the guard waits (G1) until the twin runs
G9   a virtual contact, whatever the guard is doing, stops the robot and cancels its goal: the twin stands elsewhere now
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from hil.live.twin.guard.danger import Cause, Rules, Seen, danger, free_ahead_m, late, moves, resting
from onboard.perception import collision
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import wrap
from onboard.values.messages import STOP, Twist

REACHED_MPS = 0.1
"""The last velocity is reached when the measured speed is this near."""
START_S = 0.6
RESUME_S = 0.5
RETRY_S = 1.0
STEADY_S = 2.0
TRIES = 5
GONE_S = 3.0
HOLD_S = 1.0
"""Longer than the runtime believes its last virtual scan."""
ELSEWHERE_S = 1.0
"""So long after a reset, what is commanded may still be meant for the place before."""
NEARLY = 0.9
"""Where nothing is free for `free_m`, this part of the most that is free is enough."""


class Phase(str, Enum):
    """What the guard is doing. The values appear in its log and its result."""

    WAITING = "waiting"
    WATCHING = "watching"
    STOPPING = "stopping"
    TURNING = "turning"
    STARTING = "starting"
    RESUMING = "resuming"


@dataclass(frozen=True, slots=True)
class Guard:
    """What lives between two looks.

    since_ns:    beginning of the phase
    last:        velocity before the stop, to go on with
    side:        1 turns left, -1 right; turned_rad: how far so far; yaw_rad: heading at the last look
    enough_m:    so much straight ahead ends this turn; best_free_m: the most that it has shown so far
    failed_ns:   when the twin last did not resume; tries: how often in a row
    waits:       this stop ends in waiting, and leaves the twin alone
    elsewhere_ns: when the twin was last asked to reset
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
    tries: int = 0
    waits: bool = False
    elsewhere_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be sent: an operator's command (None is none), and words to the twin and to the runtime."""

    teleop: Twist | None = None
    pause: bool = False
    resume: bool = False
    cancel: bool = False


def advance(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Return the guard after one look, and what it orders."""
    if seen.elsewhere:
        guard = replace(guard, elsewhere_ns=seen.now_ns, last=STOP)
    if seen.driving is False:
        guard = replace(guard, last=STOP)
    if seen.contact:
        return _touched(guard, seen)
    if guard.phase is Phase.WAITING:
        return _waiting(guard, seen, rules)
    if guard.phase is Phase.WATCHING:
        return _watching(guard, seen, rules)
    if guard.phase is Phase.STOPPING:
        return _stopping(guard, seen, rules)
    if seen.twin_running is None:
        return _stop(_failed(guard, seen), Cause.SILENT, seen)
    if guard.phase is Phase.TURNING:
        return _turning(guard, seen, rules)
    return _going_on(guard, seen, rules)


def _enter(guard: Guard, phase: Phase, seen: Seen) -> Guard:
    return replace(guard, phase=phase, since_ns=seen.now_ns, yaw_rad=seen.yaw_rad)


def _elapsed_s(guard: Guard, seen: Seen) -> float:
    return (seen.now_ns - guard.since_ns) / NS_PER_S


def _touched(guard: Guard, seen: Seen) -> tuple[Guard, Order]:
    """Stop and give the goal up, whatever was going on (G9)."""
    at_rest = guard.phase in (Phase.WAITING, Phase.WATCHING)
    waits = seen.twin_running is not True if at_rest else guard.waits
    return _stop(replace(guard, last=STOP, waits=waits), Cause.CONTACT, seen)


def _waiting(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Begin to watch once the twin runs and shows something (G1)."""
    if seen.twin_running and not late(seen, rules):
        fresh = replace(guard, cause=Cause.NONE, failed_ns=None, tries=0, waits=False)
        return _enter(fresh, Phase.WATCHING, seen), Order()
    known = seen.command != STOP or seen.measured is not None
    cause = danger(seen, seen.command, rules) if known and moves(seen) else Cause.NONE
    if cause is not Cause.NONE:
        return _stop(replace(guard, last=STOP, waits=True), cause, seen)
    return guard, Order()


def _watching(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Look for what asks for a safety stop."""
    if not seen.twin_running:
        return _left_alone(guard, Cause.SILENT if seen.twin_running is None else Cause.PAUSED, seen)
    cause, steady = danger(seen, seen.command, rules), _elapsed_s(guard, seen) >= STEADY_S
    if cause is Cause.NONE and late(seen, rules):
        cause = Cause.LATE
    guard = replace(guard, tries=0 if steady else guard.tries)
    if cause is Cause.NONE:
        return guard, Order()
    if cause is Cause.LATE and not steady:
        return _not_resumed(guard, seen)
    return _stop(replace(guard, last=_worth_keeping(guard, seen)), cause, seen)


def _left_alone(guard: Guard, cause: Cause, seen: Seen) -> tuple[Guard, Order]:
    """Wait, after a stop where the robot moves: the twin is no longer there to drive for (G1)."""
    guard = replace(guard, last=STOP, waits=True)
    if moves(seen):
        return _stop(guard, cause, seen)
    return replace(_enter(guard, Phase.WAITING, seen), cause=cause), Order()


def _worth_keeping(guard: Guard, seen: Seen) -> Twist:
    """Return the velocity to go on with: none after a stop, while backing, or when it is meant for another place."""
    moved = guard.elsewhere_ns is not None and seen.now_ns - guard.elsewhere_ns < ELSEWHERE_S * NS_PER_S
    return seen.command if seen.command.v_mps > 0.0 and not moved and seen.driving is not False else STOP


def _stop(guard: Guard, cause: Cause, seen: Seen) -> tuple[Guard, Order]:
    """Begin a safety stop (G5, G9)."""
    stopped = replace(_enter(guard, Phase.STOPPING, seen), cause=cause)
    return stopped, Order(STOP, pause=not guard.waits, cancel=cause is Cause.CONTACT)


def _failed(guard: Guard, seen: Seen) -> Guard:
    """Return the guard after the twin did not resume: on from rest, and not too often (G8)."""
    tries = guard.tries + 1
    return replace(guard, last=STOP, failed_ns=seen.now_ns, tries=tries, waits=tries >= TRIES)


def _not_resumed(guard: Guard, seen: Seen) -> tuple[Guard, Order]:
    guard = _failed(guard, seen)
    return _stop(guard, Cause.GAVE_UP if guard.waits else Cause.LATE, seen)


def _stopping(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Stand until robot and twin do; then turn, or go on where nothing is in the way; or wait."""
    gone = seen.twin_running is None and _elapsed_s(guard, seen) >= GONE_S
    if resting(seen.measured) and (gone or (guard.waits and _elapsed_s(guard, seen) >= HOLD_S)):
        cause = Cause.SILENT if gone else guard.cause
        return replace(_enter(guard, Phase.WAITING, seen), cause=cause, last=STOP), Order()
    early = guard.failed_ns is not None and seen.now_ns - guard.failed_ns < RETRY_S * NS_PER_S
    standing = resting(seen.measured) and seen.twin_running is False
    if guard.waits or not standing or early or danger(seen, STOP, rules) is Cause.SCAN:
        return guard, Order(STOP, pause=not guard.waits and seen.twin_running is not False)
    if guard.cause is Cause.CONTACT:
        return _enter(replace(guard, last=STOP), Phase.RESUMING, seen), Order(STOP, resume=True)
    if danger(seen, guard.last, rules) is Cause.NONE and guard.cause in (Cause.LATE, Cause.SILENT):
        return _enter(guard, Phase.STARTING, seen), Order(guard.last)
    return _begin_turn(guard, seen, rules)


def _begin_turn(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Choose how much room is enough, and the side on which that is nearer."""
    bearings = [float(bearing) for bearing in collision.BIN_CENTERS_RAD] if seen.scan else []
    free = {bearing: free_ahead_m(seen.scan, bearing, rules.radius_m) for bearing in bearings if seen.scan}
    enough_m = min(rules.free_m, NEARLY * max(free.values(), default=0.0))
    nearest = min((bearing for bearing, free_m in free.items() if free_m >= enough_m), key=abs, default=1.0)
    side = 1 if nearest >= 0.0 else -1
    guard = replace(guard, side=side, turned_rad=0.0, best_free_m=0.0, enough_m=enough_m)
    return _enter(guard, Phase.TURNING, seen), Order(Twist(0.0, side * rules.turn_radps))


def _turning(guard: Guard, seen: Seen, rules: Rules) -> tuple[Guard, Order]:
    """Turn until there is room (G6), and the twin stands meanwhile."""
    if danger(seen, STOP, rules) is Cause.SCAN or seen.scan is None:
        return _stop(guard, Cause.SCAN, seen)
    free_m = free_ahead_m(seen.scan, 0.0, rules.radius_m)
    turned_rad = guard.turned_rad + abs(wrap(seen.yaw_rad - guard.yaw_rad))
    guard = replace(guard, yaw_rad=seen.yaw_rad, turned_rad=turned_rad, best_free_m=max(guard.best_free_m, free_m))
    if turned_rad >= 2.0 * math.pi:
        guard = replace(guard, enough_m=min(guard.enough_m, NEARLY * guard.best_free_m), last=STOP)
    if free_m >= guard.enough_m and danger(seen, guard.last, rules, START_S + RESUME_S) is Cause.NONE:
        return _enter(guard, Phase.STARTING, seen), Order(guard.last)
    return guard, Order(Twist(0.0, guard.side * rules.turn_radps), pause=seen.twin_running is not False)


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
    shown = seen.frame_ns is not None and seen.frame_ns >= guard.since_ns and not late(seen, rules)
    if seen.twin_running and shown:
        return replace(_enter(guard, Phase.WATCHING, seen), cause=Cause.NONE, failed_ns=None), Order()
    if _elapsed_s(guard, seen) < RESUME_S:
        return guard, Order(guard.last, resume=not seen.twin_running)
    return _not_resumed(guard, seen)
