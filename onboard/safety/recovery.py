"""Backing off when blocked (paper 1, section 1.5). Pure: state and situation in; new state, override and event out.

R1   blocked: an obstacle is notified, or the policy wants motion, and the wheels measure none. What the *policy*
     wants counts, not what the limits let through: a robot that they hold before an obstacle is blocked as well. While
     one is notified and the policy wants forward, turning is no motion: of an arc the limits leave only the turn
R2   blocked for blocked_s without a break: one try. It goes backward at backward_mps
R3   a try lasts at most backward_s
R4   a try goes back at most DISTANCE_SLACK * backward_mps * backward_s by the wheels
R5   a try begins only when the rear is free for rear_clearance_m and the whole way
R6   a try ends at once when the rear is no longer free for rear_clearance_m and the rest of the way, less REAR_NOISE_M
R7   a try that cannot begin counts as one
R8   after a try, none begins for cool_down_s
R9   blocked again after `tries` tries within window_s: it gives up with a reason, and stays so until a new goal
R10  e-stop, operator, no goal, engine lost: suspended; a try under way ends at once, the time blocked starts anew
R11  the end of a try asks for a reset of the policy's memory
R12  time that goes backward ends a try, and starts the time blocked and the cool-down anew
R13  the override is exactly (-backward_mps, 0) during a try, zero after giving up, and None otherwise
R14  a new goal ends a try and a giving up, and nothing else: tries, time blocked and cool-down stay, so that goals that
     follow each other do not make the backing endless. After a giving up the time blocked starts anew
R15  a notice that comes on during a try ends it at once: it has backed into something. So it has when the notice comes
     in the tick in which anything else ends the try, or within ROLLS_ON_S after it: it still rolls, and the word is on
     its way. While that notice stays on, no try begins
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from onboard.config.config import RecoverySection
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Twist

DISTANCE_SLACK = 1.5
REAR_NOISE_M = 0.05
"""While backing, the rear may seem this much nearer than foretold before it counts as something new."""
ROLLS_ON_S = 0.5
"""A notice that comes so soon after the end of a try, refused or not, tells of what is behind (R15)."""


class Event(str, Enum):
    """What happened in a tick, for the log, the recording and the runtime."""

    BEGAN = "began"
    ENDED = "ended"
    CUT_SHORT = "cut_short"
    REAR_NOT_FREE = "rear_not_free"
    GAVE_UP = "gave_up"


MEMORY_RESETS = frozenset({Event.ENDED, Event.CUT_SHORT})
"""After these the policy starts a new sequence: memory reset, previous action NO_ACTION (R11)."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the recovery looks at, this tick.

    suspended:   e-stop, operator, no goal being driven to, or nobody who decides
    obstacle:    last state of `/obstacle` (bumper or notice), None before the first
    wanted:      the policy's set point before any limit, None when it has none
    measured:    the wheels' twist
    travelled_m: length of the path so far, by the wheels (`OdometryState.travelled_m`)
    rear_free_m: how far back nothing is in the way (`zones.free_behind_m`); 0 when nobody looks there
    """

    suspended: bool
    obstacle: bool | None
    wanted: Twist | None
    measured: Twist
    travelled_m: float
    rear_free_m: float


@dataclass(frozen=True, slots=True)
class Backing:
    """A try under way: when it began, and where on the wheels' path."""

    began_ns: int
    began_m: float


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """What lives between ticks.

    blocked_ns: since when the robot is blocked, None while it is not
    tries_ns:   when the tries within the window began, oldest first; refused ones (R7) included
    ended_ns:   when the last try ended, None before the first
    gave_up:    why; empty while it has not
    noticed:    whether a notice was on in the last tick
    backed_into: whether a notice is on that came during a try or just after it (R15)
    """

    now_ns: int | None = None
    blocked_ns: int | None = None
    backing: Backing | None = None
    tries_ns: tuple[int, ...] = ()
    ended_ns: int | None = None
    gave_up: str = ""
    noticed: bool = False
    backed_into: bool = False


Step = tuple[RecoveryState, Twist | None, Event | None]


def advance(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Return the new state, the twist that replaces the policy's (None: the policy's stands), and what happened."""
    state = _noticing(state, situation.obstacle is True)
    if state.now_ns is not None and now_ns < state.now_ns:
        return _time_went_back(state, now_ns)
    state = replace(state, now_ns=now_ns)
    if state.gave_up:
        return state, STOP, None
    if situation.suspended:
        if state.backing is not None:
            return _ended(state, Event.CUT_SHORT, now_ns)
        return replace(state, blocked_ns=None), None, None
    if state.backing is not None:
        return _back(state, state.backing, situation, section, now_ns)
    if not blocked(situation, section):
        return replace(state, blocked_ns=None), None, None
    since_ns = now_ns if state.blocked_ns is None else state.blocked_ns
    state = replace(state, blocked_ns=since_ns)
    cooling = state.ended_ns is not None and now_ns - state.ended_ns < section.cool_down_s * NS_PER_S
    if cooling or now_ns - since_ns < section.blocked_s * NS_PER_S:
        return state, None, None
    return _try(state, situation, section, now_ns)


def renewed(state: RecoveryState) -> RecoveryState:
    """Return the state for a new goal (R14)."""
    ended_ns = state.ended_ns if state.backing is None else state.now_ns
    return replace(state, backing=None, gave_up="", ended_ns=ended_ns)


def blocked(situation: Situation, section: RecoverySection) -> bool:
    """Return whether the robot ought to move and does not (R1)."""
    measured, wanted = situation.measured, situation.wanted
    held = situation.obstacle is True and wanted is not None and wanted.v_mps > 0.0
    turns = abs(measured.w_radps) > section.moving_radps and not held
    moves = abs(measured.v_mps) > section.moving_mps or turns
    wants = wanted is not None and (
        abs(wanted.v_mps) > section.commanded_mps or abs(wanted.w_radps) > section.commanded_radps
    )
    return not moves and (situation.obstacle is True or wants)


def way_m(section: RecoverySection) -> float:
    """Return how far back a whole try goes."""
    return section.backward_mps * section.backward_s


def _noticing(state: RecoveryState, noticed: bool) -> RecoveryState:
    """Return the state with this tick's notice: whether it tells of something that the robot has backed into (R15).

    Times are those of the last tick: nobody looked since, and this one's may have gone backward (R12).
    """
    backs = state.backing is not None
    if state.now_ns is not None and state.ended_ns is not None:
        backs = backs or state.now_ns - state.ended_ns < ROLLS_ON_S * NS_PER_S
    comes = noticed and not state.noticed
    return replace(state, noticed=noticed, backed_into=noticed and (state.backed_into or (comes and backs)))


def _try(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Begin a try, count one that cannot begin, or give up."""
    tries_ns = tuple(began_ns for began_ns in state.tries_ns if now_ns - began_ns < section.window_s * NS_PER_S)
    if len(tries_ns) >= section.tries:
        reason = f"blocked: {len(tries_ns)} recoveries in {section.window_s:g} s failed"
        return replace(state, gave_up=reason, blocked_ns=None), STOP, Event.GAVE_UP
    state = replace(state, tries_ns=(*tries_ns, now_ns), blocked_ns=None)
    if state.backed_into or situation.rear_free_m < section.rear_clearance_m + way_m(section):
        return replace(state, ended_ns=now_ns), None, Event.REAR_NOT_FREE
    state = replace(state, backing=Backing(now_ns, situation.travelled_m))
    return state, Twist(-section.backward_mps, 0.0), Event.BEGAN


def _back(state: RecoveryState, backing: Backing, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Go on with a try, or end it."""
    backed_m = situation.travelled_m - backing.began_m
    if state.backed_into:
        return _ended(state, Event.CUT_SHORT, now_ns)
    if now_ns - backing.began_ns >= section.backward_s * NS_PER_S:
        return _ended(state, Event.ENDED, now_ns)
    if backed_m >= DISTANCE_SLACK * way_m(section):
        return _ended(state, Event.ENDED, now_ns)
    rest_m = max(0.0, way_m(section) - backed_m)
    if situation.rear_free_m < section.rear_clearance_m + rest_m - REAR_NOISE_M:
        return _ended(state, Event.CUT_SHORT, now_ns)
    return state, Twist(-section.backward_mps, 0.0), None


def _ended(state: RecoveryState, event: Event, now_ns: int) -> Step:
    """Return the state after a try; the policy has the robot again."""
    return replace(state, backing=None, ended_ns=now_ns), None, event


def _time_went_back(state: RecoveryState, now_ns: int) -> Step:
    """Start all times anew: the tries so far count as if they were made now, and the cool-down begins."""
    tries_ns = tuple(now_ns for _ in state.tries_ns)
    state = replace(state, now_ns=now_ns, blocked_ns=None, tries_ns=tries_ns, ended_ns=now_ns)
    if state.gave_up:
        return state, STOP, None
    if state.backing is not None:
        return _ended(state, Event.CUT_SHORT, now_ns)
    return state, None, None
