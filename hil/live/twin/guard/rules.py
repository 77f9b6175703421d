"""Safety rules for a robot that drives for its twin (paper 4). Pure: from state and inputs to new state and order.

G1   The guard waits before the twin runs, and while another process or the twin itself has paused the twin. A waiting
     guard stops the robot only if the robot moves into danger. If the robot moves when the twin is paused or no longer
     heard, the guard stops the robot first and holds it for `HOLD_S`. After that, the runtime has no virtual frames,
     so its own limits stop the robot
G2   Danger: the free distance along the commanded arc to the nearest real obstacle is at most the braking distance plus
     `margin_m`. The braking distance is for the higher of commanded and measured speed; paper 4: 1.5 m from 1 m/s
G3   A real scan that is missing or older than `scan_stale_s` is danger. An arc into a sector that no camera sees is
     danger too (onboard.perception.collision). The guard rejects a scan in a frame other than the base's frame, and a
     scan whose stamp does not increase (`process.py`). A second publisher of the scan or of the odometry is danger
G4   A virtual frame is late if its arrival is more than `deadline_s` ago. It is also late if the odometry that caused
     it differs by more than `deadline_s` from the newest odometry, by the robot's stamps. A late frame causes a safety
     stop
G5   A safety stop commands zero and pauses the twin, until both robot and twin stand
G6   After danger the robot turns at `turn_radps`, to the nearer side with enough room. The turn ends when there is
     enough room straight ahead and the arc of the last velocity is free of danger. Enough room is `free_m`, or
     `NEARLY` times the largest free distance that the scan shows. The arc must stay free for the whole duration of G7.
     After a whole turn, enough room is at most `NEARLY` times the largest distance found ahead, and the robot continues
     from rest
G7   Then the guard commands the last velocity until the robot has that velocity, for at most `START_S`. Then it also
     resumes the twin, until frames come again, for at most `RESUME_S`. G2 and G3 hold during this time and lead back to
     G5. The last velocity is zero after a reset of the twin, and while the runtime drives to no goal
G8   While the twin is not heard, the guard commands only zero. If the twin does not resume, or its frames are late
     again within `STEADY_S`, the guard tries again after `RETRY_S`, from rest. The guard waits (G1) after `TRIES`
     failures in a row, or if the twin was not heard for `GONE_S`
G9   A virtual contact stops the robot and cancels its goal in every phase, because the twin is then reset elsewhere
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from hil.live.twin.guard.danger import Cause, GuardInputs, Rules, danger, free_ahead_m, late, moves, resting
from onboard.perception import collision
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import wrap
from onboard.values.messages import STOP, Twist

REACHED_MPS = 0.1
"""Tolerance of the measured speed: within it, the robot has the last velocity (G7)."""
START_S = 0.6
RESUME_S = 0.5
RETRY_S = 1.0
STEADY_S = 2.0
TRIES = 5
GONE_S = 3.0
HOLD_S = 1.0
"""Time for which a stop is held (G1). It is longer than the runtime uses its last virtual scan."""
ELSEWHERE_S = 1.0
"""Time after a reset in which a command may still belong to the previous place."""
NEARLY = 0.9
"""Fraction of the largest free distance that is enough room, if no direction is free for `free_m` (G6)."""


class Phase(str, Enum):
    """Phase of the guard. The values appear in its log and its result."""

    WAITING = "waiting"
    WATCHING = "watching"
    STOPPING = "stopping"
    TURNING = "turning"
    STARTING = "starting"
    RESUMING = "resuming"


@dataclass(frozen=True, slots=True)
class Guard:
    """State of the guard between two looks.

    phase:        present phase
    cause:        cause of the stop or of the wait
    since_ns:     time when the phase began [ns]
    last:         velocity before the stop, commanded again after the stop (G7)
    side:         side of the turn, 1 is left and -1 is right
    turned_rad:   angle of this turn so far
    yaw_rad:      heading at the last look of the turn
    enough_m:     free distance straight ahead that ends this turn
    best_free_m:  largest free distance straight ahead in this turn
    failed_ns:    time of the twin's last failure to resume [ns]; None without a failure
    tries:        number of failures in a row
    waits:        whether the guard waits after this stop and sends no pause to the twin
    elsewhere_ns: time of the last request to reset the twin [ns]; None without a request
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
class GuardMessages:
    """Messages to send: an operator's command (None sends no command), pause and resume (twin), cancel (runtime)."""

    teleop: Twist | None = None
    pause: bool = False
    resume: bool = False
    cancel: bool = False


def advance(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Return the guard's new state after a look, and its order."""
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


def _enter(guard: Guard, phase: Phase, seen: GuardInputs) -> Guard:
    return replace(guard, phase=phase, since_ns=seen.now_ns, yaw_rad=seen.yaw_rad)


def _elapsed_s(guard: Guard, seen: GuardInputs) -> float:
    return (seen.now_ns - guard.since_ns) / NS_PER_S


def _touched(guard: Guard, seen: GuardInputs) -> tuple[Guard, GuardMessages]:
    """Stop the robot and cancel its goal, in every phase (G9)."""
    at_rest = guard.phase in (Phase.WAITING, Phase.WATCHING)
    waits = seen.twin_running is not True if at_rest else guard.waits
    return _stop(replace(guard, last=STOP, waits=waits), Cause.CONTACT, seen)


def _waiting(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Begin to watch when the twin runs and its frames are not late. Otherwise stop a robot in danger (G1)."""
    if seen.twin_running and not late(seen, rules):
        fresh = replace(guard, cause=Cause.NONE, failed_ns=None, tries=0, waits=False)
        return _enter(fresh, Phase.WATCHING, seen), GuardMessages()
    known = seen.command != STOP or seen.measured is not None
    cause = danger(seen, seen.command, rules) if known and moves(seen) else Cause.NONE
    if cause is not Cause.NONE:
        return _stop(replace(guard, last=STOP, waits=True), cause, seen)
    return guard, GuardMessages()


def _watching(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Begin a safety stop if the robot is in danger, a frame is late, or the twin does not run (G1 to G4)."""
    if not seen.twin_running:
        return _left_alone(guard, Cause.SILENT if seen.twin_running is None else Cause.PAUSED, seen)
    cause, steady = danger(seen, seen.command, rules), _elapsed_s(guard, seen) >= STEADY_S
    if cause is Cause.NONE and late(seen, rules):
        cause = Cause.LATE
    guard = replace(guard, tries=0 if steady else guard.tries)
    if cause is Cause.NONE:
        return guard, GuardMessages()
    if cause is Cause.LATE and not steady:
        return _not_resumed(guard, seen)
    return _stop(replace(guard, last=_worth_keeping(guard, seen)), cause, seen)


def _left_alone(guard: Guard, cause: Cause, seen: GuardInputs) -> tuple[Guard, GuardMessages]:
    """Wait, because the twin does not run. If the robot moves, stop it first (G1)."""
    guard = replace(guard, last=STOP, waits=True)
    if moves(seen):
        return _stop(guard, cause, seen)
    return replace(_enter(guard, Phase.WAITING, seen), cause=cause), GuardMessages()


def _worth_keeping(guard: Guard, seen: GuardInputs) -> Twist:
    """Return the velocity to command after the stop. It is zero if the commanded velocity is not forward.

    It is also zero shortly after a reset of the twin, and while the runtime drives to no goal.
    """
    moved = guard.elsewhere_ns is not None and seen.now_ns - guard.elsewhere_ns < ELSEWHERE_S * NS_PER_S
    return seen.command if seen.command.v_mps > 0.0 and not moved and seen.driving is not False else STOP


def _stop(guard: Guard, cause: Cause, seen: GuardInputs) -> tuple[Guard, GuardMessages]:
    """Begin a safety stop (G5, G9)."""
    stopped = replace(_enter(guard, Phase.STOPPING, seen), cause=cause)
    return stopped, GuardMessages(STOP, pause=not guard.waits, cancel=cause is Cause.CONTACT)


def _failed(guard: Guard, seen: GuardInputs) -> Guard:
    """Return the guard after the twin failed to resume: it continues from rest, and waits after `TRIES` (G8)."""
    tries = guard.tries + 1
    return replace(guard, last=STOP, failed_ns=seen.now_ns, tries=tries, waits=tries >= TRIES)


def _not_resumed(guard: Guard, seen: GuardInputs) -> tuple[Guard, GuardMessages]:
    guard = _failed(guard, seen)
    return _stop(guard, Cause.GAVE_UP if guard.waits else Cause.LATE, seen)


def _stopping(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Command zero until robot and twin stand (G5). Then turn, start again if the path is free, or wait."""
    gone = seen.twin_running is None and _elapsed_s(guard, seen) >= GONE_S
    if resting(seen.measured) and (gone or (guard.waits and _elapsed_s(guard, seen) >= HOLD_S)):
        cause = Cause.SILENT if gone else guard.cause
        return replace(_enter(guard, Phase.WAITING, seen), cause=cause, last=STOP), GuardMessages()
    early = guard.failed_ns is not None and seen.now_ns - guard.failed_ns < RETRY_S * NS_PER_S
    standing = resting(seen.measured) and seen.twin_running is False
    if guard.waits or not standing or early or danger(seen, STOP, rules) is Cause.SCAN:
        return guard, GuardMessages(STOP, pause=not guard.waits and seen.twin_running is not False)
    if guard.cause is Cause.CONTACT:
        return _enter(replace(guard, last=STOP), Phase.RESUMING, seen), GuardMessages(STOP, resume=True)
    if danger(seen, guard.last, rules) is Cause.NONE and guard.cause in (Cause.LATE, Cause.SILENT):
        return _enter(guard, Phase.STARTING, seen), GuardMessages(guard.last)
    return _begin_turn(guard, seen, rules)


def _begin_turn(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Begin a turn: choose how much room is enough, and the nearer side with that room (G6)."""
    bearings = [float(bearing) for bearing in collision.BIN_CENTERS_RAD] if seen.scan else []
    free = {bearing: free_ahead_m(seen.scan, bearing, rules.radius_m) for bearing in bearings if seen.scan}
    enough_m = min(rules.free_m, NEARLY * max(free.values(), default=0.0))
    nearest = min((bearing for bearing, free_m in free.items() if free_m >= enough_m), key=abs, default=1.0)
    side = 1 if nearest >= 0.0 else -1
    guard = replace(guard, side=side, turned_rad=0.0, best_free_m=0.0, enough_m=enough_m)
    return _enter(guard, Phase.TURNING, seen), GuardMessages(Twist(0.0, side * rules.turn_radps))


def _turning(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Turn until there is enough room, while the twin is paused (G6)."""
    if danger(seen, STOP, rules) is Cause.SCAN or seen.scan is None:
        return _stop(guard, Cause.SCAN, seen)
    free_m = free_ahead_m(seen.scan, 0.0, rules.radius_m)
    turned_rad = guard.turned_rad + abs(wrap(seen.yaw_rad - guard.yaw_rad))
    guard = replace(guard, yaw_rad=seen.yaw_rad, turned_rad=turned_rad, best_free_m=max(guard.best_free_m, free_m))
    if turned_rad >= 2.0 * math.pi:
        guard = replace(guard, enough_m=min(guard.enough_m, NEARLY * guard.best_free_m), last=STOP)
    if free_m >= guard.enough_m and danger(seen, guard.last, rules, START_S + RESUME_S) is Cause.NONE:
        return _enter(guard, Phase.STARTING, seen), GuardMessages(guard.last)
    return guard, GuardMessages(Twist(0.0, guard.side * rules.turn_radps), pause=seen.twin_running is not False)


def _going_on(guard: Guard, seen: GuardInputs, rules: Rules) -> tuple[Guard, GuardMessages]:
    """Command the last velocity, then resume the twin, then let the policy drive the robot again (G7, G8)."""
    cause = danger(seen, guard.last, rules)
    if cause is not Cause.NONE and guard.last != STOP:
        return _stop(guard, cause, seen)
    if guard.phase is Phase.STARTING:
        reached = seen.measured is not None and abs(seen.measured.v_mps - guard.last.v_mps) <= REACHED_MPS
        if not reached and _elapsed_s(guard, seen) < START_S:
            return guard, GuardMessages(guard.last)
        return _enter(guard, Phase.RESUMING, seen), GuardMessages(guard.last, resume=True)
    shown = seen.frame_ns is not None and seen.frame_ns >= guard.since_ns and not late(seen, rules)
    if seen.twin_running and shown:
        return replace(_enter(guard, Phase.WATCHING, seen), cause=Cause.NONE, failed_ns=None), GuardMessages()
    if _elapsed_s(guard, seen) < RESUME_S:
        return guard, GuardMessages(guard.last, resume=not seen.twin_running)
    return _not_resumed(guard, seen)
