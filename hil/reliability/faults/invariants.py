"""Safety rules for every tick, under any fault: the only place that judges them.

A command is finite and within the limits, zero while the e-stop is latched, and zero soon after any other cause to
stop. During an obstacle notice no command drives forward or turns fast. If the notice began while the robot backed
off, or just after it, no command backs off. Recoveries are bounded, and a drive without motion ends.

`Monitor` sees only the inputs and outputs of the runtime. It states the rules a second time and calls none of the
runtime's code. Zero is due within `GRACE_TICKS` of the cause; for a stale input the cause begins when it turns stale.
Faults, the nightly soak and the tests' state machine use these rules. The state machine adds what needs the map, the
images or a memory of obstacles (`tests/onboard/safety/invariants/safety_watch.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hil.reliability.faults.observed_tick import UNKNOWN, driving, is_stop, stamps_ns
from onboard.config.config import Config, RecoverySection, ScanSection
from onboard.config.plant_model import Plant
from onboard.navigation.odometry import MAX_SPEED_MPS, MAX_YAW_RATE_RADPS
from onboard.policy.decision import MISSES_TO_STOP
from onboard.safety.recovery import WINDOW_S
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, OdometryMessage, Teleop, Twist

NS_PER_MS = 1_000_000
GRACE_TICKS = 2
ROUNDING = 1e-9
MOST_RAMP_S = 0.1
"""After a pause the ramp continues without a jump (`limits.RAMP_S`)."""
ROLLS_ON_NS = NS_PER_S // 2
"""A notice that begins within this time after backing off means an obstacle behind (`recovery.ROLLS_ON_S`)."""

TURN_RADPS = 0.5
"""Fastest turn while a notice is on (`limits.NOTICE_RADPS`)."""
ROLLED_M = 0.1
"""After the command that ends a recovery try the base still rolls."""
STANDING_M, STANDING_SLACK_S = 0.05, 15.0
"""A shorter path is no motion; a drive without motion must end within this time after `goal.progress_timeout_s`."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule with its slot. what: the details in one line."""

    slot: int
    rule: str
    what: str


class Monitor:
    """Checks one run, tick by tick. Its memory use is constant."""

    def __init__(self, config: Config, plant: Plant, most_back: tuple[float, float] | None = None) -> None:
        """most_back: maximum time [s] and path [m] of a recovery try; None: as configured, with a tolerance."""
        self._config = config
        section, recovery = config.limits, config.recovery
        self._ramp_mps2 = _ramp(section.acceleration_mps2, plant.linear.acceleration_max)
        self._ramp_radps2 = _ramp(section.angular_acceleration_radps2, plant.angular.acceleration_max)
        back_m = recovery.backward_mps * recovery.backward_s + ROLLED_M
        self.tries = RecoveryBounds(
            recovery, *(most_back or (recovery.backward_s + GRACE_TICKS / config.rates.control_hz, back_m))
        )
        self._sent = STOP
        self._sent_ns: int | None = None
        self._wheels_ns: int | None = None
        self._wheels_stamp_ns: int | None = None
        self._oldest_ns: dict[str, int] = {}
        self._latched = self._pressed = self._engine_lost = self._wheels_mad = False
        self._limit_mps = math.inf
        self._misses = 0
        self._touched = self._backed = self._backed_into = False
        self._backed_ns: int | None = None
        self._overdue: dict[str, int] = {}
        self._moved: tuple[int, float] | None = None

    def watch(self, tick: TickRecord, path_m: float | None = None) -> list[Violation]:
        """Return the rules that this tick breaks. path_m: path so far, by odometry or true; None if unknown"""
        broken = [*self._numbers(tick)]
        if tick.reason != UNKNOWN:
            goal_given = bool(tick.inputs.goals) and not tick.inputs.e_stop and not self._pressed
            broken += [*self._latch(tick), *self._stands(tick, goal_given), *self._touches(tick)]
            broken += [*self._recovers(tick, path_m), *self._moves(tick, path_m)]
        self._sent, self._sent_ns = tick.command, tick.slot.start_ns
        return [Violation(tick.slot.number, rule, what) for rule, what in broken]

    # ---- limits of the command

    def _numbers(self, tick: TickRecord) -> Iterable[tuple[str, str]]:
        v, w, section = tick.command.v_mps, tick.command.w_radps, self._config.limits
        if not (math.isfinite(v) and math.isfinite(w)):
            yield "finite", f"the command is ({v}, {w})"
            return
        if not (section.v_min_mps <= v <= section.v_max_mps and abs(w) <= section.w_max_radps):
            yield "speed", f"({v:.3f} m/s, {w:.3f} rad/s) is beyond the limits"
        if self._sent_ns is None:
            return
        elapsed_s = min(max((tick.slot.start_ns - self._sent_ns) / NS_PER_S, 0.0), MOST_RAMP_S)
        pairs = ((self._sent.v_mps, v, self._ramp_mps2), (self._sent.w_radps, w, self._ramp_radps2))
        for name, (last, now, ramp) in zip(("v", "w"), pairs, strict=True):
            if ramp is not None and not _ramped(last, now, ramp * elapsed_s):
                yield "acceleration", f"{name} went from {last:.3f} to {now:.3f} in {elapsed_s * 1e3:.0f} ms"

    # ---- causes to stop

    def _latch(self, tick: TickRecord) -> Iterable[tuple[str, str]]:
        """Check the e-stop: zero in the same tick, until it is released and a goal is accepted in a later tick.

        Check the speed too against the newest valid limit from outside.
        """
        pressed = tick.inputs.e_stop is True
        accepted = any(event.startswith("goal_accepted") for event in tick.events)
        if accepted and (pressed or self._pressed):
            yield "e-stop", "a goal is accepted while it is pressed"
        self._latched, self._pressed = pressed or (self._latched and not accepted), pressed
        if (tick.reason == "e_stop") != self._latched or (self._latched and not is_stop(tick)):
            held = "holds" if self._latched else "does not hold"
            yield "e-stop", f"it {held}, reason {tick.reason}, {tick.command.v_mps:.3f} m/s"
        limit_mps = tick.inputs.speed_limit_mps
        if limit_mps is not None and 0.0 <= limit_mps < math.inf:
            self._limit_mps = limit_mps or math.inf
        if abs(tick.command.v_mps) > self._limit_mps + ROUNDING:
            yield "speed limit", f"{tick.command.v_mps:.3f} m/s, the limit is {self._limit_mps:.3f}"

    def _stands(self, tick: TickRecord, goal_given: bool) -> Iterable[tuple[str, str]]:
        causes = self._causes(tick, goal_given)
        self._overdue = {cause: self._overdue.get(cause, -1) + 1 for cause, there in causes.items() if there}
        for cause, ticks in self._overdue.items():
            if ticks >= GRACE_TICKS and not is_stop(tick):
                shown = f"({tick.command.v_mps:.3f} m/s, {tick.command.w_radps:.3f} rad/s)"
                yield cause, f"{shown} in tick {ticks} after what must stop it"

    def _touches(self, tick: TickRecord) -> Iterable[tuple[str, str]]:
        """Check the motion during an obstacle notice. No grace ticks: the tick itself holds the notice."""
        touched, v = tick.inputs.obstacle is True, tick.command.v_mps
        operator = operated(tick.inputs.teleop, tick.slot.start_ns, self._config)
        allowed_mps = self._config.limits.creep_mps if operator else 0.0
        if touched and v > allowed_mps + ROUNDING:
            yield "obstacle", f"forward at {v:.3f} m/s while an obstacle is reported"
        if touched and not operator and abs(tick.command.w_radps) > TURN_RADPS + ROUNDING:
            yield "turn at an obstacle", f"it turns at {tick.command.w_radps:.2f} rad/s while an obstacle is reported"
        begins = touched and not self._touched
        self._backed_into = touched and (self._backed_into or (begins and self._rolls_back(tick)))
        if self._backed_into and tick.recovery and v < 0.0:
            yield "backed into", "it backs off although it has backed into something"
        self._touched, self._backed = touched, bool(tick.recovery)
        self._backed_ns = tick.slot.start_ns if tick.recovery else self._backed_ns

    def _rolls_back(self, tick: TickRecord) -> bool:
        """Return whether the robot backed off in the last tick, or within `ROLLS_ON_NS` before this tick."""
        if self._backed or self._backed_ns is None:
            return self._backed
        return 0 <= tick.slot.start_ns - self._backed_ns < ROLLS_ON_NS

    def _recovers(self, tick: TickRecord, path_m: float | None) -> Iterable[tuple[str, str]]:
        """Check number, time, path and speed of the recovery tries."""
        backing, back = bool(tick.recovery), Twist(-self._config.recovery.backward_mps, 0.0)
        yield from self.tries.watch(backing, tick.slot.start_ns, path_m or 0.0)
        if backing and tick.command.v_mps < back.v_mps and tick.wanted == back:
            yield "recovery way", f"it backs off at {-tick.command.v_mps:.2f} m/s"

    def _moves(self, tick: TickRecord, path_m: float | None) -> Iterable[tuple[str, str]]:
        """Check that no drive lasts longer without motion than the mission allows."""
        if path_m is None:
            return
        now_ns = tick.slot.start_ns
        idle = not driving(tick) or operated(tick.inputs.teleop, now_ns, self._config)
        if idle or self._moved is None or path_m - self._moved[1] > STANDING_M:
            self._moved = now_ns, path_m
            return
        stood_s = (now_ns - self._moved[0]) / NS_PER_S
        if stood_s > self._config.goal.progress_timeout_s + STANDING_SLACK_S:
            yield "wedged", f"it should drive, but has stood for {stood_s:.0f} s"
            self._moved = now_ns, path_m

    def _causes(self, tick: TickRecord, goal_given: bool) -> Mapping[str, bool]:
        """Return each cause to stop, and whether it is present now."""
        now_ns, config = tick.slot.start_ns, self._config
        operator = operated(tick.inputs.teleop, now_ns, config)
        self._hear_wheels(tick, goal_given)
        self._hear_engine(tick, goal_given)
        guard = config.own_scan or config.scan
        scan_ns = config.limits.scan_stale_ms * NS_PER_MS
        guard_late = now_ns - self._taken_ns(tick, guard, "limits") > scan_ns
        seen_late = now_ns - self._taken_ns(tick, config.scan, "policy") > scan_ns
        wheels_ns = config.odometry.stale_ms * NS_PER_MS
        missed = self._misses >= MISSES_TO_STOP
        return {
            "stale odometry": self._wheels_ns is None or now_ns - self._wheels_ns > wheels_ns,
            "stale scan": guard_late or (seen_late and not operator),
            "impossible odometry": self._wheels_mad and not operator,
            "lost engine": (self._engine_lost or missed) and not operator,
            "no goal": not driving(tick) and not operator,
        }

    def _hear_wheels(self, tick: TickRecord, goal_given: bool) -> None:
        """Keep the arrival of the newest valid odometry, and whether invalid odometry came."""
        self._wheels_mad = self._wheels_mad and not goal_given
        for message in tick.inputs.odometry:
            if not _possible(message):
                self._wheels_mad = True
            elif message.stamp_ns != self._wheels_stamp_ns:
                self._wheels_stamp_ns, self._wheels_ns = message.stamp_ns, message.arrival_ns

    def _hear_engine(self, tick: TickRecord, goal_given: bool) -> None:
        acted = tick.acted
        self._engine_lost = (self._engine_lost and not goal_given) or (acted is not None and acted.fault != "")
        if acted is not None and acted.decision is None and not acted.fault:
            self._misses += 1
        elif goal_given or (acted is not None and acted.decision is not None):
            self._misses = 0

    def _taken_ns(self, tick: TickRecord, section: ScanSection, use: str) -> int:
        """Return the stamp [ns] of the oldest among the newest images of a scan; without images, the last stamp."""
        wanted = {section.topic, *section.cameras} if section.topic else set(section.cameras)
        stamps = [stamp_ns for name, stamp_ns in stamps_ns(tick.inputs).items() if not wanted or name in wanted]
        self._oldest_ns[use] = min(stamps, default=self._oldest_ns.get(use, 0))
        return self._oldest_ns[use]


class RecoveryBounds:
    """Checks the recovery tries of one runtime: their number within the window, and the time and distance of each.

    A new goal does not reset the count, because it does not move the obstacle.
    began: start of the current try [ns], and the path length at that time [m]; None without a try
    """

    def __init__(self, section: RecoverySection, most_s: float, most_m: float) -> None:
        """Take the maximum time [s] of a try, and its maximum path [m] as measured by the `way_m` of `watch`."""
        self._section, self._most_s, self._most_m = section, most_s, most_m
        self.began: tuple[int, float] | None = None
        self._tries_ns: list[int] = []

    def watch(self, backing: bool, now_ns: int, way_m: float) -> Iterator[tuple[str, str]]:
        """Yield the rules that this tick breaks, with details. way_m: path so far, by odometry or true [m]"""
        if not backing:
            self.began = None
            return
        if self.began is None:
            self.began = now_ns, way_m
            most = self._section.tries
            self._tries_ns = [at for at in (*self._tries_ns, now_ns) if now_ns - at < WINDOW_S * NS_PER_S]
            if len(self._tries_ns) > most:
                yield "recovery tries", f"try {len(self._tries_ns)} within {WINDOW_S:g} s"
        lasted_s, gone_m = (now_ns - self.began[0]) / NS_PER_S, way_m - self.began[1]
        if lasted_s >= self._most_s:
            yield "recovery time", f"it has backed off for {lasted_s:.2f} s"
        if gone_m >= self._most_m:
            yield "recovery distance", f"it has backed off by {gone_m:.2f} m"


def operated(teleop: Teleop | None, now_ns: int, config: Config) -> bool:
    """Return whether an operator drives."""
    dead_man_ns = config.limits.teleop_dead_man_s * NS_PER_S
    return teleop is not None and abs(now_ns - teleop.arrival_ns) <= dead_man_ns


def _possible(message: OdometryMessage) -> bool:
    """Return whether the odometry is finite and within the limits of a base."""
    twist = message.twist
    numbers = [twist.v_mps, twist.w_radps]
    if message.pose is not None:
        numbers += [message.pose.x_m, message.pose.y_m, message.pose.yaw_rad]
    finite = all(map(math.isfinite, numbers))
    return finite and _within(twist, MAX_SPEED_MPS, MAX_YAW_RATE_RADPS)


def _within(twist: Twist, speed_mps: float, rate_radps: float) -> bool:
    return abs(twist.v_mps) <= speed_mps and abs(twist.w_radps) <= rate_radps


def _ramp(wanted: float, base: float) -> float | None:
    """Return the acceleration limit that the runtime applies; None if the base's own limit is lower."""
    return wanted if wanted < base else None


def _ramped(last: float, now: float, most: float) -> bool:
    """Return whether a speed changed by at most `most` away from zero or across it. Any change towards zero passes."""
    if now == 0.0 or (now * last > 0.0 and abs(now) <= abs(last)):
        return True
    return abs(now - last) <= most + ROUNDING
