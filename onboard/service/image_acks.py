"""Publishes on `onboard/used`, with every command, which images its tick used, by the sender's stamps.

The sender of the images measures the latency from an image to its command on its own clock (`onboard-hil target`).
Durations in a message are on this machine's clock, image stamps on the sender's clock. No code compares the two clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onboard.counters import STAGES, Counters
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ns_from_time, ros_diagnostics
from onboard.drivers.dds.ros_types import DiagnosticArray
from onboard.state import TickRecord
from onboard.values.clock import Clock, wall_ns
from onboard.values.errors import InputError

IMAGE = "image "
"""Prefix of a camera's name in the keys of a message."""


AFTER_INBOX = STAGES[1:-1]
"""The stages after the inbox, up to sending the command."""


@dataclass(frozen=True, slots=True)
class ImageTiming:
    """Images of a tick, and the timing of its command.

    published_ns: wall time of the robot's machine at this message [ns]
    taken_ns:  from the tick's start to `published_ns` [ns]
    inbox_ns:  from the tick's start to the end of its inbox stage [ns]. Computed backwards from the command by the
               durations of the later stages, so a pause before the inbox stage is included
    sent_ns:   from the command's write to `published_ns` [ns]
    slot:      number of the tick on its grid; missed: slots skipped just before it
    sensed:    number of the decision that began in this tick, 0 without
    acted:     number of the decision whose first command this is, 0 without
    acting_ns: from that decision's sensing to this command [ns]
    reason:    stage or limit that shaped the command
    images:    camera -> stamp of its newest image, on the sender's clock [ns]. This includes rejected images, for
               example of a covered lens, because the command depends on the rejection
    """

    published_ns: int
    taken_ns: int
    inbox_ns: int
    sent_ns: int
    slot: int
    missed: int
    sensed: int
    acted: int
    acting_ns: int
    reason: str
    images: Mapping[str, int]


class UsedImages:
    """A listener of the runtime that publishes a `ImageTiming` message after every tick."""

    def __init__(
        self, wire: Wire, robot: str, clock: Clock, cameras: Mapping[str, DdsDepthCamera | DdsColorCamera]
    ) -> None:
        """Open the writer; `cameras` by name. Raises ConfigError, DriverError."""
        self._writer = wire.writer("used")
        self._robot, self._clock, self._cameras = robot, clock, cameras

    def has_readers(self) -> bool:
        """Return whether anything reads the messages, such as `onboard-hil target`."""
        return self._writer.readers() > 0

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Publish a tick's images and timing, if anything reads them. Raises DriverError."""
        if not self.has_readers():
            return
        now_ns, acted = self._clock.now_ns(), record.acted
        in_force = acted is not None and acted.decision is not None
        values: dict[str, object] = {
            "slot": record.slot.number,
            "missed": record.slot.missed,
            "taken_ns": now_ns - record.slot.start_ns,
            "inbox_ns": record.sent_ns - record.slot.start_ns - sum(record.stage_ns[name] for name in AFTER_INBOX),
            "sent_ns": now_ns - record.sent_ns,
            "sensed": record.sensed.number if record.sensed is not None else 0,
            "acted": acted.number if acted is not None and in_force else 0,
            "acting_ns": record.sent_ns - acted.sensed_ns if acted is not None and in_force else 0,
            **{f"{IMAGE}{name}": camera.sent_ns for name, camera in self._cameras.items() if camera.sent_ns},
        }
        self._writer.write(ros_diagnostics(wall_ns(), self._robot, [("used", 0, record.reason, values)]))


def used_from_ros(sample: DiagnosticArray) -> ImageTiming:
    """Return the content of a message of `UsedImages`. Raises InputError for another message."""
    try:
        (status,) = sample.status
        values: dict[str, Any] = {pair.key: int(pair.value) for pair in status.values}
        images = {name.removeprefix(IMAGE): values.pop(name) for name in list(values) if name.startswith(IMAGE)}
        return ImageTiming(
            published_ns=ns_from_time(sample.header.stamp), reason=status.message, images=images, **values
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"no message about used images: {error}") from error
