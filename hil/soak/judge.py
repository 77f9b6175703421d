"""Judges every tick of a long drive, and keeps what was broken, with the fault that was there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hil.faults.fault import Fault
from hil.faults.monitor import Monitor, Violation
from hil.faults.schedule import Planned
from hil.faults.steps import step_of
from hil.soak.bounded import Bounded
from hil.soak.contacts import Contact, Contacts
from hil.soak.ground import Ground
from onboard.config import Config
from onboard.motion import Plant
from onboard.scheduler import NS_PER_S
from onboard.tick import TickRecord

AFTER_NS = 2 * NS_PER_S
"""A fault is named for so long after its end: its last scan is believed until the next, and a base rolls on."""
MOST_KEPT = 200
"""Broken rules that are kept each with what happened; all are counted."""
CONTACT = "contact"


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that was broken: when [s since the start], in which slot of which runtime, where, under which fault."""

    at_s: float
    now_ns: int
    runtime: int
    slot: int
    building: str
    fault: str
    rule: str
    what: str


class Judge:
    """What was broken so far. A runtime that is begun anew is watched anew (`begin`)."""

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
        """Watch a new runtime."""
        self.runtimes += 1
        self._monitor, self._bounded = Monitor(self._config, self._plant), Bounded(self._config)
        self._contacts = Contacts(self._ground, self._config.robot.footprint_radius_m)

    def planned(self, fault: Fault, planned: Planned) -> None:
        """Take note of the fault that comes."""
        self._fault = fault, planned

    def fault_at(self, now_ns: int) -> Fault | None:
        """Return the fault that is there, or was just before."""
        if self._fault is None:
            return None
        fault, planned = self._fault
        return fault if planned.onset_ns <= now_ns < planned.end_ns + AFTER_NS else None

    def watch(self, record: TickRecord, at_s: float) -> bool:
        """Judge a tick; return whether something was broken in it."""
        step, fault = step_of(record), self.fault_at(record.slot.start_ns)
        operator = record.inputs.teleop is not None
        violations = self._monitor.watch(step)
        violations += self._bounded.watch(step, self._ground.path_m, operator)
        contact = self._contacts.look(record, fault, at_s)
        if contact is not None:
            self.contacts.append(contact)
            what = f"{contact.what}, at {contact.v_mps:.2f} m/s, {contact.w_radps:.2f} rad/s"
            violations.append(Violation(step.slot, CONTACT, what))
        self.ticks += 1
        self.moving += abs(self._ground.robot.state.twist.v_mps) > self._config.recovery.moving_mps
        self.recoveries += step.backing and not self._backing
        self._backing = step.backing
        for violation in violations:
            self.add(violation, record.slot.start_ns, at_s, fault)
        return bool(violations)

    def add(self, violation: Violation, now_ns: int, at_s: float, fault: Fault | None) -> None:
        """Count what was broken, and keep it with where it was."""
        self.rules[violation.rule] += 1
        if len(self.broken) < MOST_KEPT:
            name = fault.name if fault is not None else ""
            building = self._ground.building.name
            where = at_s, now_ns, self.runtimes, violation.slot, building, name
            self.broken.append(Broken(*where, violation.rule, violation.what))
