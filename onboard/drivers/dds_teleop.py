"""An operator's commands as they come over DDS: each as old as it is, not as new as it arrives.

A radio that loses its link and a network that fills its queues deliver what an operator wanted a while ago. How late a
command is tells the time at which it was written, against the quickest one of the same writer (`sender_clock.py`): the
operator's clock need not be ours. So the first command of a writer is never late, nor the first after a silence, and
one that has been late from there on is not either.

By R3 of `limits.py` an operator does not drive by what is too old. But whoever sends it has taken over, perhaps to
stop: for the dead man's time after such a command came it holds the robot, whatever it says.
"""

from __future__ import annotations

import structlog

from onboard.drivers.ros_messages import twist_from_ros
from onboard.drivers.sender_clock import WriterClocks
from onboard.drivers.wire import Received, Wire
from onboard.messages import STOP, Teleop
from onboard.scheduler import NS_PER_S

log = structlog.get_logger()

NS_PER_MS = 1_000_000
PAUSE_NS = NS_PER_S // 4
"""After a pause of the tick as long as this, a waiting command is of unknown age and is not taken."""
TOLD_NS = NS_PER_S // 4
"""One that comes later than this is told: half of the dead man's time by default."""


class Operator:
    """The newest command that an operator gave; a stop once it is too old to drive by and has only just come."""

    def __init__(self, wire: Wire, dead_man_s: float) -> None:
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
