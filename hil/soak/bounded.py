"""What must hold of recoveries, and that the robot is never wedged, judged by what it truly does."""

from __future__ import annotations

from collections.abc import Iterator

from hil.faults.monitor import GRACE_TICKS, Violation
from hil.faults.steps import Step
from onboard.config import Config
from onboard.messages import Twist
from onboard.scheduler import NS_PER_S

RECOVERY, WEDGED = "recovery", "wedged"
SLACK_M = 0.1
"""From the command that ends a try the base rolls on."""
WEDGED_SLACK_S = 15.0
"""Beyond the time after which a drive without progress must have ended."""
MOVED_M = 0.05


class Bounded:
    """Watches one runtime: tries, time, way and speed of its recoveries, and how long it stands while it drives."""

    def __init__(self, config: Config) -> None:
        self._section, self._goal = config.recovery, config.goal
        self._grace_ns = round(GRACE_TICKS * NS_PER_S / config.rates.control_hz)
        self._tries_ns: list[int] = []
        self._began: tuple[int, float] | None = None
        self._moved: tuple[int, float] | None = None

    def watch(self, step: Step, path_m: float, operator: bool) -> list[Violation]:
        """Return what this tick breaks. path_m: the true way so far; operator: whether one drives.

        Tries count whatever goals are given meanwhile: who gives them does not move what stands in the way.
        """
        wrong = [*self._backing(step, path_m), *self._wedged(step, path_m, operator)]
        return [Violation(step.slot, rule, what) for rule, what in wrong]

    def _backing(self, step: Step, path_m: float) -> Iterator[tuple[str, str]]:
        section, now_ns = self._section, step.now_ns
        if not step.backing:
            self._began = None
            return
        if step.command.v_mps < -section.backward_mps and step.wanted == _back(section.backward_mps):
            yield RECOVERY, f"it backs off at {-step.command.v_mps:.2f} m/s"
        if self._began is None:
            self._began = now_ns, path_m
            window_ns = round(section.window_s * NS_PER_S)
            self._tries_ns = [at_ns for at_ns in (*self._tries_ns, now_ns) if now_ns - at_ns < window_ns]
            if len(self._tries_ns) > section.tries:
                yield RECOVERY, f"try {len(self._tries_ns)} within {section.window_s:g} s"
            return
        began_ns, began_m = self._began
        if now_ns - began_ns > section.backward_s * NS_PER_S + self._grace_ns:
            yield RECOVERY, f"it has backed off for {(now_ns - began_ns) / NS_PER_S:.2f} s"
        if path_m - began_m > section.backward_mps * section.backward_s + SLACK_M:
            yield RECOVERY, f"it has backed off by {path_m - began_m:.2f} m"

    def _wedged(self, step: Step, path_m: float, operator: bool) -> Iterator[tuple[str, str]]:
        """Find a drive that goes on without a way, longer than the mission lets one without progress."""
        if not step.driving or operator or self._moved is None or path_m - self._moved[1] > MOVED_M:
            self._moved = step.now_ns, path_m
            return
        stood_s = (step.now_ns - self._moved[0]) / NS_PER_S
        if stood_s > self._goal.progress_timeout_s + WEDGED_SLACK_S:
            yield WEDGED, f"it drives, and has stood for {stood_s:.0f} s"
            self._moved = step.now_ns, path_m


def _back(speed_mps: float) -> Twist:
    return Twist(-speed_mps, 0.0)
