"""The state machine of one goal: idle, navigating, recovering, reached, stopped(reason). Pure; time is an argument.

idle / reached / stopped --goal accepted--> navigating
idle / reached / stopped --goal refused--> stopped(reason)
navigating <--recovery begins / ends--> recovering
navigating --own stop, at rest, within tolerance--> reached
navigating / recovering --e-stop, fault, battery, input lost, occupied or enclosed goal, no progress, time-out, gave up
--> stopped
navigating / recovering --cancel--> idle

A sequence of goals is driven goal by goal: each is an episode of its own, and begins where the robot comes within
tolerance of the one before (`passes`). A pause is a latch of its own: the robot stands, the goal stays, and no time
counts until a resume, also over the end of a drive.

`Runtime.tick` asks five times in a tick whether the drive ends, in this order; the first reason stays:
1. `stop`, when odometry was refused, contradicts itself or jumped;
2. `cancel`, from the operator;
3. `judge`: engine failed, e-stop, empty battery, input lost, reached, no progress, time-out;
4. `look_at_goal`, when a decision senses: the goal is occupied or enclosed;
5. `stop`, when the recovery gave up.
The recordings hold this order, so replay compares it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from onboard.config.config import GoalSection
from onboard.navigation import arrival, goal_place, heading
from onboard.navigation.arrival import NO_ARRIVAL, Arrival
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.goal_place import Ring
from onboard.navigation.start_frame import Start
from onboard.perception import collision
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, distance, inverse, wrap
from onboard.values.kernel import compilable
from onboard.values.messages import BINS, STOP, Pose, Scan, Twist
from onboard.values.reasons import JOIN, NO_REASON, Said

# ---- Progress towards the goal. A goal behind a wall shows only in a lack of progress

IMPROVEMENT_M = 0.05
"""The least improvement of the nearest distance that counts as progress."""
PATH_IMPROVEMENT_M, REPLAN_M = 0.5, 1.0
"""With a map, so much less path left is progress too. A change by more between two decisions is another plan."""


@compilable
def comes_nearer(distance_m: float, best_m: float) -> bool:
    """Return whether a distance to the goal is progress."""
    return distance_m <= best_m - IMPROVEMENT_M


@compilable
def is_over(since: float, now: float, longest: float) -> bool:
    """Return whether a time is over without progress. In any one unit of time"""
    return now - since >= longest


@dataclass(frozen=True, slots=True)
class Progress:
    """The nearest distance to the goal in this episode, and the time of the last progress.

    left_m, least_left_m: path left in the newest decision with a map, and the least of this plan; inf before
    """

    best_m: float
    since_ns: int
    left_m: float = math.inf
    least_left_m: float = math.inf


def track_progress(
    progress: Progress, distance_m: float, held: bool, section: GoalSection, now_ns: int
) -> tuple[Progress, Said]:
    """Return the progress, and the reason to stop or "". While an operator drives (`held`), the time does not
    count."""
    if comes_nearer(distance_m, progress.best_m):
        return replace(progress, best_m=distance_m, since_ns=now_ns), NO_REASON
    if held or now_ns < progress.since_ns:
        return replace(progress, since_ns=now_ns), NO_REASON
    if is_over(progress.since_ns, now_ns, section.progress_timeout_s * NS_PER_S):
        return progress, reasons.NO_PROGRESS.say(seconds=section.progress_timeout_s)
    return progress, NO_REASON


def track_path(progress: Progress, left_m: float, now_ns: int) -> Progress:
    """Return the progress after a decision of a policy that plans in a map. left_m: as in `Decision`, inf without a map

    So a detour may lead away from the goal for any time. Another plan is no progress: its path must get shorter first.
    """
    if math.isinf(left_m):
        return progress
    if abs(left_m - progress.left_m) > REPLAN_M:
        return replace(progress, left_m=left_m, least_left_m=left_m)
    if left_m > progress.least_left_m - PATH_IMPROVEMENT_M:
        return replace(progress, left_m=left_m)
    return replace(progress, since_ns=now_ns, left_m=left_m, least_left_m=left_m)


REST_MPS, REST_RADPS = 0.02, 0.05
"""Slower counts as standing, and as not turning."""
REST_DECISIONS = 2
"""Stop actions in a row, at rest within tolerance, after which the goal is reached."""
STOP_SHORT_S = 5.0
"""Time at rest away from the goal after which the drive ends."""
LOST_INPUT_S = 5.0
"""Time without odometry, scan or decision after which the drive ends."""


@compilable
def has_stopped(
    stops: float, v_mps: float, w_radps: float, rest_decisions: float, rest_mps: float, rest_radps: float
) -> bool:  # fmt: skip
    """Return whether the robot is at rest by the policy's own stop. stops: stop actions in a row"""
    return stops >= rest_decisions and abs(v_mps) <= rest_mps and abs(w_radps) <= rest_radps


OCCUPIED_S = 4.5
"""Decisions of so much time must show the goal occupied. An error of the pose makes a free goal seem so for less."""
ENCLOSED_S = 2.0
"""The same for obstacles all around the goal, which have been gathered while the robot drove about it."""


class State(str, Enum):
    """State of the current goal."""

    IDLE = "idle"
    NAVIGATING = "navigating"
    RECOVERING = "recovering"
    REACHED = "reached"
    STOPPED = "stopped"


REFUSAL_SHOWN_S = 2
"""How long the state shows the refusal of another goal."""

DRIVING = (State.NAVIGATING, State.RECOVERING)


def state_word(state: str) -> str:
    """Return a published state without its reason and the faults beside it: "reached" of "reached; overload"."""
    return state.partition(":")[0].partition(";")[0]


def drives(state: str) -> bool:
    """Return whether the robot drives to a goal in a published state."""
    return state.startswith(tuple(one.value for one in DRIVING))


@dataclass(frozen=True, slots=True)
class Mission:
    """The current goal and its state.

    reason:      of the state; shown after it
    goal_xy_m:   the static goal in the start frame; None before the first goal
    episode:     number of accepted goals
    started_ns:  time when the goal was accepted, monotonic
    progress:    progress towards this goal; None before the first goal
    stops:       stop actions in a row
    stopped_since_ns: time when the robot came to rest by its own stop; None before
    told_ns:     time since when the refusal of another goal is shown
    occupied_s:  time of the decisions whose scan shows the goal occupied, since a scan showed it free
    ring, enclosed_s: what was seen about the goal, and time of the decisions since it leaves no path to the goal
    arrival:     the policy's stops at the goal
    heading_rad: heading of the last goal in the start frame; None: any
    turning_ns:  time since when the robot turns to it; None while it does not
    then_xy_m:   goals after this one, in the start frame
    passed:      goals of this sequence before this one
    paused_ns:   time since when this drive is paused; None without a pause
    asked_ns:    stamp of the newest request that set or repeated this goal, its sender's clock; 0 before
    refused_ns:  stamp of the newest refused request; 0 before
    refusal:     why
    """

    state: State = State.IDLE
    reason: Said = NO_REASON
    goal_xy_m: tuple[float, float] | None = None
    episode: int = 0
    started_ns: int = 0
    progress: Progress | None = None
    stops: int = 0
    stopped_since_ns: int | None = None
    told_ns: int | None = None
    occupied_s: float = 0.0
    ring: Ring = ()
    enclosed_s: float = 0.0
    arrival: Arrival = NO_ARRIVAL
    heading_rad: float | None = None
    turning_ns: int | None = None
    then_xy_m: tuple[tuple[float, float], ...] = ()
    passed: int = 0
    paused_ns: int | None = None
    asked_ns: int = 0
    refused_ns: int = 0
    refusal: Said = NO_REASON

    @property
    def paused(self) -> bool:
        """True between a pause and a resume, with a goal or without."""
        return self.paused_ns is not None

    @property
    def turning(self) -> bool:
        """True while the robot turns to the final heading."""
        return self.turning_ns is not None

    @property
    def driving(self) -> bool:
        """True while the robot drives to a goal."""
        return self.state in DRIVING

    def away_m(self, pose: Pose | None) -> float | None:
        """Return the distance from a pose in the start frame to the goal [m]; None without pose or goal."""
        if self.goal_xy_m is None or pose is None:
            return None
        return distance(pose, Pose(*self.goal_xy_m, 0.0))

    def text(self) -> str:
        """Return the state as `/onboard/state` shows it: "navigating" or "stopped: e_stop"; behind it a pause.

        Behind "reached" a doubt follows like a fault does, as the goal is reached nevertheless.
        """
        mark = JOIN if self.state is State.REACHED else ": "
        text = f"{self.state.value}{mark}{self.reason}" if self.reason else self.state.value
        return f"{text}{JOIN}{reasons.PAUSED.say()}" if self.paused else text


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of the mission in this tick.

    pose:     filtered, in the start frame
    measured: the wheels' twist
    held:     an operator drives, or the drive is paused
    lost_ns:  time since when a required input is lost; None while all are there
    lost:     which input that is, and its age (`lost_input.described`)
    failure:  reason of an engine failure, or ""
    battery:  reason of an empty battery, or ""
    uncertain_m: two standard deviations of the position; None if they are unknown
    """

    now_ns: int
    pose: Pose
    measured: Twist
    e_stop: bool = False
    held: bool = False
    lost_ns: int | None = None
    lost: str = ""
    failure: Said = NO_REASON
    battery: Said = NO_REASON
    uncertain_m: float | None = None


def accept(
    mission: Mission,
    goal_xy_m: tuple[float, float],
    now_ns: int,
    *,
    heading_rad: float | None = None,
    then_xy_m: tuple[tuple[float, float], ...] = (),
    asked_ns: int = 0,
) -> Mission:
    """Return the mission with a new goal, which replaces the old goal. A pause stays."""
    progress = Progress(math.hypot(*goal_xy_m), now_ns)
    return Mission(
        State.NAVIGATING, NO_REASON, goal_xy_m, mission.episode + 1, now_ns, progress, heading_rad=heading_rad,
        then_xy_m=then_xy_m, paused_ns=now_ns if mission.paused else None, asked_ns=asked_ns,
        refused_ns=mission.refused_ns, refusal=mission.refusal,
    )  # fmt: skip


def passes(mission: Mission, pose: Pose, section: GoalSection) -> bool:
    """Return whether the robot passes a goal of a sequence, so that the next one begins. pose: in the start frame"""
    away_m = mission.away_m(pose)
    return mission.driving and bool(mission.then_xy_m) and away_m is not None and away_m <= section.tolerance_m


def onward(mission: Mission, pose: Pose, now_ns: int) -> Mission:
    """Return the mission with the next goal of its sequence, in the start frame that begins at `pose`."""
    first, *rest = (apply(inverse(pose), xy_m) for xy_m in mission.then_xy_m)
    heading_rad = None if mission.heading_rad is None else wrap(mission.heading_rad - pose.yaw_rad)
    following = accept(
        mission, first, now_ns, heading_rad=heading_rad, then_xy_m=tuple(rest), asked_ns=mission.asked_ns
    )
    return replace(following, passed=mission.passed + 1)


def pause(mission: Mission, paused: bool | None, now_ns: int) -> Mission:
    """Return the mission after a pause (True) or a resume (False); the time between does not count for the drive."""
    if paused is None or paused == mission.paused:
        return mission
    if mission.paused_ns is None:
        return replace(mission, paused_ns=now_ns)
    return replace(mission, paused_ns=None, started_ns=mission.started_ns + now_ns - mission.paused_ns)


def refuse(mission: Mission, reason: Said, now_ns: int, asked_ns: int = 0) -> Mission:
    """Return the mission after a goal was refused. asked_ns: stamp of the request

    A drive goes on and shows the refusal for a while. Otherwise the mission is stopped with the refusal as its reason.
    """
    mission = replace(mission, refused_ns=asked_ns, refusal=reason)
    if mission.driving:
        return replace(mission, reason=reasons.refused_goal(reason), told_ns=now_ns)
    return replace(mission, state=State.STOPPED, reason=reasons.refused_goal(reason))


def cancel(mission: Mission) -> Mission:
    """Return the mission after `/onboard/cancel`."""
    return replace(mission, state=State.IDLE, reason=reasons.CANCELLED.say()) if mission.driving else mission


def stop(mission: Mission, reason: Said) -> Mission:
    """Return the mission stopped with a reason; unchanged without a reason, or if it does not drive."""
    return replace(mission, state=State.STOPPED, reason=reason) if mission.driving and reason else mission


def recovering(mission: Mission, active: bool) -> Mission:
    """Return the mission with the recovery begun or ended."""
    if mission.driving and active != (mission.state is State.RECOVERING):
        return replace(mission, state=State.RECOVERING if active else State.NAVIGATING, stops=0, stopped_since_ns=None)
    return mission


def note_action(mission: Mission, wanted: Twist) -> Mission:
    """Return the mission after a decision took effect, with stop actions (both velocities zero) in a row counted."""
    return replace(mission, stops=mission.stops + 1 if wanted == STOP else 0)


def take_effect(
    mission: Mission,
    wanted: Twist,
    left_m: float,
    start: Start | None,
    localization: LocalizationState,
    section: GoalSection,
    now_ns: int,
) -> tuple[Mission, Twist]:
    """Return the mission after a decision took effect, and its velocity pair: a turn in place of a held stop (A5).

    wanted, left_m: of the decision
    """
    if mission.progress is not None:
        mission = replace(mission, progress=track_path(mission.progress, left_m, now_ns))
    if wanted == STOP and mission.driving and mission.goal_xy_m is not None and start is not None:
        arrived = arrival.judge(mission.arrival, mission.goal_xy_m, start, localization, section, now_ns)
        mission = replace(mission, arrival=arrived)
        wanted = arrival.TURN if arrived.held else wanted
    return note_action(mission, wanted), wanted


def judge(mission: Mission, situation: Situation, section: GoalSection) -> Mission:
    """Return the mission after the checks that end it. Safety comes first."""
    if not mission.driving:
        return mission
    now_ns, lost_ns = situation.now_ns, situation.lost_ns
    if situation.failure:
        return stop(mission, situation.failure)
    if situation.e_stop:
        return stop(mission, reasons.E_STOP.named)
    if situation.battery:
        return stop(mission, situation.battery)
    if lost_ns is not None and now_ns - lost_ns > LOST_INPUT_S * NS_PER_S:
        lost = f": {situation.lost}" if situation.lost else ""
        return stop(mission, reasons.INPUT_LOST.say(seconds=LOST_INPUT_S, input=lost))
    if mission.told_ns is not None and now_ns - mission.told_ns > REFUSAL_SHOWN_S * NS_PER_S:
        mission = replace(mission, reason=NO_REASON, told_ns=None)
    mission = _judge_turn(mission, situation, section) if mission.turning else _judge_stop(mission, situation, section)
    if mission.driving and not mission.paused and now_ns - mission.started_ns > section.timeout_s * NS_PER_S:
        return stop(mission, reasons.OUT_OF_TIME.say(seconds=section.timeout_s))
    return _judge_progress(mission, situation, section)


def look_at_goal(
    mission: Mission, scan: Scan, pose: Pose, radius_m: float, section: GoalSection, period_s: float
) -> Mission:
    """Return the mission after a decision's scan, stopped if the goal was seen to be occupied or enclosed.

    Occupied, for `OCCUPIED_S`: the scan shows an obstacle where a footprint of `radius_m` would stand at the goal, and
    the robot is not within tolerance. Free: it shows none, and the goal is in sight. Otherwise (the goal is hidden or
    out of view) nothing changes: there may be a way round.
    Enclosed, for `ENCLOSED_S`: obstacles seen so far leave no path to the goal (`goal_place.py`).

    pose: filtered, in the start frame; period_s: time between two decisions
    """
    away_m = mission.away_m(pose)
    if mission.goal_xy_m is None or away_m is None or away_m > goal_place.JUDGED_M:
        return mission
    goal_m = apply(inverse(pose), mission.goal_xy_m)
    mission = _look_around_goal(mission, scan, pose, radius_m, section, period_s)
    off_m = collision.obstacles(scan) - goal_m
    if (np.hypot(off_m[:, 0], off_m[:, 1]) < radius_m).any():
        occupied_s = mission.occupied_s + (period_s if away_m > section.tolerance_m else 0.0)
        mission = replace(mission, occupied_s=occupied_s)
        return stop(mission, reasons.GOAL_OCCUPIED.say()) if occupied_s >= OCCUPIED_S else mission
    towards = math.floor((math.degrees(math.atan2(goal_m[1], goal_m[0])) + 180.0) / 360.0 * BINS) % BINS
    in_sight = bool(scan.seen[towards]) and bool(scan.ranges_m[towards] > away_m)
    return replace(mission, occupied_s=0.0) if in_sight else mission


def _look_around_goal(
    mission: Mission, scan: Scan, pose: Pose, radius_m: float, section: GoalSection, period_s: float
) -> Mission:
    """Return the mission with what stands about the goal, stopped if it is enclosed."""
    goal_xy_m, away_m = mission.goal_xy_m, mission.away_m(pose)
    if goal_xy_m is None or away_m is None or away_m <= section.tolerance_m:
        return mission
    ring = goal_place.ring_after(mission.ring, scan, pose, goal_xy_m)
    off_m = pose.x_m - goal_xy_m[0], pose.y_m - goal_xy_m[1]
    enclosed_s = mission.enclosed_s + period_s if goal_place.is_enclosed(ring, off_m, radius_m) else 0.0
    mission = replace(mission, ring=ring, enclosed_s=enclosed_s)
    return stop(mission, reasons.GOAL_ENCLOSED.say(wide_m=2.0 * radius_m)) if enclosed_s >= ENCLOSED_S else mission


def _judge_stop(mission: Mission, situation: Situation, section: GoalSection) -> Mission:
    """Return the mission after the check for a stop by the policy.

    Reached: `REST_DECISIONS` stop actions in a row, at rest, within tolerance of the goal by the filtered pose.
    Stopped: at rest elsewhere for `STOP_SHORT_S`, as the policy gave up. An operator or a lost input restarts the
    count, as the policy did not cause that stop.
    """
    away_m = mission.away_m(situation.pose)
    if mission.state is not State.NAVIGATING or away_m is None:
        return mission
    if situation.held or situation.lost_ns is not None:
        return replace(mission, stops=0, stopped_since_ns=None)
    v, w = situation.measured.v_mps, situation.measured.w_radps
    if not has_stopped(mission.stops, v, w, REST_DECISIONS, REST_MPS, REST_RADPS):
        return replace(mission, stopped_since_ns=None)
    if away_m <= section.tolerance_m:
        if mission.then_xy_m:  # passed in the next tick
            return mission
        turned = mission.heading_rad is None or _faces(mission.heading_rad, situation.pose)
        return _reached(mission, situation, section) if turned else replace(mission, turning_ns=situation.now_ns)
    since_ns = situation.now_ns if mission.stopped_since_ns is None else mission.stopped_since_ns
    if situation.now_ns - since_ns > STOP_SHORT_S * NS_PER_S:
        return stop(mission, reasons.POLICY_STOPPED.say(away_m=away_m))
    return replace(mission, stopped_since_ns=since_ns)


def _reached(mission: Mission, situation: Situation, section: GoalSection) -> Mission:
    """Return the mission at its goal; it says so if the position is less certain than the tolerance."""
    off_m = situation.uncertain_m
    reason = NO_REASON if off_m is None or off_m <= section.tolerance_m else reasons.REACHED_UNCERTAIN.say(off_m=off_m)
    return replace(mission, state=State.REACHED, reason=reason, turning_ns=None)


def _faces(heading_rad: float, pose: Pose) -> bool:
    return abs(wrap(heading_rad - pose.yaw_rad)) <= heading.TOLERANCE_RAD


def _judge_turn(mission: Mission, situation: Situation, section: GoalSection) -> Mission:
    """Return the mission after the check for the end of the turn to the final heading (`heading.py`)."""
    away_m, since_ns = mission.away_m(situation.pose), mission.turning_ns
    if mission.heading_rad is None or away_m is None or since_ns is None:
        return replace(mission, turning_ns=None)
    if away_m > section.tolerance_m + heading.LEFT_M:
        return replace(mission, turning_ns=None, stops=0)
    if situation.held or situation.lost_ns is not None:
        return replace(mission, turning_ns=situation.now_ns)
    if _faces(mission.heading_rad, situation.pose) and abs(situation.measured.w_radps) <= REST_RADPS:
        return _reached(mission, situation, section)
    if situation.now_ns - since_ns > heading.LONGEST_S * NS_PER_S:
        off_deg = abs(math.degrees(wrap(mission.heading_rad - situation.pose.yaw_rad)))
        return stop(mission, reasons.HEADING_MISSED.say(deg=off_deg, seconds=heading.LONGEST_S))
    return mission


def _judge_progress(mission: Mission, situation: Situation, section: GoalSection) -> Mission:
    """Return the mission after the check for progress."""
    away_m = mission.away_m(situation.pose)
    if not mission.driving or mission.progress is None or away_m is None:
        return mission
    held = situation.held or mission.turning
    progress, reason = track_progress(mission.progress, away_m, held, section, situation.now_ns)
    return stop(replace(mission, progress=progress), reason)
