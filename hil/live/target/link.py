"""DDS links of the desktop: `TargetLink` records send times of images, `EventReaders` records arrival times."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

import numpy as np
import numpy.typing as npt

from hil.drive.robot import Glance, SensorSignals, SimulatedRobot
from hil.live.simulator import Link
from hil.live.target.round_trips import Command, ImageSet
from onboard.config.mounts import Mounts
from onboard.drivers.dds.camera_input import COLOR, as_sent
from onboard.drivers.dds.participant import Reader, ReceivedMessage, Wire
from onboard.drivers.dds.ros_convert import optical_frame, ros_image
from onboard.drivers.dds.topics import LOG, Topic, topic
from onboard.service.image_acks import ImageTiming, used_from_ros
from onboard.values.clock import wall_ns
from onboard.values.errors import InputError

LISTEN_S = 0.1
"""Timeout of each wait of a listening thread. Closing takes at most this time."""

Happening = ImageSet | Command | tuple[ImageTiming, int]
"""An event on DDS: images just before sending, a received command, or a tick report with its arrival time [ns]."""


class TargetLink(Link):
    """DDS link of the simulated robot. It records the send times of images in `events`."""

    def __init__(self, wire: Wire, mounts: Mounts, events: SimpleQueue[Happening]) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        super().__init__(wire, mounts)
        self._events = events
        self._posed_ns: dict[int, int] = {}
        self._stamp_ns = 0

    def publish_pose(self, sensed: SensorSignals, number: int, tick: int) -> None:
        """Publish the sensed values of `tick`, and record the time. number: number of the slot."""
        self._posed_ns = {tick: time.monotonic_ns(), **dict(list(self._posed_ns.items())[:SHOWN_AT_ONCE])}
        self.publish(sensed, number)

    def show(self, robot: SimulatedRobot, glance: Glance, depth: bool, color: bool) -> None:
        """Render all due images, then publish them with the same stamp. depth, color: which images are due."""
        images: dict[str, tuple[str, npt.NDArray[np.uint16] | npt.NDArray[np.uint8]]] = {}
        if depth:
            images |= {name: ("16UC1", image) for name, image in robot.depth(glance).items()}
        seen = robot.color(glance) if color and self._color is not None else None
        writers = dict(self._depth)
        if seen is not None and self._color is not None:
            writers[COLOR] = self._color
            images[COLOR] = ("rgb8", seen)
        if not images:
            return
        self._stamp_ns = stamp_ns = max(wall_ns(), self._stamp_ns + 1)
        messages = {name: ros_image(stamp_ns, optical_frame(name), *image) for name, image in images.items()}
        began_ns = time.monotonic_ns()
        self._events.put(ImageSet(stamp_ns, tuple(images), began_ns, self._posed_ns.get(glance.tick, began_ns)))
        for name, message in messages.items():
            ours = "color/image" if name == COLOR else f"{name}/depth/image"
            writers[name].write(as_sent(message, self._section, ours))


SHOWN_AT_ONCE = 30
"""Number of older poses whose send times are kept: the rendering thread may still work on their images."""


class EventReaders:
    """Records commands and tick reports in `events`. Each topic has a separate thread."""

    def __init__(self, wire: Wire, events: SimpleQueue[Happening]) -> None:
        """Start the listening threads. Raises ConfigError, DriverError."""
        self._events, self._over = events, Event()
        command = topic("cmd_vel")
        every_one = Topic(command.name, command.wire, command.kind, LOG, command.stamped_kind)
        readers: dict[Callable[[ReceivedMessage, int], None], Reader] = {
            self._command: wire.reader(every_one),
            self._used: wire.reader("used"),
        }
        self._threads = [Thread(target=self._listen, args=item, daemon=True) for item in readers.items()]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads. Call this before the wire is closed. A second call has no effect."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _listen(self, note: Callable[[ReceivedMessage, int], None], reader: Reader) -> None:
        while not self._over.is_set():
            if reader.wait(LISTEN_S):
                now_ns = time.monotonic_ns()
                for message in reader.take():
                    note(message, now_ns)

    def _command(self, message: ReceivedMessage, now_ns: int) -> None:
        self._events.put(Command(message.written_ns, now_ns))

    def _used(self, message: ReceivedMessage, now_ns: int) -> None:
        try:
            self._events.put((used_from_ros(message.sample), now_ns))
        except InputError:  # another sender's message on this topic; the target's messages are valid
            return
