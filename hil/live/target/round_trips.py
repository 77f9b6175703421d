"""Joins what was sent with what came back, into round trips. Pure: times are arguments, every interval is of one clock.

Images go out with a stamp. The target tells, tick by tick, which stamps it had (`onboard.service.image_acks.Used`), and
its commands come with the time at which its DDS wrote them. A command belongs to the tick within whose time it was
written: both are times of the target's clock. From an image's sending to its command's coming is an interval of our
clock; how long the target itself had it is one of the target's clock; the difference of the two is the wire's part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onboard.drivers.dds.camera_input import COLOR
from onboard.service.image_acks import Used

NS_PER_MS = 1e6
PATIENCE_NS = 1_000_000_000
"""A command that has not come so long after its tick was heard of is lost."""
LOST_NS = 2_000_000_000
"""Images that no command has known for so long are unanswered."""
REMEMBERED = 1000
"""Sets of images of which the times are kept for the decisions that used them: a minute of them at 15 Hz."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Images that were published together, of one pose.

    stamp_ns: what they carry, ascending; cameras: whose they are
    began_ns: just before the first was handed to DDS, our clock [ns]
    posed_ns: just before the odometry of that pose was, our clock [ns]
    """

    stamp_ns: int
    cameras: tuple[str, ...]
    began_ns: int
    posed_ns: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command that came. written_ns: the target's wall time; received_ns: our clock."""

    written_ns: int
    received_ns: int


@dataclass(frozen=True, slots=True)
class Trip:
    """One round trip [ms]: all of it on our clock, and how much of that the target had it, on its clock."""

    total_ms: float
    target_ms: float

    @property
    def wire_ms(self) -> float:
        """Both ways on the wire, and the wait for the tick that takes what has come, with its taking."""
        return self.total_ms - self.target_ms


@dataclass(slots=True)
class Trips:
    """What was measured.

    command:    set of depth images sent -> first command that knew it, or something newer of every camera
    decision:   the same -> first command of the decision that began with it
    color:      colour image sent -> first command of the decision that began with it
    sensors:    odometry of a pose sent -> word from the target that it has all images of it; what it did between having
                them and the word is left out, the word's own way back is not
    superseded: sets of depth images of which the target never had all: newer ones were there first
    unanswered: sets of depth images that no command had known when measuring ended, though they were sent long before
    lost_commands: ticks of the target of which no command came
    """

    command: list[Trip] = field(default_factory=list)
    decision: list[Trip] = field(default_factory=list)
    color: list[Trip] = field(default_factory=list)
    sensors: list[Trip] = field(default_factory=list)
    superseded: int = 0
    unanswered: int = 0
    lost_commands: int = 0


class Matcher:
    """Takes what was sent and what came, in whatever order it is told of, and keeps the `trips`."""

    def __init__(self, depth: Sequence[str]) -> None:
        self._depth = tuple(depth)
        self._sets: dict[int, Sent] = {}
        self._guarded: deque[Sent] = deque()
        self._awaited: deque[Sent] = deque()
        self._commands: deque[Command] = deque()
        self._used: deque[tuple[Used, int]] = deque()
        self._sensed: dict[int, Used] = {}
        self.trips = Trips()

    def begin(self) -> None:
        """Measure from now on: forget what was measured, and what is under way."""
        self.trips = Trips()
        self._guarded.clear()
        self._awaited.clear()

    def end(self, now_ns: int) -> Trips:
        """Return what was measured until now, and begin anew."""
        measured = self.trips
        measured.unanswered = sum(now_ns - sent.began_ns > LOST_NS for sent in self._guarded)
        self.begin()
        return measured

    def send(self, sent: Sent) -> None:
        """Note a set of images that is about to be sent."""
        self._sets[sent.stamp_ns] = sent
        while len(self._sets) > REMEMBERED:
            del self._sets[next(iter(self._sets))]
        self._awaited.append(sent)
        if set(self._depth) <= set(sent.cameras):
            self._guarded.append(sent)

    def receive(self, command: Command) -> None:
        """Note a command that came."""
        self._commands.append(command)
        self._join(command.received_ns)

    def hear(self, used: Used, received_ns: int) -> None:
        """Note what the target says of one of its ticks; these come in order."""
        self._used.append((used, received_ns))
        self._join(received_ns)

    def _join(self, now_ns: int) -> None:
        while self._used:
            used, received_ns = self._used[0]
            while self._commands and self._commands[0].written_ns < used.told_ns - used.taken_ns:
                self._commands.popleft()  # of a tick that was not told of
            later = bool(self._commands) and self._commands[0].written_ns > used.told_ns
            if not self._commands and now_ns - received_ns < PATIENCE_NS:
                return
            self._used.popleft()
            command = None if later or not self._commands else self._commands.popleft()
            self._settle(used, received_ns, command)

    def _settle(self, used: Used, received_ns: int, command: Command | None) -> None:
        trips = self.trips
        while self._awaited and _has(used, self._awaited[0].cameras, self._awaited[0].stamp_ns):
            sent = self._awaited.popleft()
            had_ns = used.taken_ns - used.inbox_ns
            trips.sensors.append(_trip(received_ns - sent.posed_ns - had_ns, 0))
        if used.sensed:
            self._sensed = {used.sensed: used}  # one at a time is under way
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
        """Return the trip of the images that a decision began with; none where one of these cameras was blind."""
        if not cameras or not set(cameras) <= set(images):
            return []
        sent = self._sets.get(min(images[name] for name in cameras))
        return [] if sent is None else [_trip(command.received_ns - sent.began_ns, had_ns)]


def _has(used: Used, cameras: Sequence[str], stamp_ns: int) -> bool:
    """Return whether a tick had an image of that stamp or a newer one of each of the cameras."""
    return all(name in used.images and used.images[name] >= stamp_ns for name in cameras)


def _trip(total_ns: int, target_ns: int) -> Trip:
    return Trip(total_ns / NS_PER_MS, target_ns / NS_PER_MS)
