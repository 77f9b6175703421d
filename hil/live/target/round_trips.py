"""Matches sent images with received commands and tick reports, and computes round-trip latencies.

Pure: all times are arguments, and every interval uses the times of a single clock.

* Each image has a stamp. In every tick the target reports which stamps it had
  (`onboard.service.image_acks.ImageTiming`).
* Each command has the time at which the target's DDS wrote it. A command belongs to the tick during which it was
  written. Both times are on the target's clock.
* The round trip, from sending an image to receiving its command, is an interval of this machine's clock. The target's
  part of it is an interval of the target's clock. The difference is the network's part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onboard.drivers.dds.camera_input import COLOR
from onboard.service.image_acks import ImageTiming

NS_PER_MS = 1e6
PATIENCE_NS = 1_000_000_000
"""Timeout for a command after the report of its tick. After it, the command is lost."""
LOST_NS = 2_000_000_000
"""Timeout for a command that used the images. After it, the images are unanswered."""
REMEMBERED = 1000
"""Number of image sets whose send times are kept for later decisions: about a minute at 15 Hz."""


@dataclass(frozen=True, slots=True)
class ImageSet:
    """A set of images of the same pose, published together.

    stamp_ns: stamp of the images; it increases from set to set
    cameras:  names of the cameras
    began_ns: time just before the first image was given to DDS, this machine's clock [ns]
    posed_ns: time just before the odometry of that pose was given to DDS, this machine's clock [ns]
    """

    stamp_ns: int
    cameras: tuple[str, ...]
    began_ns: int
    posed_ns: int


@dataclass(frozen=True, slots=True)
class Command:
    """A received command. written_ns: wall time of the target; received_ns: this machine's clock."""

    written_ns: int
    received_ns: int


@dataclass(frozen=True, slots=True)
class Trip:
    """A round-trip latency [ms]. total_ms: on this machine's clock; target_ms: the target's part, on its clock."""

    total_ms: float
    target_ms: float

    @property
    def wire_ms(self) -> float:
        """Return the network's part [ms]: both directions, the wait for the target's next tick, and its inbox stage."""
        return self.total_ms - self.target_ms


@dataclass(slots=True)
class Trips:
    """The measured round trips.

    command:    from sending a set of depth images to the first command that used it or newer images of every camera
    decision:   from sending a set of depth images to the first command of the decision that began with it
    color:      from sending a colour image to the first command of the decision that began with it
    sensors:    from sending the odometry of a pose to the target's report that it has all images of the pose. The
                target's time between having the images and the report is excluded; the report's transport is included
    superseded: number of sets of depth images that the target never had complete, because newer images came first
    unanswered: number of sets of depth images that no command had used when the measurement ended, although they were
                sent more than `LOST_NS` before
    lost_commands: number of the target's ticks without a received command
    """

    command: list[Trip] = field(default_factory=list)
    decision: list[Trip] = field(default_factory=list)
    color: list[Trip] = field(default_factory=list)
    sensors: list[Trip] = field(default_factory=list)
    superseded: int = 0
    unanswered: int = 0
    lost_commands: int = 0


class Matcher:
    """Takes sent images, commands and tick reports, and collects the `trips`. Commands and reports may interleave."""

    def __init__(self, depth: Sequence[str]) -> None:
        self._depth = tuple(depth)
        self._sets: dict[int, ImageSet] = {}
        self._guarded: deque[ImageSet] = deque()
        self._awaited: deque[ImageSet] = deque()
        self._commands: deque[Command] = deque()
        self._used: deque[tuple[ImageTiming, int]] = deque()
        self._sensed: dict[int, ImageTiming] = {}
        self.trips = Trips()

    def begin(self) -> None:
        """Start a new measurement: discard the trips so far and the images in transit."""
        self.trips = Trips()
        self._guarded.clear()
        self._awaited.clear()

    def end(self, now_ns: int) -> Trips:
        """Return the trips until now, and start a new measurement."""
        measured = self.trips
        measured.unanswered = sum(now_ns - sent.began_ns > LOST_NS for sent in self._guarded)
        self.begin()
        return measured

    def send(self, sent: ImageSet) -> None:
        """Record a set of images just before it is sent."""
        self._sets[sent.stamp_ns] = sent
        while len(self._sets) > REMEMBERED:
            del self._sets[next(iter(self._sets))]
        self._awaited.append(sent)
        if set(self._depth) <= set(sent.cameras):
            self._guarded.append(sent)

    def receive(self, command: Command) -> None:
        """Record a received command."""
        self._commands.append(command)
        self._join(command.received_ns)

    def hear(self, used: ImageTiming, received_ns: int) -> None:
        """Record the target's report of a tick and its arrival time [ns]. The reports must come in order."""
        self._used.append((used, received_ns))
        self._join(received_ns)

    def _join(self, now_ns: int) -> None:
        while self._used:
            used, received_ns = self._used[0]
            while self._commands and self._commands[0].written_ns < used.published_ns - used.taken_ns:
                self._commands.popleft()  # its tick was not reported
            later = bool(self._commands) and self._commands[0].written_ns > used.published_ns
            if not self._commands and now_ns - received_ns < PATIENCE_NS:
                return
            self._used.popleft()
            command = None if later or not self._commands else self._commands.popleft()
            self._settle(used, received_ns, command)

    def _settle(self, used: ImageTiming, received_ns: int, command: Command | None) -> None:
        trips = self.trips
        while self._awaited and _has(used, self._awaited[0].cameras, self._awaited[0].stamp_ns):
            sent = self._awaited.popleft()
            had_ns = used.taken_ns - used.inbox_ns
            trips.sensors.append(_trip(received_ns - sent.posed_ns - had_ns, 0))
        if used.sensed:
            self._sensed = {used.sensed: used}  # only a single decision is in progress
        if command is None:
            trips.lost_commands += 1
            return
        while self._guarded and _has(used, self._depth, self._guarded[0].stamp_ns):
            sent = self._guarded.popleft()
            trips.superseded += min(used.images[name] for name in self._depth) > sent.stamp_ns
            had_ns = used.taken_ns - used.inbox_ns - used.sent_ns
            trips.command.append(_trip(command.received_ns - sent.began_ns, had_ns))
        if used.acted in self._sensed:
            began = self._sensed.pop(used.acted)
            had_ns = used.acting_ns - began.inbox_ns
            trips.decision += self._decided(began.images, self._depth, had_ns, command)
            trips.color += self._decided(began.images, (COLOR,), had_ns, command)

    def _decided(self, images: Mapping[str, int], cameras: Sequence[str], had_ns: int, command: Command) -> list[Trip]:
        """Return the trip of a decision's first images, as a list. It is empty if a camera had no image."""
        if not cameras or not set(cameras) <= set(images):
            return []
        sent = self._sets.get(min(images[name] for name in cameras))
        return [] if sent is None else [_trip(command.received_ns - sent.began_ns, had_ns)]


def _has(used: ImageTiming, cameras: Sequence[str], stamp_ns: int) -> bool:
    """Return whether a tick had, from every camera, an image with this stamp or a newer stamp."""
    return all(name in used.images and used.images[name] >= stamp_ns for name in cameras)


def _trip(total_ns: int, target_ns: int) -> Trip:
    return Trip(total_ns / NS_PER_MS, target_ns / NS_PER_MS)
