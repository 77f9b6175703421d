"""An operator's commands as they come over DDS: each as old as it is, not as new as it arrives.

A radio that loses its link and a network that fills its queues deliver what an operator wanted a while ago. How late a
command is tells the time at which it was written, against the quickest one of the same writer (`sender_clock.py`): the
operator's clock need not be ours. So the first command of a writer is never late, nor the first after a silence, and
one that has been late from there on is not either.

By R3 of `onboard/safety/limits.py` an operator does not drive by what is too old. But whoever sends it has taken
over, perhaps to
stop: for the dead man's time after such a command came it holds the robot, whatever it says.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from onboard.drivers.dds.discovery import printable
from onboard.drivers.dds.participant import InputWire, Received, WriterMessages
from onboard.drivers.dds.ros_convert import goal_from_ros, twist_from_ros
from onboard.drivers.dds.sender_clock import WriterClocks
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, GoalRequest, Teleop

# ---- Goals as they come over DDS: not more of them than a person or a planner gives, and no name that harms a log

log = structlog.get_logger()

GOALS_PER_S = 2
GOALS_AT_ONCE = 10
"""So many may come in one go, after a pause; then no more than GOALS_PER_S."""


class Allowance:
    """How many more may pass: `most` after a pause, refilled at `per_s`. Time is an argument, monotonic [ns]."""

    def __init__(self, per_s: float, most: int) -> None:
        self._refill_ns = round(NS_PER_S / per_s)
        self._most = most
        self._empty_ns: int | None = None

    def grant(self, asked: int, now_ns: int) -> int:
        """Return how many of so many may pass now."""
        full_ns = now_ns - self._most * self._refill_ns
        since_ns = full_ns if self._empty_ns is None else max(self._empty_ns, full_ns)
        granted = min(asked, max(0, now_ns - since_ns) // self._refill_ns)
        self._empty_ns = since_ns + granted * self._refill_ns
        return granted


class Goals:
    """What is asked for on `/goal_pose`. Of too many the newest are taken; `refused` counts the others."""

    def __init__(self, wire: InputWire[WriterMessages]) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self._reader = wire.reader("goal_pose")
        self._clocks = WriterClocks(judged=wire.section.judge_late)
        self._allowance = Allowance(GOALS_PER_S, GOALS_AT_ONCE)
        self.refused = 0

    def take(self, now_ns: int) -> tuple[GoalRequest, ...]:
        """Return what arrived since the last call and may pass, oldest first. Raises DriverError.

        The arrival of one that came later than it could have is so much earlier: `onboard/episode.py` refuses it.
        """
        messages = self._reader.take()
        if messages:
            self._clocks.keep(self._reader.writers())
        asked = [goal_from_ros(one.sample, now_ns - self._clocks.late_ns(one, now_ns)) for one in messages]
        granted = self._allowance.grant(len(asked), now_ns)
        left_out = len(asked) - granted
        if left_out and not self.refused:
            log.warning("too_many_goals", most=GOALS_AT_ONCE, then_per_s=GOALS_PER_S)
        self.refused += left_out
        return tuple(replace(goal, frame_id=printable(goal.frame_id)) for goal in asked[left_out:])

    @property
    def undecodable(self) -> int:
        """Messages so far that were no goal."""
        return self._reader.undecodable


NS_PER_MS = 1_000_000
PAUSE_NS = NS_PER_S // 4
"""After a pause of the tick as long as this, a waiting command is of unknown age and is not taken."""
TOLD_NS = NS_PER_S // 4
"""One that comes later than this is told: half of the dead man's time by default."""


class Operator:
    """The newest command that an operator gave; a stop once it is too old to drive by and has only just come."""

    def __init__(self, wire: InputWire[WriterMessages], dead_man_s: float) -> None:
        """Open the reader. dead_man_s: `limits.teleop_dead_man_s`. Raises ConfigError, DriverError."""
        self._reader = wire.reader("cmd_vel_teleop")
        self._clocks = WriterClocks(judged=wire.section.judge_late)
        self._dead_man_ns = round(dead_man_s * NS_PER_S)
        self._newest: Teleop | None = None
        self._came_ns = 0
        self._taken_ns = 0
        self._late = False

    def take(self, now_ns: int) -> Teleop | None:
        """Return it, None before the first, without waiting. Raises DriverError when the link is gone."""
        messages, paused = self._reader.take(), now_ns - self._taken_ns > PAUSE_NS
        self._taken_ns = now_ns
        if messages:
            self._clocks.keep(self._reader.writers())
        for message in messages if not paused else ():
            self._hear(message, now_ns)
        return self._held(now_ns)

    @property
    def undecodable(self) -> int:
        """Messages so far that were no Twist."""
        return self._reader.undecodable

    def _hear(self, message: Received, now_ns: int) -> None:
        """Keep a command that is newer than what is known: of several operators one may be late."""
        late_ns = self._clocks.late_ns(message, now_ns)
        was_late, self._late = self._late, late_ns > TOLD_NS
        if self._late and not was_late:
            log.warning("teleop_late", late_ms=late_ns // NS_PER_MS, why="the network, or its clock was set back")
        self._came_ns = now_ns
        if self._newest is None or now_ns - late_ns >= self._newest.arrival_ns:
            self._newest = Teleop(now_ns - late_ns, twist_from_ros(message.sample))

    def _held(self, now_ns: int) -> Teleop | None:
        """Return the newest command, or a stop in its place: as new as what came last, not as what was written last."""
        newest = self._newest
        if newest is None or now_ns - newest.arrival_ns <= self._dead_man_ns:
            return newest
        return Teleop(self._came_ns, STOP) if now_ns - self._came_ns <= self._dead_man_ns else newest
