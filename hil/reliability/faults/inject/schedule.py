"""Schedule of faults. An injection has an onset and an end on the clock of the run; injections may overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.ros_types import Image, LaserScan
from onboard.policy.inference import InferenceResult
from onboard.values.messages import Inputs, Twist

COLOR = "color"
"""Name of the colour camera in the calls of an injection."""


class Injection:
    """Changes the inputs and outputs of a runtime while it is active. This base class changes nothing.

    One object serves one fault of one run, so it may keep a state.
    """

    def saw(self, source: str, sample: Image | LaserScan) -> None:
        """Receive an image of a camera, or a scan of a topic, from before the onset."""

    def image(self, camera: str, sample: Image, now_ns: int) -> Image | None:
        """Return the message that replaces a camera's new image; None drops the image."""
        return sample

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan | None:
        """Return the message that replaces a new ready-made scan; None drops the scan."""
        return sample

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return the inputs that replace the inputs of a tick."""
        return inputs

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return the additional latency of a decision that begins now [ns]. end_ns: end of the fault."""
        return 0

    def result(self, result: InferenceResult) -> InferenceResult:
        """Return the result that replaces the result of a decision that begins now."""
        return result

    def blocked_ns(self) -> int:
        """Return the time by which the loop's next tick is delayed [ns]."""
        return 0

    def command(self, command: Twist) -> Twist | None:
        """Return the command that replaces a command to the base; None drops it. Raises DriverError."""
        return command


@dataclass(frozen=True, slots=True)
class Scene:
    """The properties of a run that an injection may use."""

    config: Config
    mounts: Mounts
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PlannedInjection:
    """An injection from its onset to just before its end, on the clock of the run [ns]."""

    injection: Injection
    onset_ns: int
    end_ns: int


class Schedule:
    """The injections of a run. `add` may be called during the run."""

    def __init__(self, planned: Iterable[PlannedInjection] = ()) -> None:
        self._planned = list(planned)

    def add(self, planned: PlannedInjection) -> None:
        """Add an injection."""
        self._planned.append(planned)

    def coming(self, now_ns: int) -> list[PlannedInjection]:
        """Return the injections that have not begun."""
        return [one for one in self._planned if now_ns < one.onset_ns]

    def active(self, now_ns: int) -> list[PlannedInjection]:
        """Return the active injections in the order of `add`, and drop the ended injections."""
        self._planned = [one for one in self._planned if now_ns < one.end_ns]
        return [one for one in self._planned if one.onset_ns <= now_ns]
