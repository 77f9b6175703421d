"""Goals and an operator's commands over DDS, each with its latency.

A lost radio link or a full queue delivers old commands. The latency of a command is relative to the quickest command of
the same writer (`sender_clock.py`), because the operator's clock may differ from this machine's. So the first command
of a writer is never late, nor the first after a silence, and a constant delay from there on is not seen.

By R3 of `onboard/safety/limits.py` a late command does not drive the robot. But its sender has taken over, perhaps to
stop, so the robot stands for the dead man's time after a late command, whatever the command says.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import structlog

from onboard.drivers.dds.discovery import printable
from onboard.drivers.dds.participant import InputWire, ReceivedMessage, WriterMessages
from onboard.drivers.dds.ros_convert import goal_from_ros, goals_from_ros, twist_from_ros
from onboard.drivers.dds.sender_clock import WriterClocks
from onboard.drivers.dds.topics import also_as
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, GoalRequest, Teleop

log = structlog.get_logger()

GOALS_PER_S = 2
GOALS_AT_ONCE = 10
"""Burst size after a pause; then GOALS_PER_S."""


class Allowance:
    """A token bucket: `most` tokens, refilled at `per_s`. Time is an argument, monotonic [ns]."""

    def __init__(self, per_s: float, most: int) -> None:
        self._refill_ns = round(NS_PER_S / per_s)
        self._most = most
        self._empty_ns: int | None = None

    def grant(self, asked: int, now_ns: int) -> int:
        """Return how many of `asked` may pass now."""
        full_ns = now_ns - self._most * self._refill_ns
        since_ns = full_ns if self._empty_ns is None else max(self._empty_ns, full_ns)
        granted = min(asked, max(0, now_ns - since_ns) // self._refill_ns)
        self._empty_ns = since_ns + granted * self._refill_ns
        return granted


class Goals:
    """The goals of `/goal_pose` and `/onboard/goals`. Of too many goals the newest are taken; `refused` counts the
    others."""

    def __init__(self, wire: InputWire[WriterMessages], use_yaw: bool = False) -> None:
        """Open the readers. use_yaw: the heading of `/goal_pose` counts. Raises ConfigError, DriverError."""
        self._readers = (
            (wire.reader("goal_pose"), partial(goal_from_ros, use_yaw=use_yaw)),
            (wire.reader("goals"), goals_from_ros),
        )
        self._clocks = WriterClocks(judged=wire.section.judge_late)
        self._allowance = Allowance(GOALS_PER_S, GOALS_AT_ONCE)
        self.refused = 0

    def take(self, now_ns: int) -> tuple[GoalRequest, ...]:
        """Return the goals since the last call that may pass, oldest first. Raises DriverError.

        A goal's arrival is reduced by its latency, so that `onboard/episode.py` refuses a late goal.
        """
        asked: list[GoalRequest] = []
        taken = [(reader.take(), request_of) for reader, request_of in self._readers]
        if any(messages for messages, _ in taken):
            self._clocks.keep(frozenset[int]().union(*(reader.writers() for reader, _ in self._readers)))
        for messages, request_of in taken:
            asked += [request_of(one.sample, now_ns - self._clocks.late_ns(one, now_ns)) for one in messages]
        granted = self._allowance.grant(len(asked), now_ns)
        left_out = len(asked) - granted
        if left_out and not self.refused:
            log.warning("too_many_goals", most=GOALS_AT_ONCE, then_per_s=GOALS_PER_S)
        self.refused += left_out
        return tuple(_printable(goal) for goal in asked[left_out:])

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return sum(reader.undecodable for reader, _ in self._readers)


def _printable(goal: GoalRequest) -> GoalRequest:
    """Return the goal with frames that a log can show."""
    through = tuple((printable(frame), pose) for frame, pose in goal.through)
    return replace(goal, frame_id=printable(goal.frame_id), through=through)


NS_PER_MS = 1_000_000
PAUSE_NS = NS_PER_S // 4
"""After a longer pause between ticks, waiting commands have an unknown age and are dropped."""
LOGGED_NS = NS_PER_S // 4
"""Larger latencies are logged; half of the dead man's time by default."""


class Operator:
    """The newest command of an operator (Twist or TwistStamped); a stop if it arrived recently but is too old."""

    def __init__(self, wire: InputWire[WriterMessages], dead_man_s: float) -> None:
        """Open the reader. dead_man_s: `limits.teleop_dead_man_s`. Raises ConfigError, DriverError."""
        self._readers = wire.reader("cmd_vel_teleop"), wire.reader(also_as(wire.section, "cmd_vel_teleop"))
        self._clocks = WriterClocks(judged=wire.section.judge_late)
        self._dead_man_ns = round(dead_man_s * NS_PER_S)
        self._newest: Teleop | None = None
        self._came_ns = 0
        self._taken_ns = 0
        self._late = False

    def take(self, now_ns: int) -> Teleop | None:
        """Return the command, None before the first, without waiting. Raises DriverError if the link is gone."""
        messages, paused = (
            [one for reader in self._readers for one in reader.take()],
            now_ns - self._taken_ns > PAUSE_NS,
        )
        self._taken_ns = now_ns
        if messages:
            self._clocks.keep(frozenset[int]().union(*(reader.writers() for reader in self._readers)))
        for message in messages if not paused else ():
            self._hear(message, now_ns)
        return self._held(now_ns)

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return sum(reader.undecodable for reader in self._readers)

    def _hear(self, message: ReceivedMessage, now_ns: int) -> None:
        """Keep a command if it is newer than the kept command: one of several operators may be late."""
        late_ns = self._clocks.late_ns(message, now_ns)
        was_late, self._late = self._late, late_ns > LOGGED_NS
        if self._late and not was_late:
            log.warning("teleop_late", late_ms=late_ns // NS_PER_MS, why="the network, or its clock was set back")
        self._came_ns = now_ns
        if self._newest is None or now_ns - late_ns >= self._newest.arrival_ns:
            sample = message.sample
            self._newest = Teleop(now_ns - late_ns, twist_from_ros(getattr(sample, "twist", sample)))

    def _held(self, now_ns: int) -> Teleop | None:
        """Return the newest command, or a stop at the last arrival if the command is too old."""
        newest = self._newest
        if newest is None or now_ns - newest.arrival_ns <= self._dead_man_ns:
            return newest
        return Teleop(self._came_ns, STOP) if now_ns - self._came_ns <= self._dead_man_ns else newest
