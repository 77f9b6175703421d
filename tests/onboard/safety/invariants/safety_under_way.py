"""Messages of the wheels that are under way, and whether the robot may still drive by the newest that has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from hil.reliability.faults.invariants import GRACE_TICKS, NS_PER_MS
from onboard.config.config import Config
from onboard.values.messages import OdometryMessage


class UnderWay:
    """Hands messages on `late_ns` after they were sent, in their order."""

    def __init__(self) -> None:
        self.late_ns = 0
        self._waiting: deque[tuple[int, OdometryMessage]] = deque()
        self._sent_ns: int | None = None
        self._overdue = 0

    def arrived(self, sent: Iterable[OdometryMessage], now_ns: int) -> tuple[OdometryMessage, ...]:
        """Return what arrives now. sent: just now."""
        self._waiting.extend((now_ns, message) for message in sent)
        there = []
        while self._waiting and now_ns - self._waiting[0][0] >= self.late_ns:
            self._sent_ns, message = self._waiting.popleft()
            there.append(replace(message, arrival_ns=now_ns))
        return tuple(there)

    def overdue(self, now_ns: int, config: Config) -> bool:
        """Return whether what has come was sent too long ago, since more ticks than are allowed. Once a tick."""
        late = self._sent_ns is None or now_ns - self._sent_ns > config.odometry.stale_ms * NS_PER_MS
        self._overdue = self._overdue + 1 if late else 0
        return self._overdue > GRACE_TICKS
