"""Live messages from DDS. The view only reads; it never makes a sender wait or repeat."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from hil.live.twin.topics import COLLISION, NAMESPACE, POSE, STATE
from hil.recordings.recording import TWIN_PREFIX, TopicMessage
from hil.view.queue import ScreenQueue
from onboard.config.config import DdsSection
from onboard.config.mounts import Mounts
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.topics import Quality, Topic, ros_topic, topic
from onboard.system.waiting import Waiting
from onboard.values.clock import wall_ns

PLAIN = (
    "tf", "odom", "scan", "limits_scan", "cmd_vel", "cmd_vel_teleop", "state", "diagnostics", "goal_pose", "amcl_pose",
    "obstacle", "e_stop",
)  # fmt: skip
STREAM = Quality(depth=20, read_best_effort=True)
"""Best-effort reading: no sender waits for an acknowledgement of the view, not even a runtime that ends. Messages from
before the start of the view, such as a goal, are not received."""
IMAGES = Quality(depth=1, read_best_effort=True)
IMAGE_PERIOD_S = 0.2
"""Least time between images of a camera; the middleware overwrites the images between."""
POLL_S = 0.05


def shown_topics(section: DdsSection, mounts: Mounts, images: bool) -> dict[str, Topic]:
    """Return the read topics by their shown name: the robot's topics, then those of a twin.

    A twin's topic that the robot reads by remapping appears once, as the robot's.
    """
    names = dict.fromkeys(PLAIN, STREAM) | _sensed(mounts, images)
    robot = {name: replace(topic(name), quality=quality) for name, quality in names.items()}
    own = {"pose": POSE, "state": STATE, "collision": COLLISION}
    twin = {name: replace(row, quality=STREAM) for name, row in own.items()}
    twin |= {name: replace(topic(name), quality=quality) for name, quality in _sensed(mounts, images).items()}
    taken = {ros_topic(section, row) for row in robot.values()}
    for name, row in twin.items():
        shown = f"{TWIN_PREFIX}{name}"
        moved = replace(row, name=shown, wire=f"{NAMESPACE}/{row.wire}")
        if ros_topic(section, moved) not in taken:
            robot[shown] = moved
    return robot


def _sensed(mounts: Mounts, images: bool) -> dict[str, Quality]:
    sensed = {"scan": STREAM}
    if images:
        sensed |= {f"{camera}/depth/image": IMAGES for camera in mounts.depth}
        sensed |= {"color/image": IMAGES} if mounts.color else {}
    return sensed


class DdsSource:
    """Readers of all shown topics."""

    def __init__(self, wire: Wire, mounts: Mounts, images: bool) -> None:
        """Open the readers. images: also of the cameras. Raises ConfigError, DriverError."""
        topics = shown_topics(wire.section, mounts, images)
        self._readers: dict[str, Reader] = {name: wire.reader(row) for name, row in topics.items()}
        self._images = [name for name, row in topics.items() if row.quality == IMAGES]
        self._images_due_s = 0.0
        where = f"domain {wire.domain}, interface {wire.section.interface}"
        self.missing = f"no topic of the robot is heard ({where}): is `onboard run` running?"

    def wait(self) -> None:
        """Wait until there may be new messages."""
        self._readers["tf"].wait(POLL_S)

    def take(self) -> list[TopicMessage]:
        """Return the messages since the last call. Raises DriverError if the link is lost."""
        now_ns, now_s = wall_ns(), time.monotonic()
        wanted = dict(self._readers)
        if now_s >= self._images_due_s:
            self._images_due_s = now_s + IMAGE_PERIOD_S
        else:
            for name in self._images:
                del wanted[name]
        return [TopicMessage(name, now_ns, one.sample) for name, reader in wanted.items() for one in reader.take()]


def listen(
    source: DdsSource, queue: ScreenQueue, over: threading.Event, seconds: float | None, watched: Callable[[], bool]
) -> None:
    """Forward messages until `over` is set, `seconds` have passed, or `watched` is False. It says what is missing."""
    waiting, heard = Waiting(lambda line: sys.stderr.write(f"{line}\n")), False
    deadline_s = None if seconds is None else time.monotonic() + seconds
    while not over.is_set() and watched():
        source.wait()
        for message in source.take():
            queue.put(message)
            heard = True
        waiting.note("" if heard else source.missing)
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return
