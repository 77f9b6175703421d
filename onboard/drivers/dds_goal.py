"""Goals as they come over DDS: not more of them than a person or a planner gives, and no name that harms a log.

Every goal begins an episode anew: without a limit, who sends thirty a second keeps the robot from ever deciding.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from onboard.drivers.dds_graph import printable
from onboard.drivers.ros_messages import goal_from_ros
from onboard.drivers.sender_clock import WriterClocks
from onboard.drivers.wire import Wire
from onboard.messages import GoalRequest
from onboard.scheduler import NS_PER_S

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

    def __init__(self, wire: Wire) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self._reader = wire.reader("goal_pose")
        self._clocks = WriterClocks(judged=wire.section.judge_late)
        self._allowance = Allowance(GOALS_PER_S, GOALS_AT_ONCE)
        self.refused = 0

    def take(self, now_ns: int) -> tuple[GoalRequest, ...]:
        """Return what arrived since the last call and may pass, oldest first. Raises DriverError.

        The arrival of one that came later than it could have is so much earlier: `goals.py` refuses it.
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
