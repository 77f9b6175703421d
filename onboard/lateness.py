"""How much later a message came than it could have, by the clock of its sender, which need not be ours.

How far apart the two clocks are is not known, but how long the quickest message so far seemed to be under way is. One
that seems to have taken longer by some time was that much later: a network that has filled its queues delivers what
was a while ago at a regular pace, and by its arrival alone it would be new.
"""

from __future__ import annotations

from dataclasses import dataclass

DRIFT = 2e-4
"""Two clocks run apart by less than this part of the time: so slowly the quickest message is forgotten."""


@dataclass(frozen=True, slots=True)
class Quickest:
    """The message that seemed to take least. took_ns: its arrival less its stamp, each by its own clock; then_ns: its
    arrival, monotonic [ns]."""

    took_ns: int
    then_ns: int


def lateness(quickest: Quickest | None, stamp_ns: int, now_ns: int) -> tuple[int, Quickest]:
    """Return how much later a message came than the quickest one [ns], never below 0, and the quickest one now.

    quickest: of the messages so far of this clock, None before the first; now_ns: arrival, monotonic
    """
    took_ns = now_ns - stamp_ns
    if quickest is None:
        return 0, Quickest(took_ns, now_ns)
    least_ns = quickest.took_ns + round(DRIFT * max(0, now_ns - quickest.then_ns))
    if took_ns <= least_ns:
        return 0, Quickest(took_ns, now_ns)
    return took_ns - least_ns, quickest
