"""What a run counts and times: the numbers of `/diagnostics` and of `onboard run --json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from onboard.scheduler import Histogram, Slot

STAGES = ("inbox", "odometry", "scan", "policy", "limits", "send", "publish", "record")
"""The stages of one tick, in their order; each has a histogram of its times."""


@dataclass(slots=True)
class Counters:
    """Counts since the start. The histograms hold durations [ns].

    lateness:     from a slot's deadline to the tick's start
    decision:     from sensing to the policy's answer; above `rates.budget_ms` it counts as over budget
    sense_to_act: from a decision's sensing to its first command on the wire
    delay_error:  how far that was from the constant delay of `rates.delay_ticks`, either way
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
    stages: dict[str, Histogram] = field(default_factory=lambda: {name: Histogram() for name in STAGES})
    reasons: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def count_slot(self, slot: Slot) -> None:
        """Count a tick, its lateness and the slots missed before it."""
        self.ticks += 1
        self.missed_slots += slot.missed
        self.lateness.add(slot.lateness_ns)

    def summary(self) -> dict[str, Any]:
        """Return everything as plain numbers, durations in milliseconds."""
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
            "sense_to_act_ms": self.sense_to_act.summary_ms(),
            "delay_error_ms": self.delay_error.summary_ms(),
            "stages_ms": {name: histogram.summary_ms() for name, histogram in self.stages.items()},
            "commands_by_reason": dict(self.reasons),
            "faults": dict(self.faults),
        }

