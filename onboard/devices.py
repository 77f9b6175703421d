"""The inbox of a robot: what came over the wire, together with the newest frames of its cameras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from onboard.interfaces import ColorCamera, DepthCamera, Inbox
from onboard.messages import CameraHealth, Inputs, OdometryMessage


class WheelBase(Protocol):
    """A base on a cable of its own (`drivers/serial_base.py`): wheel motion, and its bumper."""

    def take(self, now_ns: int) -> tuple[OdometryMessage, ...]:
        """Return the messages since the last call, oldest first. Raises DriverError if the link is gone."""

    @property
    def obstacle(self) -> bool | None:
        """Return True while the bumper is pressed; None before the first report."""


class DeviceInbox:
    """`interfaces.Inbox` over a wire, cameras and, where there is one, a base on its own cable."""

    def __init__(
        self,
        wire: Inbox,
        depth: Sequence[DepthCamera],
        color: ColorCamera | None,
        base: WheelBase | None = None,
    ) -> None:
        self._wire = wire
        self._depth = tuple(depth)
        self._color = color
        self._base = base

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call; a camera that is blind is missing."""
        inputs = self._wire.take(now_ns)
        frames = {camera.name: camera.latest(now_ns) for camera in self._depth}
        inputs = replace(
            inputs,
            depth={name: frame for name, frame in frames.items() if frame is not None},
            color=self._color.latest(now_ns) if self._color else None,
        )
        if self._base is None:
            return inputs
        bumped = self._base.obstacle
        return replace(
            inputs,
            odometry=self._base.take(now_ns),
            obstacle=inputs.obstacle if bumped is None else bool(inputs.obstacle) or bumped,
        )

    def cameras(self) -> list[CameraHealth]:
        """Return the state of every camera."""
        color = [self._color.health()] if self._color else []
        return [camera.health() for camera in self._depth] + color

    def close(self) -> None:
        """Close the cameras, then the wire. Safe to call twice."""
        for camera in self._depth:
            camera.close()
        if self._color is not None:
            self._color.close()
        self._wire.close()
