"""Protocols of the runtime. Real devices, simulation and replay implement them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from onboard.values.reasons import Said


class DepthCamera(Protocol):
    """A depth camera. `latest` never waits; a failed, stalled or covered camera returns None."""

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
        """Return the newest frame at the policy's size, or None if the newest frame is stale."""

    def health(self) -> CameraHealth:
        """Return the state for diagnostics."""

    def close(self) -> None:
        """Release the device. Safe to call twice."""


class Inbox(Protocol):
    """Source of a tick's inputs: devices and DDS, a simulated world, or a recording."""

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs since the last call, without waiting. Raises DriverError if the link is gone."""

    def close(self) -> None:
        """Release devices and links. Safe to call twice."""


class Drive(Protocol):
    """Receives velocity commands: the DDS writer, a serial base, or the simulated plant."""

    def send(self, command: Twist) -> None:
        """Send a command without waiting. Raises DriverError if the link is gone."""

    def close(self) -> None:
        """Send a stop and release the link. Safe to call twice."""


Diagnostic = tuple[str, int, str, Mapping[str, object]]
"""A row of `/diagnostics`: name, level (0 ok, 1 warning, 2 error, 3 stale), message, values."""


@dataclass(frozen=True, slots=True)
class InputFault:
    """Why an input, or the link to the base, cannot be used: what is wrong, where, and what to do.

    row:      name of its row of `/diagnostics`, which it replaces
    standing: the published state shows it: the robot does not drive for it, or does not hear what is said
    warning:  a warning, though the state shows it
    holds:    the robot stands until it has gone, then drives on
    """

    row: str
    reason: Said
    standing: bool = True
    warning: bool = False
    holds: bool = False


class Outputs(Protocol):
    """Published topics, except commands. Stamps are wall time [ns]. No method waits."""

    def scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the policy's scan."""

    def limits_scan(self, scan: Scan, stamp_ns: int) -> None:
        """Publish the limits' scan, if it differs from the policy's."""

    def state(self, text: str) -> None:
        """Publish the state with its reason."""

    def diagnostics(self, entries: Sequence[Diagnostic], stamp_ns: int) -> None:
        """Publish the health of all parts."""

    def drive(self, row: Diagnostic, stamp_ns: int) -> None:
        """Publish the state of the drive and its goal, for programs (`recording/scene.py`)."""

    def transforms(self, odom_from_base: Pose, map_from_odom: Pose | None, stamp_ns: int) -> None:
        """Publish the robot's pose; the transform from the map only while the robot is localised."""

    def cameras(self, stamp_ns: int) -> None:
        """Publish mounts and intrinsics of the cameras."""


class Engine(Protocol):
    """Runs one model. Only the inference thread creates, warms and runs it; not thread-safe."""

    name: str

    def warm_up(self) -> None:
        """Run once on zeros, so that the first decision is fast too. Raises EngineError."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the outputs by name. Raises EngineError on failure. The caller checks for NaN."""

    def close(self) -> None:
        """Release the device. Safe to call twice."""


class Policy(Protocol):
    """Maps an observation and a memory to a decision and a new memory; has no state between calls.

    memory_reset_s: period of memory resets [s]; None: no resets
    """

    name: str
    memory_reset_s: float | None

    def initial_memory(self) -> Memory:
        """Return the memory at the start of an episode and after a reset."""

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the chosen action and the new memory. Raises EngineError."""

    def close(self) -> None:
        """Release the engine. Safe to call twice."""
