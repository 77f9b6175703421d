"""When which faults are there: an injection has an onset and an end on the clock of the run, and any number overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.ros_types import Image, LaserScan
from onboard.policy.inference import Result
from onboard.values.messages import Inputs, Twist

COLOR = "color"
"""Name of the colour camera where a fault of an image is told which camera took it."""


class Injection:
    """Changes what passes the seams of a runtime while it is active. This one changes nothing; a fault overrides.

    One object serves one fault of one run, so it may remember what it did.
    """

    def saw(self, source: str, sample: Image | LaserScan) -> None:
        """Take note of an image of a camera, or a scan of a topic, that came before the onset."""

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return the message in place of an image that a camera has just sent; None where none comes."""
        return sample

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return the message in place of a ready-made scan that has just been sent; None where none comes."""
        return sample

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return the inputs in place of those that a tick is about to take."""
        return inputs

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return by how much a decision that is begun now comes later [ns]. end_ns: of the fault."""
        return 0

    def result(self, result: Result) -> Result:
        """Return what is answered in place of a decision that is begun now."""
        return result

    def blocked_ns(self) -> int:
        """Return for how long the loop is kept from its next tick [ns]."""
        return 0

    def command(self, command: Twist) -> Twist | None:
        """Return what reaches the base in place of a command; None for nothing. Raises DriverError."""
        return command


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may want to know of the run that it is made for."""

    config: Config
    mounts: Mounts
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """An injection from its onset to just before its end, on the clock of the run [ns]."""

    injection: Injection
    onset_ns: int
    end_ns: int


class Schedule:
    """The faults of a run. More may be added while it runs."""

    def __init__(self, planned: Iterable[Planned] = ()) -> None:
        self._planned = list(planned)

    def add(self, planned: Planned) -> None:
        """Plan one more."""
        self._planned.append(planned)

    def coming(self, now_ns: int) -> list[Planned]:
        """Return those that have not begun."""
        return [one for one in self._planned if now_ns < one.onset_ns]

    def active(self, now_ns: int) -> list[Planned]:
        """Return those that are there now, in the order in which they were planned; those that are over are let go."""
        self._planned = [one for one in self._planned if now_ns < one.end_ns]
        return [one for one in self._planned if one.onset_ns <= now_ns]
