"""How much later a message came than it could have, by the clock of its sender, which need not be ours.

How far apart the two clocks are is not known, but how long the quickest message so far seemed to be under way is. One
that seems to have taken longer by some time was that much later: a network that has filled its queues delivers what
was a while ago at a regular pace, and by its arrival alone it would be new.

A sender's clock that is being slewed back seems to make its messages later too. Its stamps tell: no network changes
how far apart those of two messages are. Where they lie closer than before while the messages arrive as often as before,
the clock loses time, and what it lost makes nothing late (`_slewed`). What is slower than that is left to `DRIFT`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from onboard.scheduler import NS_PER_S

DRIFT = 2e-4
"""Two clocks run apart by less than this part of the time: so slowly the quickest message is forgotten."""
WINDOW_NS = 2 * NS_PER_S
"""Over so long the pace of a sender is compared with the one before."""
STEPS = 10
"""Fewer messages than that in a window have no pace."""
SLEW_LEAST, SLEW_MOST = 0.02, 0.11
"""A clock that is slewed back loses this part of the time: chrony takes 8.3 %, and never more than 10 %."""
SUDDEN_NS = NS_PER_S // 4
"""No slewed clock makes a message so much later within a window: a queue is full, and that is not forgotten."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a sender speaks.

    period_ns: between two of its stamps, of the last window but one whose stamps kept up with the arrivals, 0 where not
               known: in the last of them a slew may just have begun
    newer_ns:  of the last window, 0 where they did not keep up
    stamps:    those of the window that lasts
    began_ns:  when it began, monotonic
    before_ns: how late the message before it was
    """

    period_ns: float = 0.0
    newer_ns: float = 0.0
    stamps: tuple[int, ...] = ()
    began_ns: int = 0
    before_ns: int = 0


@dataclass(frozen=True, slots=True)
class Quickest:
    """The message that seemed to take least. took_ns: its arrival less its stamp, each by its own clock; then_ns: its
    arrival, monotonic [ns]; held: it is not forgotten; late_ns: how late the newest was; pace: of its sender."""

    took_ns: int
    then_ns: int
    held: bool = False
    late_ns: int = 0
    pace: Pace = Pace()


def lateness(quickest: Quickest | None, stamp_ns: int, now_ns: int) -> tuple[int, Quickest]:
    """Return how much later a message came than the quickest one [ns], never below 0, and the quickest one now.

    quickest: of the messages so far of this clock, None before the first; now_ns: arrival, monotonic
    """
    took_ns = now_ns - stamp_ns
    if quickest is None:
        return 0, Quickest(took_ns, now_ns, pace=Pace(stamps=(stamp_ns,), began_ns=now_ns))
    pace, slewed_ns = _paced(quickest, stamp_ns, now_ns)
    known = replace(quickest, took_ns=quickest.took_ns + slewed_ns)
    drift_ns = 0 if known.held else round(DRIFT * max(0, now_ns - known.then_ns))
    least_ns = known.took_ns + drift_ns
    if took_ns <= least_ns:
        return 0, Quickest(took_ns, now_ns, pace=pace)
    late_ns = took_ns - least_ns
    if known.held:
        held = late_ns > SUDDEN_NS // 2
        return late_ns, Quickest(least_ns, now_ns, held, late_ns, pace)
    if late_ns - pace.before_ns > SUDDEN_NS and _often((*quickest.pace.stamps, stamp_ns)):
        return late_ns, Quickest(least_ns, now_ns, True, late_ns, pace)
    return late_ns, replace(known, late_ns=late_ns, pace=pace)


def _paced(quickest: Quickest, stamp_ns: int, now_ns: int) -> tuple[Pace, int]:
    """Return the pace after one more message, and how much its sender's clock lost in a window that it ends [ns]."""
    pace = quickest.pace
    stamps = (*pace.stamps, stamp_ns)
    passed_ns = now_ns - pace.began_ns
    if passed_ns < WINDOW_NS:
        return replace(pace, stamps=stamps), 0
    newer_ns, slewed_ns = _slewed(pace.period_ns, stamps, passed_ns)
    period_ns = pace.newer_ns if newer_ns and pace.newer_ns else pace.period_ns
    return Pace(period_ns, newer_ns, (stamp_ns,), now_ns, max(0, quickest.late_ns - slewed_ns)), slewed_ns


def _slewed(period_ns: float, stamps: tuple[int, ...], passed_ns: int) -> tuple[float, int]:
    """Return the period of a window, 0 where its stamps did not keep up, and the time that the sender's clock lost.

    Lost is what the periods of the messages say beyond what their stamps say, if the arrivals say what the periods do:
    one that only speaks more often, or whose messages queue, has lost nothing. A message that did not arrive counts as
    one of the periods between its neighbours.
    """
    steps = [after - before for before, after in pairwise(stamps)]
    usual_ns = sorted(steps)[len(steps) // 2] if len(steps) >= STEPS else 0
    if usual_ns <= 0:
        return 0.0, 0
    periods, stamped_ns = sum(round(step / usual_ns) for step in steps), stamps[-1] - stamps[0]
    if abs(passed_ns - stamped_ns) <= SLEW_LEAST * passed_ns:
        return stamped_ns / periods, 0
    spoken_ns = periods * period_ns
    lost_ns = spoken_ns - stamped_ns
    slewed = SLEW_LEAST * passed_ns <= lost_ns <= SLEW_MOST * passed_ns
    return 0.0, round(lost_ns) if slewed and abs(passed_ns - spoken_ns) <= lost_ns / 4 else 0


def _often(stamps: tuple[int, ...]) -> bool:
    """Return whether stamps lie so close that a clock that was set back would have shown by going back."""
    return max(after - before for before, after in pairwise(stamps)) <= SUDDEN_NS
