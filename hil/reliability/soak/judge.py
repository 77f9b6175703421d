"""Checks every tick of a long drive, and keeps the broken rules with the fault at that time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hil.drive.robot import SimulatedRobot
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.inject.schedule import Planned
from hil.reliability.faults.invariants import GRACE_TICKS, Monitor, RecoveryBounds, Violation
from hil.reliability.faults.observed_tick import driving
from hil.reliability.soak.episodes import Ground
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.perception import collision
from onboard.safety.recovery import MOVING_MPS
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Scan, Twist

# ---- Rules for recoveries and for progress, by the true motion

SLACK_M = 0.1
"""After the command that ends a try the base still rolls."""
WEDGED_SLACK_S = 15.0
"""Tolerance on the time after which a drive without progress must end."""
MOVED_M = 0.05


class Bounded:
    """Checks one runtime: number, time, path and speed of its recovery tries, and its time without progress."""

    def __init__(self, config: Config) -> None:
        section, grace_s = config.recovery, GRACE_TICKS / config.rates.control_hz
        self._back, self._goal = Twist(-section.backward_mps, 0.0), config.goal
        most_m = section.backward_mps * section.backward_s + SLACK_M
        self._tries = RecoveryBounds(section, section.backward_s + grace_s, most_m)
        self._moved: tuple[int, float] | None = None

    def watch(self, tick: TickRecord, path_m: float, operator: bool) -> list[Violation]:
        """Return the rules that this tick breaks. path_m: true path so far; operator: whether an operator drives"""
        backing, now_ns = bool(tick.recovery), tick.slot.start_ns
        wrong = [*self._tries.watch(backing, now_ns, path_m), *self._wedged(tick, path_m, operator)]
        if backing and tick.command.v_mps < self._back.v_mps and tick.wanted == self._back:
            wrong.append(("recovery way", f"it backs off at {-tick.command.v_mps:.2f} m/s"))
        return [Violation(tick.slot.number, rule, what) for rule, what in wrong]

    def _wedged(self, tick: TickRecord, path_m: float, operator: bool) -> Iterator[tuple[str, str]]:
        """Yield a violation if a drive lasts longer without motion than the mission allows."""
        if not driving(tick) or operator or self._moved is None or path_m - self._moved[1] > MOVED_M:
            self._moved = tick.slot.start_ns, path_m
            return
        stood_s = (tick.slot.start_ns - self._moved[0]) / NS_PER_S
        if stood_s > self._goal.progress_timeout_s + WEDGED_SLACK_S:
            yield "wedged", f"it drives, and has stood for {stood_s:.0f} s"
            self._moved = tick.slot.start_ns, path_m


# ---- Contacts of the true robot: each is a broken rule

NEAR_M = 0.12
"""A contact within this distance of a seen obstacle is a contact with it: one tick's path, and noise of the scan."""
TOWARDS = 0.3
"""Minimum cosine of the angle between the direction of motion and an obstacle ahead."""
WALKER_M = 0.06
"""A pedestrian within this distance of the body counts as touched."""


@dataclass(frozen=True, slots=True)
class Contact:
    """One contact.

    v_mps, w_radps: true motion just before
    seen:  whether the limits' scan showed an obstacle at that place
    mover: whether a pedestrian was beside the robot
    fault: fault at that time or just before, "" for none
    """

    at_s: float
    building: str
    v_mps: float
    w_radps: float
    seen: bool
    mover: bool
    fault: str

    @property
    def what(self) -> str:
        """Return the description of the contact."""
        known = "something seen" if self.seen else "something that the scan did not show"
        return f"with {known}{', beside somebody' if self.mover else ''}"


class Contacts:
    """Finds contacts, tick by tick."""

    def __init__(self, ground: Ground, radius_m: float) -> None:
        self._ground, self._radius_m = ground, radius_m
        self._count = ground.contacts
        self._scan: Scan | None = None
        self._twist = Twist(0.0, 0.0)

    def look(self, record: TickRecord, fault: Fault | None, at_s: float) -> Contact | None:
        """Return the contact of the last tick, or None. fault: fault at that time or just before."""
        robot, count = self._ground.robot, self._ground.contacts
        found = None
        if count > self._count:
            found = Contact(
                at_s=at_s,
                building=self._ground.building.name,
                v_mps=self._twist.v_mps,
                w_radps=self._twist.w_radps,
                seen=self._scan is not None and seen_before(self._scan, self._twist.v_mps, self._radius_m),
                mover=_beside_mover(robot, self._radius_m),
                fault=fault.name if fault is not None else "",
            )
        self._count, self._scan, self._twist = count, record.limits_scan, robot.state.twist
        return found


def seen_before(scan: Scan, v_mps: float, radius_m: float) -> bool:
    """Return whether a scan shows an obstacle just before the body, in the direction of motion."""
    points = collision.obstacles(scan)
    away_m = np.hypot(points[:, 0], points[:, 1])
    ahead = points[:, 0] * math.copysign(1.0, v_mps) >= TOWARDS * away_m
    return bool((ahead & (away_m <= radius_m + NEAR_M)).any())


def _beside_mover(robot: SimulatedRobot, radius_m: float) -> bool:
    """Return whether a pedestrian is beside the body."""
    pose, bodies = robot.state.pose, robot.glance().bodies
    return any(
        math.hypot(x_m - pose.x_m, y_m - pose.y_m) - radius <= radius_m + WALKER_M for x_m, y_m, radius in bodies[:, :3]
    )


AFTER_NS = 2 * NS_PER_S
"""A fault counts for this time after its end: its last scan is in use until the next, and the base still rolls."""
MOST_KEPT = 200
"""Maximum number of broken rules with details; all are counted."""
CONTACT = "contact"


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule. at_s: time since the start [s]; runtime, slot: its number and slot; fault: "" for none."""

    at_s: float
    now_ns: int
    runtime: int
    slot: int
    building: str
    fault: str
    rule: str
    what: str


class Judge:
    """All broken rules so far. Call `begin` for each new runtime."""

    def __init__(self, config: Config, plant: Plant, ground: Ground) -> None:
        self._config, self._plant, self._ground = config, plant, ground
        self._fault: tuple[Fault, Planned] | None = None
        self.runtimes = 0
        self.broken: list[Broken] = []
        self.rules: Counter[str] = Counter()
        self.contacts: list[Contact] = []
        self.ticks = self.moving = self.recoveries = 0
        self._backing = False

    def begin(self) -> None:
        """Start the checks of a new runtime."""
        self.runtimes += 1
        self._monitor, self._bounded = Monitor(self._config, self._plant), Bounded(self._config)
        self._contacts = Contacts(self._ground, self._config.robot.footprint.reach_m)

    def planned(self, fault: Fault, planned: Planned) -> None:
        """Keep the next fault."""
        self._fault = fault, planned

    def fault_at(self, now_ns: int) -> Fault | None:
        """Return the fault at a time or just before; None without one."""
        if self._fault is None:
            return None
        fault, planned = self._fault
        return fault if planned.onset_ns <= now_ns < planned.end_ns + AFTER_NS else None

    def watch(self, tick: TickRecord, at_s: float) -> bool:
        """Check a tick; return whether it broke a rule."""
        fault = self.fault_at(tick.slot.start_ns)
        operator = tick.inputs.teleop is not None
        violations = self._monitor.watch(tick)
        violations += self._bounded.watch(tick, self._ground.path_m, operator)
        contact = self._contacts.look(tick, fault, at_s)
        if contact is not None:
            self.contacts.append(contact)
            what = f"{contact.what}, at {contact.v_mps:.2f} m/s, {contact.w_radps:.2f} rad/s"
            violations.append(Violation(tick.slot.number, CONTACT, what))
        self.ticks += 1
        self.moving += abs(self._ground.robot.state.twist.v_mps) > MOVING_MPS
        self.recoveries += bool(tick.recovery) and not self._backing
        self._backing = bool(tick.recovery)
        for violation in violations:
            self.add(violation, tick.slot.start_ns, at_s, fault)
        return bool(violations)

    def add(self, violation: Violation, now_ns: int, at_s: float, fault: Fault | None) -> None:
        """Count a broken rule, and keep it with time, slot, building and fault."""
        self.rules[violation.rule] += 1
        if len(self.broken) < MOST_KEPT:
            name = fault.name if fault is not None else ""
            building = self._ground.building.name
            where = at_s, now_ns, self.runtimes, violation.slot, building, name
            self.broken.append(Broken(*where, violation.rule, violation.what))
