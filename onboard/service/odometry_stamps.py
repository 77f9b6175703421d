"""Why odometry is stale though its messages come: stamps that stand still, are coarse, or run slower than real time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from onboard.config.config import OdometrySection
from onboard.counters import Counters
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import InputFault

NS_PER_MS = 1_000_000
WINDOW_NS = 8 * NS_PER_S
LEAST_NS = 2 * NS_PER_S
LEAST_MESSAGES = 5
EVERY_NS = NS_PER_S // 2
LATE_MS = 80
"""A clock that loses less within the window is not named slow: a tick's length is uncertain."""


class OdometryStamps:
    """Keeps stamps and arrivals of the last messages. A listener; `faults` says what is wrong with them."""

    def __init__(self, section: OdometrySection, topic: str) -> None:
        """topic: its ROS name"""
        self._section, self._topic = section, topic
        self._recent: deque[tuple[int, int]] = deque()
        self._judged_ns = 0
        self._faults: list[InputFault] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Take the messages of a tick; judge them every EVERY_NS."""
        now_ns, recent = record.inputs.now_ns, self._recent
        recent.extend((message.stamp_ns, message.arrival_ns) for message in record.inputs.odometry)
        while recent and now_ns - recent[0][1] > WINDOW_NS:
            recent.popleft()
        if now_ns - self._judged_ns < EVERY_NS or record.after is None:
            return
        self._judged_ns = now_ns
        stale_ns, wheels, messages = round(self._section.stale_ms * NS_PER_MS), record.after.wheels, list(recent)
        standing, cause = True, still_cause(messages, stale_ns)
        if not cause and self._section.judge_late and wheels.late_ns >= LATE_MS * NS_PER_MS:
            standing = wheels.fresh_ns is not None and now_ns - wheels.fresh_ns > stale_ns
            cause = slow_cause(messages)
        self._faults = [InputFault("odometry", f"{self._topic}: {cause}", standing)] if cause else []

    def faults(self) -> list[InputFault]:
        """Return the fault of odometry's stamps, if they make it stale or late."""
        return self._faults


def still_cause(messages: Sequence[tuple[int, int]], stale_ns: int) -> str:
    """Return why the stamps do not advance within `stale_ns`, and what to do, or "".

    messages: stamp and arrival of each [ns]
    """
    if not _enough(messages):
        return ""
    remedy = (
        f"set the time in header.stamp in the base's driver (odometry.stale_ms = {stale_ns / NS_PER_MS:g} needs it)"
    )
    stamps = {stamp_ns for stamp_ns, _ in messages}
    if len(stamps) == 1:
        same = "0" if stamps == {0} else f"the same, {messages[0][0] / NS_PER_S:.3f} s"
        return f"the stamps of all messages are {same}: {remedy}"
    newer = [messages[0], *(now for before, now in pairwise(messages) if now[0] > before[0])]
    steps = [(now[0] - before[0], now[1] - before[1]) for before, now in pairwise(newer)]
    if len(newer) > len(messages) / 2 or 2 * sum(lasts > stale_ns for _, lasts in steps) < len(steps):
        return ""
    step_s = sorted(step for step, _ in steps)[len(steps) // 2] / NS_PER_S
    return f"its stamps change only every {step_s:.2f} s: {remedy}"


def slow_cause(messages: Sequence[tuple[int, int]]) -> str:
    """Return why odometry that came later and later is late, and what to do, or ""."""
    if not _enough(messages) or any(after < before for (before, _), (after, _) in pairwise(messages)):
        return ""  # a clock that was set is another cause
    stamped_ns, lasted_ns = (messages[-1][part] - messages[0][part] for part in (0, 1))
    if lasted_ns - stamped_ns <= LATE_MS * NS_PER_MS:
        return ""
    pace = f"its stamps advance at {stamped_ns / lasted_ns:.2f} of real time"
    return f"{pace}: for a simulated clock set odometry.judge_late = false; otherwise messages queue on their way"


def _enough(messages: Sequence[tuple[int, int]]) -> bool:
    return len(messages) >= LEAST_MESSAGES and messages[-1][1] - messages[0][1] >= LEAST_NS
