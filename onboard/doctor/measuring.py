"""Takes the cameras' measure: by opening them as the runtime does, or, while one drives, by what it says of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from onboard.config import Config
from onboard.doctor.calibration import lens
from onboard.doctor.cameras import Measured, told_device, wanted_hz
from onboard.doctor.running import CAMERA, Said, rate_hz
from onboard.drivers.camera_process import START_LIMIT_S
from onboard.drivers.capture import open_cameras
from onboard.drivers.dds_camera import DdsColorCamera, DdsDepthCamera
from onboard.drivers.realsense import Device
from onboard.drivers.wire import Wire, wait_until
from onboard.interfaces import ColorCamera, DepthCamera
from onboard.mounts import Mounts

FIRST_IMAGE_S = 5.0
"""For images of another process; a device of our own has START_LIMIT_S."""
DDS, REALSENSE = "dds", "realsense"
OK = 0
Camera = DepthCamera | ColorCamera


def by_opening(config: Config, mounts: Mounts, seconds: float) -> list[Measured]:
    """Return what came of every camera within so many seconds after the first image of each.

    Raises ConfigError, InputError (a recording), DriverError (the wire), MissingExtraError.
    """
    with contextlib.ExitStack() as held:
        wire = held.enter_context(contextlib.closing(Wire(config.dds)))
        depth, color = open_cameras(mounts, config.cameras)
        cameras: list[tuple[Camera, str]] = [(one, REALSENSE) for one in depth]
        if color is not None:
            cameras.append((color, REALSENSE))
        cameras += [
            (DdsDepthCamera(wire, mount, config.cameras), DDS)
            for name, mount in mounts.depth.items()
            if config.cameras.source_of(name) == DDS
        ]
        if config.cameras.color == DDS:
            cameras.append((DdsColorCamera(wire, config.cameras), DDS))
        for one, _ in cameras:
            held.callback(one.close)
        _wait_for_all(cameras)
        before = {one.health().camera: one.health().frames for one, _ in cameras}
        began_s = time.monotonic()
        wait_until(lambda: _look(cameras, all_there=False), seconds)
        took_s = time.monotonic() - began_s
        return [_measured(config, mounts, one, kind, before, took_s) for one, kind in cameras]


def by_asking(config: Config, mounts: Mounts, said: Sequence[Said]) -> list[Measured]:
    """Return what a running runtime says of its cameras."""
    found = []
    for row in (name for name in said[-1].rows if name.startswith(CAMERA)):
        newest, name = said[-1].rows[row], row.removeprefix(CAMERA)
        kind = config.cameras.source_of(name) if name in mounts.depth else config.cameras.color
        frames, restarts = (int(newest.values.get(key, "0") or 0) for key in ("frames", "restarts"))
        found.append(
            Measured(
                name,
                kind,
                rate_hz(said, row, "frames"),
                wanted_hz(config, kind),
                working=newest.level == OK,
                reason=newest.message,
                frames=frames,
                restarts=restarts,
                device=told_device(newest.values),
            )
        )
    return found


def _wait_for_all(cameras: Sequence[tuple[Camera, str]]) -> None:
    """Return when every camera gave an image, or had the time for it."""
    limit_s = START_LIMIT_S if any(kind == REALSENSE for _, kind in cameras) else FIRST_IMAGE_S
    wait_until(lambda: _look(cameras, all_there=True), limit_s)


def _look(cameras: Sequence[tuple[Camera, str]], *, all_there: bool) -> bool:
    """Take what is there of every camera; return whether each has given something, if asked."""
    for one, _ in cameras:
        one.latest(time.monotonic_ns())
    return all_there and all(one.health().frames for one, _ in cameras)


def _measured(
    config: Config, mounts: Mounts, one: Camera, kind: str, before: dict[str, int], took_s: float
) -> Measured:
    health = one.health()
    told = health.detail.get("device")
    mount = mounts.depth.get(health.camera)
    return Measured(
        health.camera,
        kind,
        (health.frames - before[health.camera]) / took_s,
        wanted_hz(config, kind),
        working=health.working,
        reason=health.reason,
        frames=health.frames,
        restarts=health.restarts,
        device=Device(**told) if isinstance(told, dict) else None,
        lens=tuple(lens(mount, health.detail)) if mount is not None else (),
    )
