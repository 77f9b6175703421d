"""Safety limits on every command. Pure: state, wanted command and situation in; new state, safe twist and reason out.

    R1   every twist that comes out is finite and within v_min_mps..v_max_mps and +-w_max_radps
    R2   e-stop: zero at once, until it is released *and* a goal is accepted after that. A goal while it is pressed or
         in the tick of its release does not count. Nothing else moves the robot meanwhile, not even an operator
    R3   an operator's command not older than teleop_dead_man_s replaces the wanted command and passes all limits below
    R4   no wanted command: zero ("idle", or "engine_lost" after too many deadline misses)
    R5   odometry or scan missing, stale, or stamped as far in the future: zero at once, for an operator too
    R6   a wanted command that is not finite: zero at once
    R7   too fast: v and w are scaled down together, so that the arc stays
    R8   an acceleration limit below the base's own ramps the set point from the last sent command. A higher limit has
         no effect, as set points are steps by design and the base's own loop accelerates. A stop or a zone never waits
         for a ramp
    R9   stop zone: the footprint and stop_margin_m swept along the arc. The speed towards a visible obstacle allows a
         stop before it, and is zero when no distance is left
    R10  slow zone: an obstacle within slow_margin_m of the footprint, along the braking distance of the wanted command,
         limits the speed to SLOW_FRACTION of v_max_mps. With slow_steps above 1 that holds in the innermost of so many
         rings of equal width down to stop_margin_m; in the rings outside, the speed rises in equal steps to v_max_mps
    R11  time to contact: the speed is at most the distance to contact over time_to_contact_s
    R12  blind: into a sector ahead that no camera sees the robot drives only over ground that a camera saw free in the
         last seen_free_s, and not occupied since (`onboard/perception/free_ground.py`), at most at the slow zone's
         speed: other ground there stops it like an obstacle (R9). Without such ground only the turn of the command
         remains. An operator, who watches, may creep at creep_mps. If only the flanks are blind, the slow zone's speed
         holds
    R13  zones stop neither a motion away from an obstacle, however near, nor a turn in place of a round footprint
    R14  zones scale v and w together, so that the arc stays; exceptions are R12, R20 and R23
    R15  free space: the output is exactly the wanted command
    R16  the output's reason names the last limit that changed the command
    R17  a separate policy scan that is missing or stale as in R5: zero, except for an operator, who does not use it
    R18  an external speed limit (`/speed_limit`) holds forward, backward and for an operator; 0 means no limit
    R19  an external limit holds until the next message, even if its sender fails: a failed person detector must not end
         it. A limit that is NaN, infinite or negative is refused, and the previous limit stays
    R20  a remembered obstacle where no camera looks now (`onboard/perception/obstacle_memory.py`) stops the robot like
         a visible one (R9). Where it allows at most creep_mps, only the turn of the command remains, as in R12
    R21  keep-out zones of the map (`keepout_zones.py`) stop the robot like a visible obstacle (R9). With its centre in
         a zone, or not localised while zones are required, the robot may only turn in place. An operator may creep
    R22  speed zones of the map: the lowest limit under the footprint holds, for an operator too
    R23  notice (`/obstacle`: a bumper, a cliff, an obstacle ahead): no forward motion, only the turn of the command
         remains, as in R12. Backing and turning in place are free within R24. An operator may creep
    R24  turn under a notice: while it is on, the turn rate is at most NOTICE_RADPS, also in place. An operator, who
         watches, is not limited. R16 of `recovery.py` bounds how long this lasts
    R25  a polygon's corners sweep new ground in a turn in place. It obeys R9 to R11, R20 and R21, with angle
         for distance and yaw rate for speed. The slow rate is SLOW_FRACTION of w_max_radps
    R26  a polygon's turn in place over ground that no camera sees now: with some sector out of view, the corners move
         at most as fast as in the slow zone ahead. Remembered obstacles (R20) have MEMORY_M more distance
    R27  overload: with OVERLOADED of the last WINDOW ticks missed or more, the speed is at most the wanted one times
         the share that ran, so that the robot drives no farther between two ticks. From the first missed tick on, the
         longest pause among them adds to reaction_s in all rows that brake. Both hold for an operator too
    R28  pause: zero between a pause and a resume (`/onboard/pause`), whatever policy or recovery want. An operator may
         drive (R3)
    R29  heights: where cameras see a height of the body only near by, or nowhere, the speed ahead is at most the one
         from which the robot stops for what it sees late, or SLOW_FRACTION of v_max_mps for what it never sees
         (`onboard/perception/height_coverage.py`)
    R30  moving: what moved between two of the last images is taken to go on for 2 s
         (`onboard/safety/moving.py`). Ground that it reaches while the wanted command would have the robot there
         stops the robot like a visible obstacle (R9), with MEMORY_M more distance

The order is e-stop, operator, stale inputs, then numbers, speed and acceleration, then zones. Zones follow the ramp, as
a ramp bends the arc and zones must judge the arc that is sent.

This is no certified safety function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from onboard.config.config import LimitsSection
from onboard.config.footprint import Footprint
from onboard.config.plant_model import Plant
from onboard.perception import collision
from onboard.perception.free_ground import EDGE_M
from onboard.perception.height_coverage import Coverage, sight_mps
from onboard.perception.obstacle_memory import NOWHERE
from onboard.safety import moving
from onboard.safety.keepout_zones import ELSEWHERE, Zone
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Scan, Teleop, Twist
from onboard.values.reasons import NO_REASON, Said

# ---- The limits' parameters of one robot

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Ring:
    """A part of the slow zone: the footprint grown to its outer edge, and the highest speeds there."""

    footprint: Footprint
    mps: float
    radps: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """Parameters of one robot, in SI units and nanoseconds.

    swept:        footprint and stop margin
    known:        the same, and the edge of a cell of unknown ground (R12)
    slow:         rings of the slow zone, the outermost first
    braking_mps2, braking_radps2: deceleration of the base
    slow_mps, slow_radps: speeds in the slow zone's innermost ring
    unseen, unseen_radps: footprint and yaw rate of a turn in place over ground that no camera sees now (R26)
    ramp_mps2, ramp_radps2: None where the base's own loop is slower
    """

    v_min_mps: float
    v_max_mps: float
    w_max_radps: float
    ramp_mps2: float | None
    ramp_radps2: float | None
    braking_mps2: float
    braking_radps2: float
    reaction_s: float
    footprint: Footprint
    swept: Footprint
    known: Footprint
    slow: tuple[Ring, ...]
    slow_mps: float
    slow_radps: float
    unseen: Footprint
    unseen_radps: float
    creep_mps: float
    time_to_contact_s: float
    dead_man_ns: int
    odometry_stale_ns: int
    scan_stale_ns: int
    remember_ns: int
    seen_free_ns: int


def _rings(section: LimitsSection, footprint: Footprint) -> Iterator[Ring]:
    """Yield the rings of the slow zone (R10), the outermost first."""
    for step in range(section.slow_steps):
        outside = step / section.slow_steps
        fraction = SLOW_FRACTION + (1.0 - SLOW_FRACTION) * (1.0 - (step + 1) / section.slow_steps)
        margin_m = section.slow_margin_m - (section.slow_margin_m - section.stop_margin_m) * outside
        yield Ring(footprint.grown(margin_m), fraction * section.v_max_mps, fraction * section.w_max_radps)


def bounds_of(
    section: LimitsSection,
    plant: Plant,
    footprint: Footprint,
    odometry_stale_ms: float,
    coverage: Coverage | None = None,
) -> Bounds:
    """Return the parameters of one robot; built once, at load. coverage: of its cameras; None for a ready-made scan"""
    base_mps2, base_radps2 = plant.linear.acceleration_max, plant.angular.acceleration_max
    limit_mps2, limit_radps2 = section.acceleration_mps2, section.angular_acceleration_radps2
    return Bounds(
        v_min_mps=section.v_min_mps,
        v_max_mps=min(section.v_max_mps, seen_mps(section, plant, footprint, coverage)),
        w_max_radps=section.w_max_radps,
        ramp_mps2=limit_mps2 if limit_mps2 < base_mps2 else None,
        ramp_radps2=limit_radps2 if limit_radps2 < base_radps2 else None,
        braking_mps2=min(limit_mps2, plant.linear.braking_max),
        braking_radps2=min(limit_radps2, plant.angular.braking_max),
        reaction_s=section.reaction_s,
        footprint=footprint,
        swept=footprint.grown(section.stop_margin_m),
        known=footprint.grown(section.stop_margin_m + EDGE_M),
        slow=tuple(_rings(section, footprint)),
        slow_mps=SLOW_FRACTION * section.v_max_mps,
        slow_radps=SLOW_FRACTION * section.w_max_radps,
        unseen=footprint.grown(section.stop_margin_m + MEMORY_M),
        unseen_radps=SLOW_FRACTION * min(section.w_max_radps, section.v_max_mps / footprint.reach_m),
        creep_mps=section.creep_mps,
        time_to_contact_s=section.time_to_contact_s,
        dead_man_ns=round(section.teleop_dead_man_s * NS_PER_S),
        odometry_stale_ns=round(odometry_stale_ms * NS_PER_MS),
        scan_stale_ns=round(section.scan_stale_ms * NS_PER_MS),
        remember_ns=round(section.remember_s * NS_PER_S),
        seen_free_ns=round(section.ground_s * NS_PER_S),
    )


def seen_mps(section: LimitsSection, plant: Plant, footprint: Footprint, coverage: Coverage | None) -> float:
    """Return the highest speed ahead that the heights in view of the cameras allow (R29); inf without a gap."""
    if coverage is None:
        return math.inf
    reach_m = footprint.reach_m + section.stop_margin_m
    braking_mps2 = min(section.acceleration_mps2, plant.linear.braking_max)
    stops_mps = max(sight_mps(coverage, reach_m, braking_mps2, section.reaction_s), section.creep_mps)
    return min(stops_mps, SLOW_FRACTION * section.v_max_mps if coverage.unseen.any() else math.inf)


SLOW_FRACTION = 0.3
"""Share of `v_max_mps` and `w_max_radps` that is left in the innermost ring of the slow zone (R10)."""
NOTICE_RADPS = 0.5
"""Turn rate while a notice is on: 5 s of it turn the robot away from what it touches (R24)."""
MEMORY_M = 0.15
"""A remembered obstacle may lie this much beside its true place: the wheels drift after the image (R26)."""
RAMP_S = 0.1
"""Longest time step of a ramp: after a pause the set point does not jump."""
WINDOW = 90
"""Number of ticks over which the limits judge whether the machine is overloaded (R27)."""
OVERLOADED = 9
"""With so many missed ticks of a window the robot slows down, and state, log and diagnostics say so (R27)."""


class Reason(str, Enum):
    """The limit that shaped a command. The values appear on `/diagnostics` and in recordings.

    LOOKING is no limit: the robot turns to look, and no limit changed that turn (`looking.py`).
    """

    NONE = "none"
    IDLE = "idle"
    PAUSED = "paused"
    ENGINE_LOST = "engine_lost"
    E_STOP = "e_stop"
    TELEOP = "teleop"
    STALE_ODOMETRY = "stale_odometry"
    STALE_SCAN = "stale_scan"
    NOT_FINITE = "not_finite"
    SPEED = "speed"
    ACCELERATION = "acceleration"
    ZONE_STOP = "zone_stop"
    ZONE_SLOW = "zone_slow"
    TIME_TO_CONTACT = "time_to_contact"
    BLIND_AHEAD = "blind_ahead"
    BLIND_FLANK = "blind_flank"
    STALE_POLICY_SCAN = "stale_policy_scan"
    SPEED_LIMIT = "speed_limit"
    REMEMBERED = "remembered"
    KEEP_OUT = "keep_out"
    SPEED_ZONE = "speed_zone"
    OBSTACLE = "obstacle"
    OVERLOAD = "overload"
    LOOKING = "looking"
    CROSSING = "crossing"


UNSEEN = frozenset({Reason.BLIND_AHEAD, Reason.REMEMBERED, Reason.OBSTACLE})
"""No camera sees the obstacle now: only the turn of the command remains."""
LOST = frozenset({Reason.STALE_ODOMETRY, Reason.STALE_SCAN, Reason.STALE_POLICY_SCAN})
"""A required input is missing or stale."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of the limits in this tick.

    goal_accepted:       a goal was accepted since the last tick
    odometry_arrival_ns: arrival of the newest odometry (`OdometryState.fresh_ns`), None before the first
    scan:                the scan for the limits, None before the first
    policy_scan:         the policy's scan; None if it is the same
    speed_limit_mps:     newest external limit, 0 for no limit; None before the first
    out_of_view:         (n, 2) in the base frame [m], remembered obstacles out of view (`obstacle_memory.Surroundings`)
    unknown:             (k, 2) in the base frame [m], ground in blind sectors that was not seen free lately
                         (`free_ground.unknown`); None: all of it
    zone:                zones of the map at this place
    engine_lost:         no command is wanted during a drive, as the engine does not answer
    obstacle:            newest value of `/obstacle`, None before the first
    slot, missed:        number of this tick on the grid, and the ticks missed just before it
    paused:              the drive is paused
    reached:             (m, 3) in the base frame [m] and from now [s], what moving things reach (`moving.reached`)
    """

    now_ns: int
    e_stop: bool | None
    goal_accepted: bool
    teleop: Teleop | None
    odometry_arrival_ns: int | None
    scan: Scan | None
    policy_scan: Scan | None = None
    speed_limit_mps: float | None = None
    out_of_view: collision.Points = field(default_factory=lambda: NOWHERE)
    unknown: collision.Points | None = None
    zone: Zone = ELSEWHERE
    engine_lost: bool = False
    obstacle: bool | None = None
    slot: int = 0
    missed: int = 0
    paused: bool = False
    reached: collision.Points = field(default_factory=lambda: moving.NOTHING)


@dataclass(frozen=True, slots=True)
class Pause:
    """Ticks missed in a row, as far as they are in the window. slot: the tick after them; extra_s: its delay [s]."""

    slot: int
    missed: int
    extra_s: float


@dataclass(frozen=True, slots=True)
class LimitsState:
    """State between ticks: the e-stop's latch, the last sent command and its time, and the external speed limit.

    pressed:         whether the e-stop was pressed in the last tick
    speed_limit_mps: the valid external limit, inf for none
    limit_refused:   whether the newest external limit was refused (R19)
    pauses:          ticks missed among the last WINDOW
    """

    e_stopped: bool = False
    pressed: bool = False
    sent: Twist = STOP
    sent_ns: int | None = None
    speed_limit_mps: float = math.inf
    limit_refused: bool = False
    pauses: tuple[Pause, ...] = ()

    @property
    def missed(self) -> int:
        """Return how many of the last WINDOW ticks were missed."""
        return sum(pause.missed for pause in self.pauses)


@dataclass(frozen=True, slots=True)
class LimitedCommand:
    """A safe command. wanted: the operator's command if `teleop`, else the command of policy or recovery."""

    twist: Twist
    reason: Reason
    wanted: Twist | None
    teleop: bool


def limit(
    state: LimitsState, wanted: Twist | None, situation: Situation, bounds: Bounds
) -> tuple[LimitsState, LimitedCommand]:
    """Return the new state and the command to send. `wanted` is None without a goal or an engine."""
    pressed = situation.e_stop is True
    released = situation.goal_accepted and not state.pressed
    e_stopped = pressed or (state.e_stopped and not released)
    operator = situation.teleop if operator_drives(situation.teleop, situation.now_ns, bounds) else None
    wanted = operator.twist if operator is not None else None if situation.paused else wanted
    state = _with_external_limit(replace(state, e_stopped=e_stopped, pressed=pressed), situation.speed_limit_mps)
    state, bounds = _overloaded(state, situation, bounds)
    twist, reason = _apply_limits(state, wanted, operator is not None, situation, bounds)
    limited = LimitedCommand(twist, reason, wanted, operator is not None)
    return replace(state, sent=twist, sent_ns=situation.now_ns), limited


def operator_drives(teleop: Teleop | None, now_ns: int, bounds: Bounds) -> bool:
    """Return whether an operator drives: the command is not older than the dead man's timeout (R3)."""
    return teleop is not None and _fresh(teleop.arrival_ns, now_ns, bounds.dead_man_ns)


def _overloaded(state: LimitsState, situation: Situation, bounds: Bounds) -> tuple[LimitsState, Bounds]:
    """Return the state with the pauses of the last WINDOW ticks, and the bounds with the longest as latency (R27)."""
    if not (state.pauses or situation.missed):
        return state, bounds
    before_ns, ticks = state.sent_ns or situation.now_ns, situation.missed + 1
    extra_s = max(situation.now_ns - before_ns, 0) / NS_PER_S * situation.missed / ticks
    pauses = [
        replace(pause, missed=min(pause.missed, pause.slot + WINDOW - 1 - situation.slot))
        for pause in (*state.pauses, Pause(situation.slot, situation.missed, extra_s))
    ]
    pauses = [pause for pause in pauses if pause.missed > 0 and pause.slot <= situation.slot]
    longest_s = max((pause.extra_s for pause in pauses), default=0.0)
    return replace(state, pauses=tuple(pauses)), replace(bounds, reaction_s=bounds.reaction_s + longest_s)


def overload(missed: int) -> Said:
    """Return what the operator reads about so many missed ticks of the last WINDOW; "" for few."""
    if missed < OVERLOADED:
        return NO_REASON
    return reasons.TICKS_MISSED.say(missed=missed, window=WINDOW, percent=100 - 100 * missed // WINDOW)


def _with_external_limit(state: LimitsState, word_mps: float | None) -> LimitsState:
    """Return the state with the newest valid external speed limit (R18, R19)."""
    if word_mps is None:
        return state
    if not 0.0 <= word_mps < math.inf:
        return replace(state, limit_refused=True)
    return replace(state, speed_limit_mps=word_mps or math.inf, limit_refused=False)


def _apply_limits(
    state: LimitsState, wanted: Twist | None, operator: bool, situation: Situation, bounds: Bounds
) -> tuple[Twist, Reason]:
    """Return the command and its reason, after all limits in their order."""
    twist, reason = _apply_way_limits(state, wanted, operator, situation, bounds)
    turns = abs(twist.v_mps) < collision.REST_MPS and twist.w_radps != 0.0
    if bounds.footprint.is_round or situation.scan is None or not turns:
        return twist, reason
    caps = _turn_caps(twist, situation.scan, situation.out_of_view, situation.zone, bounds)
    allowed_radps, cap = min(caps, key=lambda cap: cap[0])
    if operator:
        allowed_radps = max(allowed_radps, bounds.slow_radps) if cap is Reason.KEEP_OUT else allowed_radps
    if abs(twist.w_radps) <= allowed_radps:
        return twist, reason
    return _scaled(twist, allowed_radps / abs(twist.w_radps)), cap


def _apply_way_limits(
    state: LimitsState, wanted: Twist | None, operator: bool, situation: Situation, bounds: Bounds
) -> tuple[Twist, Reason]:
    """Return the command and its reason, after all limits but those on a turn in place (R25)."""
    stop = _stop_reason(state, wanted, operator, situation, bounds)
    if wanted is None or situation.scan is None or stop is not None:
        return STOP, stop or Reason.IDLE
    reason = Reason.TELEOP if operator else Reason.NONE
    slowed = _within_speed(wanted, bounds)
    if slowed != wanted:
        reason = Reason.SPEED
    ramped = _ramped(slowed, state, situation.now_ns, bounds)
    if ramped != slowed:
        reason = Reason.ACCELERATION
    caps = _caps(ramped, situation.scan, situation, operator, bounds)
    caps.append(_keep_out_cap(ramped, situation.zone, operator, bounds))
    caps += [(state.speed_limit_mps, Reason.SPEED_LIMIT), (situation.zone.limit_mps, Reason.SPEED_ZONE)]
    if state.missed >= OVERLOADED:
        caps.append((abs(slowed.v_mps) * (WINDOW - state.missed) / WINDOW, Reason.OVERLOAD))
    if situation.obstacle is True and ramped.v_mps > 0.0:
        caps.append((bounds.creep_mps if operator else 0.0, Reason.OBSTACLE))
    allowed_mps, cap = min(caps, key=lambda cap: cap[0])
    if abs(ramped.v_mps) <= allowed_mps:
        cap, within = reason, ramped
    elif cap in UNSEEN and allowed_mps <= bounds.creep_mps and not operator:
        within = Twist(0.0, ramped.w_radps)
    else:
        within = _scaled(ramped, allowed_mps / abs(ramped.v_mps))
    if situation.obstacle is True and abs(within.w_radps) > NOTICE_RADPS and not operator:
        return _scaled(within, NOTICE_RADPS / abs(within.w_radps)), Reason.OBSTACLE
    return within, cap


def _stop_reason(
    state: LimitsState, wanted: Twist | None, operator: bool, situation: Situation, bounds: Bounds
) -> Reason | None:
    """Return the reason for a stop, or None."""
    if state.e_stopped:
        return Reason.E_STOP
    if wanted is None:
        still = Reason.PAUSED if situation.paused else Reason.IDLE
        return Reason.ENGINE_LOST if situation.engine_lost else still
    if not _fresh(situation.odometry_arrival_ns, situation.now_ns, bounds.odometry_stale_ns):
        return Reason.STALE_ODOMETRY
    if situation.scan is None or not _fresh(situation.scan.stamp_ns, situation.now_ns, bounds.scan_stale_ns):
        return Reason.STALE_SCAN
    seen = situation.policy_scan
    if seen is not None and not operator and not _fresh(seen.stamp_ns, situation.now_ns, bounds.scan_stale_ns):
        return Reason.STALE_POLICY_SCAN
    if not (math.isfinite(wanted.v_mps) and math.isfinite(wanted.w_radps)):
        return Reason.NOT_FINITE
    return None


def _fresh(stamp_ns: int | None, now_ns: int, limit_ns: int) -> bool:
    """Return whether a stamp is within `limit_ns` of now; a stamp far in the future is invalid."""
    return stamp_ns is not None and abs(now_ns - stamp_ns) <= limit_ns


def _scaled(twist: Twist, factor: float) -> Twist:
    return Twist(twist.v_mps * factor, twist.w_radps * factor)


def _within_speed(twist: Twist, bounds: Bounds) -> Twist:
    """Return the twist on the same arc within the speeds of R1."""
    v_limit_mps = bounds.v_max_mps if twist.v_mps > 0.0 else -bounds.v_min_mps
    speed_mps, rate_radps = abs(twist.v_mps), abs(twist.w_radps)
    if speed_mps <= v_limit_mps and rate_radps <= bounds.w_max_radps:
        return twist
    factor = 1.0
    if speed_mps > v_limit_mps:
        factor = v_limit_mps / speed_mps
    if rate_radps > bounds.w_max_radps:
        factor = min(factor, bounds.w_max_radps / rate_radps)
    scaled = _scaled(twist, factor)
    # Scaling rounds; the bounds hold to the last digit.
    return Twist(
        min(max(scaled.v_mps, bounds.v_min_mps), bounds.v_max_mps),
        min(max(scaled.w_radps, -bounds.w_max_radps), bounds.w_max_radps),
    )


def _ramped(twist: Twist, state: LimitsState, now_ns: int, bounds: Bounds) -> Twist:
    """Return the twist, limited by the ramps from the last sent twist (R8)."""
    elapsed_s = 0.0 if state.sent_ns is None else (now_ns - state.sent_ns) / NS_PER_S
    elapsed_s = min(max(elapsed_s, 0.0), RAMP_S)
    return Twist(
        _towards(state.sent.v_mps, twist.v_mps, bounds.ramp_mps2, elapsed_s),
        _towards(state.sent.w_radps, twist.w_radps, bounds.ramp_radps2, elapsed_s),
    )


def _towards(last: float, wanted: float, rate: float | None, elapsed_s: float) -> float:
    if rate is None:
        return wanted
    return min(max(wanted, last - rate * elapsed_s), last + rate * elapsed_s)


def _caps(twist: Twist, scan: Scan, situation: Situation, operator: bool, bounds: Bounds) -> list[tuple[float, Reason]]:
    """Return the highest allowed speeds along the twist's arc with their reasons (R9 to R13, R20, R29, R30)."""
    if abs(twist.v_mps) < collision.REST_MPS:
        return []
    points = collision.obstacles(scan)
    brake = _braking_mps2(twist, bounds), bounds.reaction_s
    way_m = collision.braking_m(abs(twist.v_mps), *brake)
    slow_mps = [
        collision.ring_mps(collision.travel_m(points, twist, ring.footprint), way_m, ring.mps) for ring in bounds.slow
    ]
    contact_m = collision.travel_m(points, twist, bounds.footprint)
    remembered_m = collision.travel_m(situation.out_of_view, twist, bounds.swept)
    met = moving.meeting(situation.reached, twist, bounds.unseen.reach_m)
    crossing_m = collision.travel_m(met, twist, bounds.unseen)
    blind = collision.view_sector(scan, twist, bounds.swept.reach_m)
    caps = [
        (collision.stoppable_mps(collision.travel_m(points, twist, bounds.swept), *brake), Reason.ZONE_STOP),
        (min(slow_mps, default=math.inf), Reason.ZONE_SLOW),
        (collision.contact_mps(contact_m, bounds.time_to_contact_s), Reason.TIME_TO_CONTACT),
        (collision.stoppable_mps(remembered_m, *brake), Reason.REMEMBERED),
        (collision.stoppable_mps(crossing_m, *brake), Reason.CROSSING),
    ]
    if blind is collision.SectorView.AHEAD_BLIND:
        known_mps = _known_mps(situation.unknown, twist, bounds)
        caps.append((max(known_mps, bounds.creep_mps) if operator else known_mps, Reason.BLIND_AHEAD))
    elif blind is collision.SectorView.FLANK_BLIND:
        caps.append((bounds.slow_mps, Reason.BLIND_FLANK))
    return caps


def _known_mps(unknown: collision.Points | None, twist: Twist, bounds: Bounds) -> float:
    """Return the highest speed into a blind sector ahead, over ground that was seen free (R12)."""
    if unknown is None or twist.v_mps < 0.0:
        return 0.0
    brake = _braking_mps2(twist, bounds), bounds.reaction_s
    near_m = bounds.known.reach_m + collision.braking_m(bounds.slow_mps, *brake)
    way_m = collision.travel_m(unknown[np.hypot(unknown[:, 0], unknown[:, 1]) <= near_m], twist, bounds.known)
    return min(collision.stoppable_mps(way_m, *brake), bounds.slow_mps)


def _turn_caps(
    twist: Twist, scan: Scan, out_of_view: collision.Points, zone: Zone, bounds: Bounds
) -> list[tuple[float, Reason]]:
    """Return the highest allowed yaw rates of a turn in place with their reasons (R25, R26)."""
    points, w = collision.obstacles(scan), twist.w_radps
    brake = bounds.braking_radps2, bounds.reaction_s
    way_rad = collision.braking_m(abs(w), *brake)
    slow_radps = [ring.radps for ring in bounds.slow if collision.turn_rad(points, w, ring.footprint) <= way_rad]
    blind = not collision.looked(scan).all()
    stops = [
        (points, bounds.swept, Reason.ZONE_STOP),
        (out_of_view, bounds.unseen, Reason.REMEMBERED),
        (zone.edge_m, bounds.swept, Reason.KEEP_OUT),
    ]
    return [
        *((collision.stoppable_mps(collision.turn_rad(met, w, by), *brake), why) for met, by, why in stops),
        (min(slow_radps, default=math.inf), Reason.ZONE_SLOW),
        (bounds.unseen_radps if blind else math.inf, Reason.BLIND_FLANK),
        (
            collision.contact_mps(collision.turn_rad(points, w, bounds.footprint), bounds.time_to_contact_s),
            Reason.TIME_TO_CONTACT,
        ),
    ]


def _braking_mps2(twist: Twist, bounds: Bounds) -> float:
    """Return the deceleration along the twist's arc; on a tight arc of a polygon, the yaw rate brakes last."""
    if bounds.footprint.is_round or twist.w_radps == 0.0 or abs(twist.v_mps) < collision.REST_MPS:
        return bounds.braking_mps2
    return min(bounds.braking_mps2, bounds.braking_radps2 * abs(twist.v_mps / twist.w_radps))


def _keep_out_cap(twist: Twist, zone: Zone, operator: bool, bounds: Bounds) -> tuple[float, Reason]:
    """Return the highest speed along the twist's arc that the keep-out zones allow (R21)."""
    way_m = 0.0 if zone.held else collision.travel_m(zone.edge_m, twist, bounds.swept)
    allowed_mps = collision.stoppable_mps(way_m, _braking_mps2(twist, bounds), bounds.reaction_s)
    return max(allowed_mps, bounds.creep_mps) if operator else allowed_mps, Reason.KEEP_OUT
