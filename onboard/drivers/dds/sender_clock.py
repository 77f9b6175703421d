"""The clock of who sends one topic, which need not be ours: whether it goes on, and what came late by it.

It stands in the headers of what is measured. Of what has none, DDS tells when it was written.
"""

from __future__ import annotations

from onboard.drivers.dds.participant import Received
from onboard.values.clock import NS_PER_S, Quickest, lateness

NEW_CLOCK_NS = 10 * NS_PER_S
"""A stamp that goes back further than this is of another clock: one that was set, or of a sender that began anew."""
SILENCE_NS = 10 * NS_PER_S
"""After a writer wrote nothing for so long by its own clock, that clock may have been set: it is judged anew."""
BEHIND_IN_ROW = 3
"""So many stamps in a row that go on among themselves, behind the newest, are of a clock that was set back by less."""


class SenderClock:
    """What is known of one sender's clock. newest_ns: the newest stamp that was taken, None before the first."""

    def __init__(self) -> None:
        self.newest_ns: int | None = None
        self._behind_ns: int | None = None
        self._behind = 0
        self._quickest: Quickest | None = None

    def take(self, stamp_ns: int, now_ns: int) -> int | None:
        """Return how much later a message came than the quickest one [ns], or None for one that repeats what was.

        now_ns: CLOCK_MONOTONIC at its arrival. A clock that is set, forward or back, makes nothing late.
        """
        newest_ns = self.newest_ns
        if newest_ns is not None and newest_ns - NEW_CLOCK_NS <= stamp_ns <= newest_ns and not self._set_back(stamp_ns):
            return None
        if self._behind or (newest_ns is not None and stamp_ns < newest_ns):
            self._quickest = None
        self.newest_ns, self._behind, self._behind_ns = stamp_ns, 0, None
        late_ns, self._quickest = lateness(self._quickest, stamp_ns, now_ns)
        return late_ns

    def _set_back(self, stamp_ns: int) -> bool:
        """Return whether a stamp behind the newest is the last of enough that go on among themselves.

        A network does not bring one writer's messages out of their order: what is behind was stamped so.
        """
        if stamp_ns == self.newest_ns:
            return False
        goes_on = self._behind_ns is None or stamp_ns > self._behind_ns
        self._behind = self._behind + 1 if goes_on else 1
        self._behind_ns = stamp_ns
        return self._behind >= BEHIND_IN_ROW


class WriterClocks:
    """How late the messages of one topic come, by when they were written: one clock a writer.

    For what is sent now and then, a goal or an operator's command, so what a clock told before a silence is forgotten:
    one that is set back in a pause longer than its step makes all that follows look late. The pause is that between two
    times of writing, so what a network held back is not taken for it.
    """

    def __init__(self, *, judged: bool) -> None:
        """judged: whether clocks are looked at (`dds.judge_late`); otherwise nothing is late."""
        self._judged = judged
        self._clocks: dict[int, SenderClock] = {}

    def late_ns(self, message: Received, now_ns: int) -> int:
        """Return how much later a message came than the quickest one of its writer [ns].

        The first is never late, nor the first after a silence of SILENCE_NS, nor one without a time (0). One that was
        written before the newest is of a clock that was set back, for DDS keeps the order of a writer: it counts as on
        time.
        """
        if not self._judged or not message.written_ns:
            return 0
        return self._clock_of(message).take(message.written_ns, now_ns) or 0

    def keep(self, writers: frozenset[int]) -> None:
        """Forget all writers but these."""
        self._clocks = {writer: clock for writer, clock in self._clocks.items() if writer in writers}

    def _clock_of(self, message: Received) -> SenderClock:
        """Return what is known of a writer's clock: nothing for a new writer, nor after a silence."""
        clock = self._clocks.setdefault(message.writer, SenderClock())
        if clock.newest_ns is not None and message.written_ns - clock.newest_ns > SILENCE_NS:
            clock = self._clocks[message.writer] = SenderClock()
        return clock
