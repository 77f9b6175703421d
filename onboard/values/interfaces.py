"""The seams of the runtime: a few verbs each. Real devices, simulation and replay are objects behind these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from onboard.values.messages import (
    CameraHealth,
    ColorFrame,
    Decision,
    DepthFrame,
    Inputs,
    Memory,
    Observation,
    Pose,
    Scan,
    Twist,
)


class DepthCamera(Protocol):
    """One depth camera. `latest` never waits; a camera that is down, stalled or covered returns None."""

    name: str

    def latest(self, now_ns: int) -> DepthFrame | None:
        """Return the newest usable frame, or None while the camera is blind (see `health`)."""

    def health(self) -> CameraHealth:
        """Return the state for diagnostics."""

    def close(self) -> None:
        """Release the device. Safe to call twice."""


class ColorCamera(Protocol):
    """The forward colour camera, with the same rules as `DepthCamera`."""

    def latest(self, now_ns: int) -> ColorFrame | None:
        """Return the newest frame at the policy's size, or None while there is none that is fresh."""

    def health(self) -> CameraHealth:
        """Return the state for diagnostics."""

    def close(self) -> None:
        """Release the device. Safe to call twice."""


class Inbox(Protocol):
    """Where a tick's inputs come from: devices and DDS, a simulated world, or a recording."""

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call, without waiting. Raises DriverError if the link is gone."""

    def close(self) -> None:
        """Release what it holds. Safe to call twice."""


class Drive(Protocol):
    """Where velocity commands go: the DDS writer, a serial base, or the simulated plant."""

    def send(self, command: Twist) -> None:
        """Pass one command on without waiting. Raises DriverError if the link is gone."""

    def close(self) -> None:
        """Send a stop and release the link. Safe to call twice."""


Diagnostic = tuple[str, int, str, Mapping[str, object]]
"""A row of `/diagnostics`: name, level (0 ok, 1 warning, 2 error, 3 stale), message, values."""


class Outputs(Protocol):
    """What the robot tells the world, beside its commands. Stamps are wall time [ns]; nothing here waits."""

    def scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the scan that the policy sees."""

    def limits_scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the scan that the limits look at, where it is another."""

    def state(self, text: str) -> None:
        """Publish the state with its reason."""

    def diagnostics(self, entries: Sequence[Diagnostic], stamp_ns: int) -> None:
        """Publish the health of all parts."""

    def transforms(self, odom_from_base: Pose, map_from_odom: Pose | None, stamp_ns: int) -> None:
        """Publish where the robot is; the map's part only while it is localised."""

    def cameras(self, stamp_ns: int) -> None:
        """Publish mounts and intrinsics of the cameras."""


class Engine(Protocol):
    """Runs one model. Created, warmed and run by the one inference thread; not thread-safe."""

    name: str

    def warm_up(self) -> None:
        """Run once on zeros so that the first decision is as fast as the others. Raises EngineError."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the outputs by name. Raises EngineError on failure; NaN is for the caller to judge."""

    def close(self) -> None:
        """Release the device. Safe to call twice."""


class Policy(Protocol):
    """Observation and memory in, decision and new memory out; keeps no state of its own between calls.

    memory_reset_s: how often its memory is reset [s]; None is never
    """

    name: str
    memory_reset_s: float | None

    def initial_memory(self) -> Memory:
        """Return the memory at the start of an episode and after a reset."""

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the chosen action and the new memory. Raises EngineError."""

    def close(self) -> None:
        """Release the engine. Safe to call twice."""
