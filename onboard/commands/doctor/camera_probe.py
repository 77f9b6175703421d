"""Measures the cameras: opens them as the runtime does, or reads the diagnostics of a running runtime."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Sequence

from onboard.assembly.assembly import open_cameras
from onboard.commands.doctor.cameras import CameraMeasurement, device_of_row, floor_seen, lens, wanted_hz
from onboard.commands.doctor.wire_probe import CAMERA, RuntimeStatus, count, rate_hz
from onboard.config.config import Config
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.realsense.device import Device
from onboard.drivers.realsense.supervisor import START_LIMIT_S
from onboard.health.floor import floor
from onboard.values.interfaces import ColorCamera, DepthCamera
from onboard.values.messages import DepthFrame

FIRST_IMAGE_S = 5.0
"""Timeout for images of another process; for a device of this computer it is START_LIMIT_S."""
DDS = "dds"
OK = 0
MOST_FLOORS = 15
"""Images of each camera in which the floor is searched."""
Camera = DepthCamera | ColorCamera


def measure_by_opening(config: Config, mounts: Mounts, seconds: float) -> list[CameraMeasurement]:
    """Return the measurement of each camera over `seconds` after the first images.

    Raises ConfigError, InputError (a recording), DriverError (the wire), MissingExtraError.
    """
    with contextlib.ExitStack() as held:
        section = config.cameras
        wire = functools.cache(lambda: held.enter_context(contextlib.closing(Wire(config.dds))))
        depth, color = open_cameras(config, mounts, wire)
        cameras: list[tuple[Camera, str]] = [(one, section.source_of(one.name)) for one in depth]
        if color is not None:
            cameras.append((color, section.color))
        for one, _ in cameras:
            held.callback(one.close)
        _wait_for_all(cameras)
        watched = [_CameraWatch(one, kind, mounts.depth.get(one.health().camera)) for one, kind in cameras]
        began_s = time.monotonic()
        wait_until(lambda: any(one.poll() for one in watched), seconds)
        took_s = time.monotonic() - began_s
        return [_measured(config, mounts, one, took_s) for one in watched]


def measure_by_diagnostics(
    config: Config, mounts: Mounts, statuses: Sequence[RuntimeStatus]
) -> list[CameraMeasurement]:
    """Return the cameras' measurements from a running runtime's diagnostics."""
    found = []
    for row in (name for name in statuses[-1].rows if name.startswith(CAMERA)):
        newest, name = statuses[-1].rows[row], row.removeprefix(CAMERA)
        kind = config.cameras.source_of(name) if name in mounts.depth else config.cameras.color
        frames, restarts = (count(statuses[-1], row, key) or 0 for key in ("frames", "restarts"))
        found.append(
            CameraMeasurement(
                name,
                kind,
                rate_hz(statuses, row, "frames"),
                wanted_hz(config, kind),
                blind=0.0 if newest.level == OK else 1.0,
                reason=newest.message,
                frames=frames,
                restarts=restarts,
                device=device_of_row(newest.values),
            )
        )
    return found


def _wait_for_all(cameras: Sequence[tuple[Camera, str]]) -> None:
    """Wait until every camera gave an image, or for the timeout."""
    limit_s = START_LIMIT_S if any(kind != DDS for _, kind in cameras) else FIRST_IMAGE_S

    def there() -> bool:
        for one, _ in cameras:
            one.latest(time.monotonic_ns())
        return all(one.health().frames for one, _ in cameras)

    wait_until(there, limit_s)


class _CameraWatch:
    """One camera during its measurement; `reason` is the last reason for being blind, `floors` what `floor` finds."""

    def __init__(self, camera: Camera, kind: str, mount: Mount | None) -> None:
        self.camera, self.kind, self.mount = camera, kind, mount
        self.floors: list[tuple[float, float, float]] = []
        self._last = -math.inf
        self.before = camera.health().frames
        self.reason = ""
        self._looks = self._blind = 0

    @property
    def blind(self) -> float:
        """Share of polls without a usable image; 1 before the first poll."""
        return self._blind / self._looks if self._looks else 1.0

    def poll(self) -> bool:
        """Poll the camera once; return False, so that the measurement continues."""
        self._looks += 1
        frame = self.camera.latest(time.monotonic_ns())
        if frame is None:
            self._blind += 1
            self.reason = self.camera.health().reason
        elif isinstance(frame, DepthFrame) and self.mount is not None and frame.number > self._last:
            self.floors += filter(None, [floor(frame.depth, self.mount)])
            self._last = frame.number if len(self.floors) < MOST_FLOORS else math.inf
        return False


def _measured(config: Config, mounts: Mounts, one: _CameraWatch, took_s: float) -> CameraMeasurement:
    health = one.camera.health()
    device = health.detail.get("device")
    mount = mounts.depth.get(health.camera)
    return CameraMeasurement(
        health.camera,
        one.kind,
        (health.frames - one.before) / took_s,
        wanted_hz(config, one.kind),
        blind=one.blind,
        reason=one.reason,
        frames=health.frames,
        restarts=health.restarts,
        device=Device(**device) if isinstance(device, dict) else None,
        lens=(*lens(mount, health.detail), *floor_seen(one.floors)) if mount is not None else (),
    )
