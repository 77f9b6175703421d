"""Counts and durations of a run, for `/diagnostics` and `onboard run --json`."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import structlog

from onboard.config.config import RatesSection
from onboard.episode import Answer
from onboard.navigation.ekf import tracked
from onboard.policy.decision import FinishedDecision
from onboard.safety import limits, recovery
from onboard.state import RobotState, TickRecord
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, Clock, Histogram, Slot
from onboard.values.messages import STOP, Inputs

STAGES = ("inbox", "odometry", "scan", "policy", "limits", "hold", "send", "tell")
"""The stages of one tick, in order; each has a histogram of its durations."""

BUDGET_MS = 70.0
"""Time for sensing, fusing and inferring, of the 100 ms until the action; longer is counted."""
KEPT_DELAYS = 4096
"""Number of delays kept: more than 20 minutes of decisions."""


@dataclass(slots=True)
class Counters:
    """Counts since the start. The histograms hold durations [ns].

    lateness:     from a slot's deadline to the tick's start
    decision:     from sensing to the policy's answer; above `BUDGET_MS` it counts as over budget
    sense_to_act: from a decision's sensing to its first command on the wire, unless that is a stop, which goes at once;
                  `delays_ns` keeps the newest ones
    delay_error:  absolute difference of that from the constant delay of `rates.delay_ticks`
    """

    ticks: int = 0
    missed_slots: int = 0
    decisions: int = 0
    deadline_misses: int = 0
    over_budget: int = 0
    memory_resets: int = 0
    recoveries: int = 0
    lateness: Histogram = field(default_factory=Histogram)
    decision: Histogram = field(default_factory=Histogram)
    sense_to_act: Histogram = field(default_factory=Histogram)
    delay_error: Histogram = field(default_factory=Histogram)
    delays_ns: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT_DELAYS))
    stages: dict[str, Histogram] = field(default_factory=lambda: {name: Histogram() for name in STAGES})
    reasons: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def count_slot(self, slot: Slot) -> None:
        """Count a tick, its lateness and the slots missed before it."""
        self.ticks += 1
        self.missed_slots += slot.missed
        self.lateness.add(slot.lateness_ns)

    def count(self, record: TickRecord, rates: RatesSection) -> None:
        """Count a tick's command by its reason, a memory reset, and a decision: in time, over budget or missed."""
        self.reasons[record.reason] += 1
        self.memory_resets += record.sensed is not None and record.sensed.memory_reset != ""
        acted = record.acted
        if acted is None:
            return
        if acted.decision is None:
            self.deadline_misses += not acted.fault
            return
        self.decisions += 1
        took_ns = acted.finished_ns - acted.sensed_ns
        self.decision.add(took_ns)
        self.over_budget += took_ns > BUDGET_MS * NS_PER_S / 1e3
        if record.command == STOP:
            return
        delay_ns = record.sent_ns - acted.sensed_ns
        self.sense_to_act.add(delay_ns)
        self.delays_ns.append(delay_ns)
        self.delay_error.add(abs(delay_ns - round(rates.delay_ticks * NS_PER_S / rates.control_hz)))

    def summary(self) -> dict[str, Any]:
        """Return all counts, and durations in milliseconds."""
        return {
            "ticks": self.ticks,
            "missed_slots": self.missed_slots,
            "decisions": self.decisions,
            "deadline_misses": self.deadline_misses,
            "over_budget": self.over_budget,
            "memory_resets": self.memory_resets,
            "recoveries": self.recoveries,
            "lateness_ms": self.lateness.summary_ms(),
            "decision_ms": self.decision.summary_ms(),
            "sense_to_act_ms": self.sense_to_act.summary_ms() | {"deviation_p99": deviation_p99_ms(self.delays_ns)},
            "delay_error_ms": self.delay_error.summary_ms(),
            "stages_ms": {name: histogram.summary_ms() for name, histogram in self.stages.items()},
            "commands_by_reason": dict(self.reasons),
            "faults": dict(self.faults),
        }


def deviation_p99_ms(durations_ns: Iterable[int]) -> float:
    """Return the jitter of durations: the 99th percentile of the distance from their median [ms]."""
    durations = np.fromiter(durations_ns, dtype=np.float64)
    if len(durations) == 0:
        return 0.0
    return round(float(np.quantile(np.abs(durations - np.median(durations)), 0.99)) / 1e6, 3)


# ---- Events, faults and stage durations of one tick

log = structlog.get_logger()

LOG_EVERY = 30
"""The journal logs every 30th repetition of a fault. It counts and records all."""


class Journal:
    """Collects events and stage durations of the current tick, logs and counts them."""

    def __init__(self, clock: Clock, counters: Counters, zones: bool = False, odom: str = "/odom") -> None:
        """Begin without events. zones: the map has zones, so log when they take effect; odom: topic of odometry."""
        self._clock, self._zones, self._odom = clock, zones, odom
        self._counters = counters
        self.events: list[str] = []
        self.stage_ns: dict[str, int] = {}
        self._stage, self._began_ns = "", 0

    def open(self, slot: Slot) -> None:
        """Begin a tick. The time of "tell" stays: a tick is reported before that stage ends."""
        self.events, self.stage_ns = [], {name: self.stage_ns[name] for name in self.stage_ns if name == "tell"}
        self._counters.count_slot(slot)

    def timed(self, stage: str) -> Journal:
        """Time a stage: `with journal.timed("scan")`. Stages do not nest."""
        self._stage = stage
        return self

    def __enter__(self) -> None:
        """Begin the stage."""
        self._began_ns = self._clock.now_ns()

    def __exit__(self, *_: object) -> None:
        """End the stage."""
        took_ns = self.stage_ns[self._stage] = self._clock.now_ns() - self._began_ns
        self._counters.stages[self._stage].add(took_ns)

    def note_changes(
        self,
        was: RobotState,
        now: RobotState,
        answers: Sequence[Answer],
        acted: FinishedDecision | None,
        recovered: recovery.Event | None,
        reason: str,
        inputs: Inputs,
    ) -> tuple[str, ...]:
        """Note a tick's changes and the answers to its goals, in the order of the stages; return all events."""
        if now.wheels.refused > was.wheels.refused:
            self.fault("odometry_refused", now.wheels.refusal)
        agrees, agreed = now.wheels.agreement, was.wheels.agreement
        for kind, text, before in (
            ("odometry_contradicts_itself", agrees.contradiction, agreed.contradiction),
            ("odometry_twist_unused", agrees.doubt, agreed.doubt),
        ):
            if text and not before:
                self.fault(kind, f"{self._odom} {text}")
            elif before and not text:
                self.note("odometry_agrees")
        if now.wheels.gyro.doubt and not was.wheels.gyro.doubt:
            self.fault("imu_unused", now.wheels.gyro.doubt)
        elif now.wheels.gyro.used and not was.wheels.gyro.used:
            self.note("imu_used", ratio=now.wheels.gyro.ratio, bias_radps=now.wheels.gyro.bias_radps)
        if now.wheels.reanchored > was.wheels.reanchored:
            self.fault("odometry_jumped", f"{self._odom} {now.wheels.jump}")
        if now.wheels.clock_sets > was.wheels.clock_sets:
            self.fault("odometry_clock_set", f"{self._odom} {now.wheels.clock_set}")
        if now.localization.refused > was.localization.refused:
            self.fault("localization_refused", now.localization.refusal or "the next fix was accepted")
        if self._zones and tracked(now.localization) != tracked(was.localization):
            self.note("map_zones", in_force=tracked(now.localization))
        for goal, verdict, refusal in answers:
            self.note(verdict, x_m=goal.pose.x_m, y_m=goal.pose.y_m, frame=goal.frame_id, reason=refusal)
        if acted is not None and acted.fault:
            self.fault("engine_failed", acted.fault)
        if now.recovery.noticed != was.recovery.noticed:
            self.note("obstacle", on=now.recovery.noticed)
        if recovered is not None:
            self.note("recovery", what=recovered.value)
            self._counters.recoveries += recovered is recovery.Event.BEGAN
        if (now.looking.look is None) != (was.looking.look is None):
            self.note("looking", what="ended" if now.looking.look is None else "began")
        if now.limits.limit_refused and not was.limits.limit_refused:
            self.fault("speed_limit_refused", reasons.LIMIT_REFUSED.say(value=inputs.speed_limit_mps))
        if (slow := limits.overload(now.limits.missed)) and not limits.overload(was.limits.missed):
            self.fault("overload", slow)
        if now.lost_ns is not None and was.lost_ns is None:
            self.fault(reason, "the robot stands until it is back")
        arrives, arrived = now.mission.arrival, was.mission.arrival
        if arrives.held and not arrived.held:
            self.note("arrival_waits", confidence=f"{arrives.confidence:.2f}")
        if arrives.overdue and not arrived.overdue:
            self.note("arrival_uncertain", confidence=f"{arrives.confidence:.2f}")
        if now.mission.passed > was.mission.passed:
            self.note("goal_passed", left=len(now.mission.then_xy_m) + 1)
        if now.mission.turning and not was.mission.turning:
            self.note("turns_to_heading")
        if now.mission.text() != was.mission.text():
            self.note("mission", state=now.mission.text())
        return tuple(self.events)

    def note(self, event: str, **fields: object) -> None:
        """Keep and log an event."""
        self.events.append(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))
        log.info(event, **fields)

    def fault(self, kind: str, detail: str) -> None:
        """Keep and count a fault; log the first and every `LOG_EVERY`th."""
        self.events.append(f"{kind}: {detail}")
        self._counters.faults[kind] += 1
        count = self._counters.faults[kind]
        if count == 1 or count % LOG_EVERY == 0:
            log.warning(kind, detail=detail, count=count)
