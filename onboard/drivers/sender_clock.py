"""The clock in the headers of one topic, which need not be ours: whether it goes on, and what came late by it.

How far apart the two clocks are is not known, but how long the quickest message so far seemed to be under way is. One
that seems to have taken longer by some time was that much later: a network that has filled its queues delivers old
pictures of the world at a regular pace, and by their arrival alone they would be new.
"""

from __future__ import annotations

from onboard.scheduler import NS_PER_S

NEW_CLOCK_NS = 10 * NS_PER_S
"""A stamp that goes back further than this is of another clock: one that was set, or of a sender that began anew."""
BEHIND_IN_ROW = 3
"""So many stamps in a row that go on among themselves, behind the newest, are of a clock that was set back by less."""
DRIFT = 2e-4
"""Two clocks run apart by less than this part of the time: so slowly the quickest message is forgotten."""


class SenderClock:
    """What is known of one sender's clock. newest_ns: the newest stamp that was taken, None before the first."""

    def __init__(self) -> None:
        self.newest_ns: int | None = None
        self._behind_ns: int | None = None
        self._behind = 0
        self._quickest: tuple[int, int] | None = None

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
        took_ns = now_ns - stamp_ns
        if self._quickest is None:
            self._quickest = took_ns, now_ns
        least_ns, then_ns = self._quickest
        least_ns += round(DRIFT * max(0, now_ns - then_ns))
        if took_ns <= least_ns:
            self._quickest = took_ns, now_ns
        return max(0, took_ns - least_ns)

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
