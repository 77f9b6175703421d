"""Recovery: backing off when blocked (paper 1, section 5). Pure: state and situation in; state, override, event out.

R1   blocked: a notice is on, or the policy wants motion, and the wheels measure none. The *policy's* wanted command
     counts, before the limits: a robot that the limits stop before an obstacle is blocked too. While a notice is on
     and the policy wants forward motion, a turn is no motion, as the limits leave only the turn of an arc
R2   blocked for blocked_s without a break: one try, backward at backward_mps
R3   a try lasts at most backward_s
R4   a try goes back at most DISTANCE_SLACK * backward_mps * backward_s by the wheels
R5   a try begins only if the rear is free for rear_clearance_m and the whole distance
R6   a try ends at once if the rear is not free for rear_clearance_m and the remaining distance, less REAR_NOISE_M
R7   a try that cannot begin counts as a try
R8   after a try, no other begins for COOL_DOWN_S
R9   blocked again after `tries` tries within WINDOW_S: the recovery gives up with a reason, until a new goal
R10  e-stop, operator, no goal, engine lost: suspended. A running try ends at once, and the blocked time restarts
R11  the end of a try resets the policy's memory
R12  time that goes backward ends a try, and restarts the blocked time and the cool-down
R13  the override is exactly (-backward_mps, 0) during a try, or as in R19, zero after giving up, and None otherwise
R14  a new goal ends a try, and a recovery that gave up begins anew, its blocked time too. Otherwise tries, blocked time
     and cool-down stay, so that a sequence of goals causes no endless backing
R15  a notice that comes on during a try ends it at once: the robot has backed into something. The same holds for a
     notice in the tick in which the try ends, or within ROLLS_ON_S after it, as the robot still rolls and the message
     is late. While this notice stays on, no try begins
R16  held by a notice: a robot that stays within PLACE_M of its place for blocked_s, while a notice is on, is blocked as
     in R2, whatever it wants, however it turns, and whatever the wheels measure
R17  turning on the spot: a robot that stays within PLACE_M of its place for HELD_S without coming nearer to the goal is
     blocked as in R2. A robot that rests and wants nothing restarts this time, as do the events of R18
R18  the place and its time restart where the robot has left the place, when a notice comes or goes, at R10, R12 and a
     try, refused or not
R19  with back_off off the robot never backs off: a try is a turn in place at TURN_RADPS for TURN_S, to the left and to
     the right in turns, and R3 to R6 do not apply to it

The lower-case names are keys of `recovery` in `onboard/config/config.py`, the upper-case names are constants here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from onboard.config.config import RecoverySection
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.kernel import compilable
from onboard.values.messages import STOP, Twist
from onboard.values.reasons import NO_REASON, Said

DISTANCE_SLACK = 1.5
REAR_NOISE_M = 0.05
"""Tolerance on the free distance behind while backing."""
ROLLS_ON_S = 0.5
"""A notice within this time after a try, refused or not, means an obstacle behind (R15)."""
PLACE_M = 0.3
"""A robot this far from its place has left it: more than a fix moves the estimate, or wheels drift in a turn (R16)."""
TURN_RADPS, TURN_S = 0.8, 2.0
"""A turn in place of backing off (R19), by a quarter of a circle."""
HELD_S = 20.0
"""The longest time at one place without coming nearer to the goal (R17)."""

WINDOW_S, COOL_DOWN_S = 60.0, 2.0
"""Time in which tries count (R9), and wait between two tries (R8)."""
MOVING_MPS, MOVING_RADPS = 0.02, 0.05
"""Slower counts as not moving, and as not turning (R1)."""
COMMANDED_MPS, COMMANDED_RADPS = 0.05, 0.1
"""A command below these asks for no motion (R1)."""

Place = tuple[float, float]

# ---- The rules' arithmetic, for the runtime and for simulation at speed. Times in any one unit


@compilable
def wants_motion(v_mps: float, w_radps: float, commanded_mps: float, commanded_radps: float) -> bool:
    """Return whether a set point asks for motion."""
    return abs(v_mps) > commanded_mps or abs(w_radps) > commanded_radps


@compilable
def is_blocked(notice: bool, ahead: bool, wants: bool, goes: bool, turns: bool) -> bool:
    """Return whether the robot should move and does not (R1).

    notice: `/obstacle` is on; ahead: the set point goes forward; wants: `wants_motion`; goes, turns: by the wheels
    """
    return not (goes or (turns and not (notice and ahead))) and (notice or wants)


@compilable
def rests(notice: bool, wants: bool, goes: bool, turns: bool) -> bool:
    """Return whether the robot rests and wants nothing, so that it has no place (R17)."""
    return not (notice or wants or goes or turns)


@compilable
def has_left(x_m: float, y_m: float, place_x_m: float, place_y_m: float) -> bool:
    """Return whether the robot has left its place (R16 to R18)."""
    return math.hypot(x_m - place_x_m, y_m - place_y_m) > PLACE_M


@compilable
def is_due(
    now: float, blocked: float, place: float, nearer: float, ended: float, notice: bool, blocked_for: float,
    held_for: float, cool_down: float,
) -> bool:  # fmt: skip
    """Return whether a try is due (R2, R8, R16, R17).

    blocked, place: since when the robot is blocked and at its place, inf if it is not
    nearer, ended:  when it last came nearer to the goal, and when the last try ended, -inf for no try
    """
    if now - ended < cool_down:
        return False
    if now - blocked >= blocked_for:
        return True
    return now - place >= blocked_for if notice else now - max(place, nearer) >= held_for


@compilable
def counts(began: float, now: float, window: float) -> bool:
    """Return whether a try still counts (R9)."""
    return now - began < window


@compilable
def may_begin(free_m: float, way_m: float, clearance_m: float) -> bool:
    """Return whether the space behind lets a try begin (R5). way_m: of a whole try"""
    return free_m >= clearance_m + way_m


GOES_ON, ENDS, CUT = 0, 1, 2


@compilable
def backing_ends(
    spent: float, longest: float, backed_m: float, way_m: float, free_m: float, clearance_m: float
) -> int:  # fmt: skip
    """Return whether a try goes on, ends (R3, R4) or is cut short (R6)."""
    if spent >= longest or backed_m >= DISTANCE_SLACK * way_m:
        return ENDS
    return CUT if free_m < clearance_m + max(0.0, way_m - backed_m) - REAR_NOISE_M else GOES_ON


# ---- The recovery of the runtime


class Event(str, Enum):
    """An event of the recovery, for the log, the recording and the runtime."""

    BEGAN = "began"
    ENDED = "ended"
    CUT_SHORT = "cut_short"
    REAR_NOT_FREE = "rear_not_free"
    GAVE_UP = "gave_up"


MEMORY_RESETS = frozenset({Event.ENDED, Event.CUT_SHORT})
"""After these events the policy starts a new sequence: memory reset, previous action NO_ACTION (R11)."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of the recovery in this tick.

    suspended:   e-stop, operator, no goal, or engine lost
    obstacle:    newest value of `/obstacle` (bumper or notice), None before the first
    wanted:      the policy's set point before any limit; None without one
    measured:    the wheels' twist
    travelled_m: length of the path so far, by the wheels (`OdometryState.travelled_m`)
    rear_free_m: free distance behind (`keepout_zones.free_behind_m`); 0 without a view to the rear
    place_m:     filtered position in the start frame; None before the first goal
    nearer_ns:   time at which the robot last came nearer to the goal (`mission.Progress`); None before the first goal
    """

    suspended: bool
    obstacle: bool | None
    wanted: Twist | None
    measured: Twist
    travelled_m: float
    rear_free_m: float
    place_m: Place | None = None
    nearer_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Backing:
    """A running try: its start in time and in the wheels' path length, and its yaw rate, 0 while it backs off."""

    began_ns: int
    began_m: float
    turn_radps: float = 0.0


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """State between ticks.

    blocked_ns: time since when the robot is blocked, None while it is not
    tries_ns:   start times of the tries within the window, oldest first; refused tries (R7) included
    ended_ns:   end of the last try, None before the first
    gave_up:    reason of giving up; empty before
    noticed:    whether a notice was on in the last tick
    backed_into: whether a notice is on that came during a try or just after it (R15)
    place_m:    place of R16 and R17 in the start frame, None while there is none
    place_ns:   time since when the robot is at this place
    """

    now_ns: int | None = None
    blocked_ns: int | None = None
    backing: Backing | None = None
    tries_ns: tuple[int, ...] = ()
    ended_ns: int | None = None
    gave_up: Said = NO_REASON
    noticed: bool = False
    backed_into: bool = False
    place_m: Place | None = None
    place_ns: int = 0


Step = tuple[RecoveryState, Twist | None, Event | None]


def advance(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Return the new state, the override of the policy's twist (None: no override), and the event."""
    state = _with_notice(state, situation.obstacle is True)
    if state.now_ns is not None and now_ns < state.now_ns:
        return _time_went_back(state, now_ns)
    state = replace(state, now_ns=now_ns)
    if state.gave_up:
        return state, STOP, None
    if situation.suspended:
        if state.backing is not None:
            return _ended(state, Event.CUT_SHORT, now_ns)
        return replace(state, blocked_ns=None, place_m=None), None, None
    if state.backing is not None:
        return _back(state, state.backing, situation, section, now_ns)
    state = _placed(state, situation, section, now_ns)
    since_ns = None
    if blocked(situation, section):
        since_ns = now_ns if state.blocked_ns is None else state.blocked_ns
    state = replace(state, blocked_ns=since_ns)
    if not _is_due(state, situation, section, now_ns):
        return state, None, None
    return _try(state, situation, section, now_ns)


def renewed(state: RecoveryState) -> RecoveryState:
    """Return the state for a new goal (R14)."""
    ended_ns = state.ended_ns if state.backing is None else state.now_ns
    return replace(state, backing=None, gave_up=NO_REASON, ended_ns=ended_ns)


def blocked(situation: Situation, section: RecoverySection) -> bool:
    """Return whether the robot should move and does not (R1)."""
    ahead = situation.wanted is not None and situation.wanted.v_mps > 0.0
    return is_blocked(situation.obstacle is True, ahead, _wants(situation), *_moves(situation))


def _is_due(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> bool:
    placed = state.place_m is not None and situation.nearer_ns is not None
    blocked_ns = math.inf if state.blocked_ns is None else state.blocked_ns
    place_ns, nearer_ns = state.place_ns if placed else math.inf, situation.nearer_ns or 0
    ended_ns = -math.inf if state.ended_ns is None else state.ended_ns
    longest_ns = section.blocked_s * NS_PER_S, HELD_S * NS_PER_S, COOL_DOWN_S * NS_PER_S
    return is_due(now_ns, blocked_ns, place_ns, nearer_ns, ended_ns, situation.obstacle is True, *longest_ns)


def path_m(section: RecoverySection) -> float:
    """Return the distance of a whole try [m]."""
    return section.backward_mps * section.backward_s


def _wants(situation: Situation) -> bool:
    wanted = situation.wanted or STOP
    return wants_motion(wanted.v_mps, wanted.w_radps, COMMANDED_MPS, COMMANDED_RADPS)


def _moves(situation: Situation) -> tuple[bool, bool]:
    """Return whether the robot goes, and whether it turns, by the wheels."""
    measured = situation.measured
    return abs(measured.v_mps) > MOVING_MPS, abs(measured.w_radps) > MOVING_RADPS


def _placed(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> RecoveryState:
    """Return the state with the place of R16 and R17, a new one where the robot has left it or rests."""
    here_m, notice = situation.place_m, situation.obstacle is True
    if here_m is None or rests(notice, _wants(situation), *_moves(situation)):
        return replace(state, place_m=None)
    if state.place_m is None or has_left(*here_m, *state.place_m):
        return replace(state, place_m=here_m, place_ns=now_ns)
    return state


def _with_notice(state: RecoveryState, noticed: bool) -> RecoveryState:
    """Return the state with this tick's notice, and whether the robot has backed into something (R15).

    The time is the last tick's, as this tick's time may have gone backward (R12).
    """
    backs = state.backing is not None
    if state.now_ns is not None and state.ended_ns is not None:
        backs = backs or state.now_ns - state.ended_ns < ROLLS_ON_S * NS_PER_S
    comes = noticed and not state.noticed
    place_m = state.place_m if noticed == state.noticed else None
    backed_into = noticed and (state.backed_into or (comes and backs))
    return replace(state, noticed=noticed, backed_into=backed_into, place_m=place_m)


def _try(state: RecoveryState, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Begin a try, count a try that cannot begin, or give up."""
    tries_ns = tuple(began_ns for began_ns in state.tries_ns if counts(began_ns, now_ns, WINDOW_S * NS_PER_S))
    if len(tries_ns) >= section.tries:
        reason = reasons.BLOCKED.say(tries=len(tries_ns), window_s=WINDOW_S)
        return replace(state, gave_up=reason, blocked_ns=None, place_m=None), STOP, Event.GAVE_UP
    state = replace(state, tries_ns=(*tries_ns, now_ns), blocked_ns=None, place_m=None)
    free = not section.back_off or may_begin(situation.rear_free_m, path_m(section), section.rear_clearance_m)
    if state.backed_into or not free:
        return replace(state, ended_ns=now_ns), None, Event.REAR_NOT_FREE
    if not section.back_off:
        turn_radps = math.copysign(TURN_RADPS, len(state.tries_ns) % 2 - 0.5)
        state = replace(state, backing=Backing(now_ns, situation.travelled_m, turn_radps))
        return state, Twist(0.0, turn_radps), Event.BEGAN
    state = replace(state, backing=Backing(now_ns, situation.travelled_m))
    return state, Twist(-section.backward_mps, 0.0), Event.BEGAN


def _back(state: RecoveryState, backing: Backing, situation: Situation, section: RecoverySection, now_ns: int) -> Step:
    """Continue a try, or end it."""
    spent_ns, backed_m = now_ns - backing.began_ns, situation.travelled_m - backing.began_m
    if backing.turn_radps and not state.backed_into:
        over = spent_ns >= TURN_S * NS_PER_S
        return _ended(state, Event.ENDED, now_ns) if over else (state, Twist(0.0, backing.turn_radps), None)
    room = path_m(section), situation.rear_free_m, section.rear_clearance_m
    end = backing_ends(spent_ns, section.backward_s * NS_PER_S, backed_m, *room)
    if state.backed_into or end == CUT:
        return _ended(state, Event.CUT_SHORT, now_ns)
    if end == ENDS:
        return _ended(state, Event.ENDED, now_ns)
    return state, Twist(-section.backward_mps, 0.0), None


def _ended(state: RecoveryState, event: Event, now_ns: int) -> Step:
    """Return the state after a try; the policy drives again."""
    return replace(state, backing=None, ended_ns=now_ns), None, event


def _time_went_back(state: RecoveryState, now_ns: int) -> Step:
    """Restart all times: earlier tries count as tries of now, and the cool-down begins."""
    tries_ns = tuple(now_ns for _ in state.tries_ns)
    state = replace(state, now_ns=now_ns, blocked_ns=None, tries_ns=tries_ns, ended_ns=now_ns, place_m=None)
    if state.gave_up:
        return state, STOP, None
    if state.backing is not None:
        return _ended(state, Event.CUT_SHORT, now_ns)
    return state, None, None
