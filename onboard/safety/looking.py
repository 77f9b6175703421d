"""Turning to look where no camera sees ahead. Pure: state and situation in; state and override out.

With a camera lost, the limits let the robot drive only over ground that was seen free a moment ago (R12 of
`limits.py`). So it turns until another camera has seen the ground ahead, turns back, and drives on over it.

K1   a look begins when the robot has stood for STOOD_S in a drive, about one heading, while no camera sees ahead and
     less than BEGIN_M of the way straight ahead is known to be free
K2   it turns in place, at LOOK_RADPS at most, so that the blind sector passes the wider of the views beside it
K3   it turns back when ENOUGH_M of that way, and of those ABOUT_RAD beside it, is known, or when the whole sector has
     come into full view
K4   it ends when the robot faces its first heading again, within FACING_RAD
K5   a look lasts at most LONGEST_S
K6   the next look waits AGAIN_S, or until the robot has moved by STOOD_M or faces another heading by STOOD_RAD. So
     before ground that stays unknown the policy, the recovery or the mission's time decides
K7   e-stop, operator, no drive, a lost engine, a recovery, and a camera that looks ahead again end a look at once. None
     begins within the goal's tolerance
K8   time that goes backward ends a look
K9   the override is exactly a turn in place during a look, and None otherwise

The limits judge the override like any other command.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.perception import collision, free_ground
from onboard.perception.free_ground import STRAIGHT, FreeGround
from onboard.perception.obstacle_memory import FLANK_BINS
from onboard.safety.limits import Bounds
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance, wrap
from onboard.values.messages import BIN_RAD, BINS, Pose, Scan, Twist

STOOD_S, STOOD_M, STOOD_RAD = 0.4, 0.05, math.radians(25.0)
"""A robot that turns to and fro before unknown ground stands too."""
BEGIN_M = 0.3
ENOUGH_M = 1.2
LOOK_RADPS = 2.0
SLOWER_PER_S = 4.0
"""Yaw rate for each radian that is left of a turn [1/s]: the robot turns slower towards its end."""
LEAST_RADPS = 0.3
FACING_RAD = math.radians(4.0)
ABOUT_RAD = math.radians(8.0)
LONGEST_S = 8.0
AGAIN_S = 10.0
AHEAD_BIN = BINS // 2
BESIDE_RAD = math.radians(20.0)
"""Half the angle that a cell beside the robot takes up, and a little more."""
MOST_RAD = math.radians(150.0)
"""Farther the robot does not turn: what is lost is more than a camera."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of the looking in this tick.

    active: a drive goes on, and the recovery does not back off
    near:   the robot is within the goal's tolerance
    pose:   of the base, by the odometry
    scan:   the scan of the limits
    ground: what was seen free
    """

    active: bool
    near: bool
    pose: Pose
    scan: Scan
    ground: FreeGround


@dataclass(frozen=True, slots=True)
class LookTurn:
    """A look: its start, the heading to return to, the angle to turn by, left positive, and whether it turns back."""

    began_ns: int
    yaw_rad: float
    turn_rad: float
    back: bool = False


@dataclass(frozen=True, slots=True)
class LookingState:
    """State between ticks.

    stood:    place and heading in the odometry frame where the robot stands, since `stood_ns`
    ended_ns: end of the last look there, None before one
    """

    now_ns: int | None = None
    look: LookTurn | None = None
    stood: Pose | None = None
    stood_ns: int = 0
    ended_ns: int | None = None


def advance(
    state: LookingState, situation: Situation, bounds: Bounds, now_ns: int
) -> tuple[LookingState, Twist | None]:
    """Return the new state, and the override of the policy's twist (None: no override)."""
    went_back = state.now_ns is not None and now_ns < state.now_ns
    state = replace(state, now_ns=now_ns)
    if went_back or not situation.active or bounds.seen_free_ns == 0:
        return replace(state, look=None, stood=None), None
    if state.look is not None:
        return _turned(state, state.look, situation, bounds, now_ns)
    state = _standing(state, situation.pose, now_ns)
    turn_rad = _wanted_turn(state, situation, bounds, now_ns)
    if turn_rad is None:
        return state, None
    return _turned(state, LookTurn(now_ns, situation.pose.yaw_rad, turn_rad), situation, bounds, now_ns)


def _standing(state: LookingState, pose: Pose, now_ns: int) -> LookingState:
    """Return the state with the place where the robot stands, a new one where it has left it or faces elsewhere."""
    stood = state.stood
    if stood is None or distance(pose, stood) > STOOD_M or abs(wrap(pose.yaw_rad - stood.yaw_rad)) > STOOD_RAD:
        return replace(state, stood=pose, stood_ns=now_ns, ended_ns=None)
    return state


def _wanted_turn(state: LookingState, situation: Situation, bounds: Bounds, now_ns: int) -> float | None:
    """Return the turn of a new look, None where there is no reason for one (K1, K6)."""
    waits = state.ended_ns is not None and now_ns - state.ended_ns < AGAIN_S * NS_PER_S
    if situation.near or now_ns - state.stood_ns < STOOD_S * NS_PER_S or waits:
        return None
    if not _blind_ahead(situation, bounds):
        return None
    if _known_m(situation, situation.pose.yaw_rad, bounds, now_ns) >= BEGIN_M:
        return None
    return turn_to_see(collision.looked(situation.scan))


def turn_to_see(looked: npt.NDArray[np.bool_]) -> float | None:
    """Return the turn that brings the whole blind sector ahead into full view, left positive [rad]; None without one.

    looked: (180,) bool, the bins that a camera sees
    """
    if not looked.any():
        return None
    left, right = looked[AHEAD_BIN:], looked[AHEAD_BIN - 1 :: -1]
    (left_blind, left_view), (right_blind, right_view) = _blind_then_view(left), _blind_then_view(right)
    turn_rad = (left_blind + right_blind + FLANK_BINS) * BIN_RAD + BESIDE_RAD
    if turn_rad > MOST_RAD:
        return None
    return -turn_rad if left_view >= right_view else turn_rad


def _blind_then_view(side: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the number of blind bins from straight ahead, and of the bins in view that follow."""
    blind = int(np.argmax(side)) if side.any() else len(side)
    view = side[blind:]
    return blind, len(view) if view.all() else int(np.argmin(view))


def _turned(
    state: LookingState, look: LookTurn, situation: Situation, bounds: Bounds, now_ns: int
) -> tuple[LookingState, Twist | None]:
    """Continue a look, or end it (K2 to K5)."""
    yaw_rad = situation.pose.yaw_rad
    off_rad = wrap(yaw_rad - look.yaw_rad)
    if not look.back:
        about = (look.yaw_rad + side * ABOUT_RAD for side in (0.0, 1.0, -1.0))
        seen = all(_known_m(situation, one, bounds, now_ns) >= ENOUGH_M for one in about)
        if seen or abs(off_rad) >= abs(look.turn_rad):
            look = replace(look, back=True)
    faces = look.back and abs(off_rad) <= FACING_RAD
    if faces or not _blind_ahead(situation, bounds) or now_ns - look.began_ns > LONGEST_S * NS_PER_S:
        return replace(state, look=None, stood=situation.pose, stood_ns=now_ns, ended_ns=now_ns), None
    left_rad = -off_rad if look.back else look.turn_rad + math.copysign(FACING_RAD, look.turn_rad) - off_rad
    rate = min(max(SLOWER_PER_S * abs(left_rad), LEAST_RADPS), LOOK_RADPS)
    return replace(state, look=look), Twist(0.0, math.copysign(rate, left_rad))


def _blind_ahead(situation: Situation, bounds: Bounds) -> bool:
    """Return whether no camera sees ahead of where the robot faces now, as in R12 of the limits."""
    return collision.view_sector(situation.scan, STRAIGHT, bounds.swept.reach_m) is collision.SectorView.AHEAD_BLIND


def _known_m(situation: Situation, yaw_rad: float, bounds: Bounds, now_ns: int) -> float:
    """Return how far the ground straight ahead of a heading is known to be free [m]."""
    pose = Pose(situation.pose.x_m, situation.pose.y_m, yaw_rad)
    free_ns, footprint = bounds.seen_free_ns, bounds.footprint
    return free_ground.free_path_m(situation.ground, situation.scan, pose, now_ns, free_ns, footprint, bounds.swept)
