"""Tells with every command which images its tick had, by the stamps of who sent them, on `onboard/used`.

So the sender of the images can measure, on its own clock alone, from sending an image to receiving a command that used
it (`onboard-hil target`). Every duration in a message is of this machine's clock alone, the stamps of images of the
sender's alone; the two are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from onboard.counters import STAGES, Counters
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ns_from_time, ros_diagnostics
from onboard.drivers.dds.ros_types import DiagnosticArray
from onboard.state import TickRecord
from onboard.values.clock import Clock, wall_ns
from onboard.values.errors import InputError

IMAGE = "image "
"""In front of the name of a camera, among the values of a message."""


AFTER_INBOX = STAGES[1:-1]
"""The stages between taking what has come and the command's being on its way."""


class SentImages(Protocol):
    """A camera whose images came with the stamp of who sent them (`onboard/drivers/dds/camera_input.py`)."""

    @property
    def sent_ns(self) -> int:
        """Return the stamp of the newest image, in the clock of its sender [ns]."""


@dataclass(frozen=True, slots=True)
class Used:
    """What one tick and its command used.

    told_ns:   wall time of the robot's machine at which this was told [ns]
    taken_ns:  how long before that the tick began [ns]; its command was written in between
    inbox_ns:  how long it then took until it had what had come, the images too [ns]. Counted back from the command by
               the stages between, so that a pause before the taking is in it
    sent_ns:   how long before that its command was written [ns]
    slot:      number of the tick on its grid; missed: slots skipped just before it
    sensed:    number of the decision that began in this tick, 0 when none
    acted:     number of the decision of which this command is the first, 0 when none
    acting_ns: from that decision's sensing to this command [ns]
    reason:    what shaped the command
    images:    camera -> stamp of the newest image that the tick knew of, in the clock of its sender [ns]; one that it
               judged to be of no use, of a covered lens say, is known too: its command heeds that nobody looks there
    """

    told_ns: int
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
    """A listener of the runtime that publishes a `Used` after every tick."""

    def __init__(self, wire: Wire, robot: str, clock: Clock, cameras: Mapping[str, SentImages]) -> None:
        """Open the writer; `cameras` by name. Raises ConfigError, DriverError."""
        self._writer = wire.writer("used")
        self._robot, self._clock, self._cameras = robot, clock, cameras

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Publish what one tick used. Raises DriverError."""
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


def used_from_ros(sample: DiagnosticArray) -> Used:
    """Return what a message says. Raises InputError when it is no message of `UsedImages`."""
    try:
        (status,) = sample.status
        values: dict[str, Any] = {pair.key: int(pair.value) for pair in status.values}
        images = {name.removeprefix(IMAGE): values.pop(name) for name in list(values) if name.startswith(IMAGE)}
        return Used(told_ns=ns_from_time(sample.header.stamp), reason=status.message, images=images, **values)
    except (ValueError, TypeError) as error:
        raise InputError(f"no message about used images: {error}") from error
