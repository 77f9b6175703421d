"""The clock in the headers of one topic, which need not be ours: whether it goes on, and what came late by it.

How far apart the two clocks are is not known, but how long the quickest message of the last minutes seemed to be under
way is. One that seems to have taken longer by some time was that much later: a network that has filled its queues
delivers old pictures of the world at a regular pace, and by their arrival alone they would be new.
"""

from __future__ import annotations

from collections import deque

from onboard.scheduler import NS_PER_S

NEW_CLOCK_NS = 10 * NS_PER_S
"""A stamp that goes back further than this is of another clock: one that was set, or of a sender that began anew."""
SPAN_NS = 10 * NS_PER_S
SPANS = 12
"""The quickest message is that of so many spans: longer, and two clocks that run apart would make everything late."""


class SenderClock:
    """What is known of one sender's clock. newest_ns: the newest stamp that was taken, None before the first."""

    def __init__(self) -> None:
        self.newest_ns: int | None = None
        self._quickest: deque[tuple[int, int]] = deque(maxlen=SPANS)

    def goes_on(self, stamp_ns: int) -> bool:
        """Return whether a stamp is later than the newest one, or of a new clock; else it repeats what came before."""
        newest_ns = self.newest_ns
        return newest_ns is None or stamp_ns > newest_ns or stamp_ns < newest_ns - NEW_CLOCK_NS

    def take(self, stamp_ns: int, now_ns: int) -> int:
        """Take a stamp that goes on, and return how much longer it was under way than the quickest one [ns].

        now_ns: CLOCK_MONOTONIC at its arrival. A clock that is set forward makes nothing late; as stamps go on, one
        that is set back by less than `NEW_CLOCK_NS` is stamped earlier than the newest, and not taken at first.
        """
        if self.newest_ns is not None and stamp_ns < self.newest_ns:
            self._quickest.clear()
        self.newest_ns = stamp_ns
        took_ns, span = now_ns - stamp_ns, now_ns // SPAN_NS
        if self._quickest and self._quickest[-1][0] == span:
            _, least_ns = self._quickest.pop()
            self._quickest.append((span, min(least_ns, took_ns)))
        else:
            self._quickest.append((span, took_ns))
        return took_ns - min(least_ns for _, least_ns in self._quickest)
