"""Latency of messages by their sender's clock, which may differ from this machine's, and detection of repeats.

The stamp is the header's, or DDS's source time for messages without a header.
"""

from __future__ import annotations

from onboard.drivers.dds.participant import ReceivedMessage
from onboard.values.clock import NS_PER_S, Sender, timed

NEW_CLOCK_NS = 10 * NS_PER_S
"""A stamp that goes back further belongs to a new clock: the clock was set, or the sender restarted."""
SILENCE_NS = 10 * NS_PER_S
"""After a longer silence of a writer, by its own clock, its clock may have been set: latency starts again."""
BEHIND_IN_ROW = 3
"""So many increasing stamps in a row behind the newest mean that the clock was set back by less than NEW_CLOCK_NS."""


class SenderClock:
    """One sender's clock. newest_ns: newest accepted stamp, None before the first."""

    def __init__(self) -> None:
        self.newest_ns: int | None = None
        self._behind = 0
        self._sender: Sender | None = None
        self._behind_sender: Sender | None = None

    def take(self, stamp_ns: int, now_ns: int) -> int | None:
        """Return a message's latency relative to the quickest message [ns], or None for a repeated stamp.

        now_ns: CLOCK_MONOTONIC at arrival. Setting the sender's clock, forward or back, makes no message late. DDS
        keeps the order of a writer, so a stamp behind the newest was written so: BEHIND_IN_ROW of them, increasing, end
        the wait for newer ones.
        """
        newest_ns, before = self.newest_ns, self._behind_sender
        if stamp_ns == newest_ns and before is None:
            return None
        if newest_ns is not None and newest_ns - NEW_CLOCK_NS <= stamp_ns <= newest_ns:
            goes_on = before is not None and stamp_ns > before.stamp_ns
            timing, sender = timed(before if goes_on else self._sender, stamp_ns, now_ns)
            self._behind, self._behind_sender = self._behind + 1 if goes_on else 1, sender
            if self._behind < BEHIND_IN_ROW:
                return None
        else:
            timing, sender = timed(before or self._sender, stamp_ns, now_ns)
        self.newest_ns, self._sender, self._behind, self._behind_sender = stamp_ns, sender, 0, None
        return timing.late_ns


class WriterClocks:
    """Latency of one topic's messages by DDS's source time; one clock for each writer.

    Goals and an operator's commands come irregularly, so a clock is forgotten after a silence: otherwise a clock set
    back in a pause would make all later messages late. The silence is measured between source times, so that messages
    held back by the network do not count as silence.
    """

    def __init__(self, *, judged: bool) -> None:
        """judged: `dds.judge_late`; without it no message is late."""
        self._judged = judged
        self._clocks: dict[int, SenderClock] = {}

    def late_ns(self, message: ReceivedMessage, now_ns: int) -> int:
        """Return a message's latency relative to the quickest message of its writer [ns].

        0 for the first message, the first after a silence of SILENCE_NS, and a message without a source time. Also 0
        for a source time before the newest: the clock was set back, because DDS keeps the order of a writer.
        """
        if not self._judged or not message.written_ns:
            return 0
        return self._clock_of(message).take(message.written_ns, now_ns) or 0

    def keep(self, writers: frozenset[int]) -> None:
        """Forget all writers but these."""
        self._clocks = {writer: clock for writer, clock in self._clocks.items() if writer in writers}

    def _clock_of(self, message: ReceivedMessage) -> SenderClock:
        """Return a writer's clock; a new clock for a new writer and after a silence."""
        clock = self._clocks.setdefault(message.writer, SenderClock())
        if clock.newest_ns is not None and message.written_ns - clock.newest_ns > SILENCE_NS:
            clock = self._clocks[message.writer] = SenderClock()
        return clock
