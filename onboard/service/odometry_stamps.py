"""Why odometry is stale though its messages come: stamps that stand still, are coarse, or run slower than real time."""

from __future__ import annotations

from collections import deque
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
        fresh_ns, stale_ns = record.after.wheels.fresh_ns, round(self._section.stale_ms * NS_PER_MS)
        cause = stamp_cause(list(recent), stale_ns, judged=self._section.judge_late)
        standing = fresh_ns is None or now_ns - fresh_ns > stale_ns
        late = record.after.wheels.late_ns >= LATE_MS * NS_PER_MS
        self._faults = (
            [InputFault("odometry", f"{self._topic}: {cause}", standing)] if cause and (standing or late) else []
        )

    def faults(self) -> list[InputFault]:
        """Return the fault of odometry's stamps, if they make it stale or late."""
        return self._faults


def stamp_cause(messages: list[tuple[int, int]], stale_ns: int, *, judged: bool) -> str:
    """Return what is wrong with the stamps and what to do, or "". messages: stamp and arrival of each [ns]"""
    if len(messages) < LEAST_MESSAGES or messages[-1][1] - messages[0][1] < LEAST_NS:
        return ""
    stamps = [stamp_ns for stamp_ns, _ in messages]
    remedy = (
        f"set the time in header.stamp in the base's driver (odometry.stale_ms = {stale_ns / NS_PER_MS:g} needs it)"
    )
    if len(set(stamps)) == 1:
        same = "0" if stamps[0] == 0 else f"the same, {stamps[0] / NS_PER_S:.3f} s"
        return f"the stamps of all messages are {same}: {remedy}"
    if any(after < before for before, after in pairwise(stamps)):
        return ""  # a clock that was set
    newer = [messages[0]] + [now for before, now in pairwise(messages) if now[0] > before[0]]
    steps = [(now[0] - before[0], now[1] - before[1]) for before, now in pairwise(newer)]
    coarse = len(newer) <= len(messages) / 2 and sum(lasts > stale_ns for _, lasts in steps) >= len(steps) / 2
    if coarse:
        step_s = sorted(step for step, _ in steps)[len(steps) // 2] / NS_PER_S
        return f"its stamps change only every {step_s:.2f} s: {remedy}"
    stamped_ns, lasted_ns = stamps[-1] - stamps[0], messages[-1][1] - messages[0][1]
    if judged and lasted_ns - stamped_ns > LATE_MS * NS_PER_MS:
        pace = f"its stamps advance at {stamped_ns / lasted_ns:.2f} of real time"
        return f"{pace}: for a simulated clock set odometry.judge_late = false; otherwise messages queue on their way"
    return ""
