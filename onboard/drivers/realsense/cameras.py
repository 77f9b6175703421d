"""The RealSense cameras of a configuration; each is captured in a process of its own (`supervisor.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from onboard.config.config import CamerasSection
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.realsense.device import Device, Source, list_devices, read_intrinsics, require_library
from onboard.drivers.realsense.supervisor import CameraProcess, CaptureCamera, CaptureColorCamera, Patience
from onboard.values.errors import ConfigError, DriverError, InputError

log = structlog.get_logger()

STALL_RESTART_S = 2.0
"""Silence after which a camera is restarted."""
RESTART_BACKOFF_S = 0.5, 10.0
"""First and longest wait between restarts."""
COLOR_WIDTH = 1280
COLOR_HEIGHT = 720
"""Asked of a live colour camera; `onboard/values/images.py` makes the policy's size of it."""


def open_cameras(mounts: Mounts, section: CamerasSection) -> tuple[list[CaptureCamera], CaptureColorCamera | None]:
    """Start the configured RealSense cameras; return depth cameras in the order of the mounts, and the colour camera.

    Raises before any camera runs. ConfigError: a camera without serial and recording, one serial used twice, or a
    recording for an unknown camera. InputError: a recording is missing, damaged, or differs from its mount.
    MissingExtraError: no pyrealsense2. A missing live device does not raise: it is blind until it appears.
    """
    sources = camera_sources(mounts, section)
    if sources:
        require_library()
    for source in sources:
        if source.recording:
            read_intrinsics(source)
    patience = Patience(section.stale_ms / 1e3, STALL_RESTART_S, RESTART_BACKOFF_S)
    processes = [CameraProcess(source, patience) for source in sources]
    for process in processes:
        process.watch()
    depth = [CaptureCamera(one) for one in processes if one.source.stream == "depth"]
    color = [CaptureColorCamera(one) for one in processes if one.source.stream == "color"]
    return depth, color[0] if color else None


def camera_sources(mounts: Mounts, section: CamerasSection) -> list[Source]:
    """Return what `open_cameras` opens. Raises ConfigError."""
    ours = [mount for name, mount in mounts.depth.items() if section.source_of(name) == "realsense"]
    sources = [_depth_source(mount, section) for mount in ours]
    if section.color == "realsense":
        sources.append(_color_source(mounts, section))
    for name in section.recordings:
        if name not in mounts.depth and name not in mounts.color:
            raise ConfigError(f"cameras.recordings: unknown camera {name}, {mounts.path} has {', '.join(mounts.depth)}")
    users: dict[str, str] = {}
    for source in sources:
        if not source.serial and not source.recording:
            raise ConfigError(
                f"{mounts.path}: camera {source.camera}: has no serial, and cameras.recordings has no file for it"
            )
        if source.serial and not source.recording:
            if source.serial in users:
                raise ConfigError(
                    f"{mounts.path}: cameras {users[source.serial]} and {source.camera} have the same serial "
                    f"{source.serial}; each camera needs its own device"
                )
            users[source.serial] = source.camera
    return sources


def _depth_source(mount: Mount, section: CamerasSection) -> Source:
    return Source(
        camera=mount.name,
        stream="depth",
        serial=mount.serial,
        recording=str(section.recordings.get(mount.name, "")),
        width=mount.width,
        height=mount.height,
        fps=section.fps,
        depth_scale_m=mount.depth_scale_m,
        loop=True,
    )


def _color_source(mounts: Mounts, section: CamerasSection) -> Source:
    mount = next(iter(mounts.color.values()), None)
    name = "color" if mount is None else mount.name
    recording = str(section.recordings.get(name, ""))
    return Source(
        camera=name,
        stream="color",
        serial=section.color_serial or ("" if mount is None else mount.serial),
        recording=recording,
        width=0 if recording else COLOR_WIDTH,
        height=0 if recording else COLOR_HEIGHT,
        fps=section.fps,
        loop=True,
    )


# ---- The cameras at the start

LOOKS, PAUSE_S = 3, 2.0
"""A camera may come late on the bus: the runtime looks so often before it refuses."""


def check_cameras(
    mounts: Mounts,
    section: CamerasSection,
    devices: Callable[[], Sequence[Device]] = list_devices,
    info: Callable[[Source], object] = read_intrinsics,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Compare the RealSense cameras that are plugged in with the mounts. Without such a camera do nothing.

    Raises ConfigError if another camera is there in place of one of the mounts, and if images have another size or
    depth scale. A camera that is only missing, or does not answer, is no mismatch: it is blind until it comes.
    """
    live = [source for source in camera_sources(mounts, section) if source.serial and not source.recording]
    known = {source.serial for source in live} | {
        one.serial for one in (*mounts.depth.values(), *mounts.color.values())
    }
    if not live:
        return
    try:
        for look in range(LOOKS):
            found = {device.serial for device in devices()}
            missing = [source for source in live if source.serial not in found]
            strangers = sorted(found - known)
            if not missing or not strangers:
                break
            if look + 1 < LOOKS:
                pause(PAUSE_S)
        else:
            raise ConfigError(
                f"{mounts.path}: camera {missing[0].camera}: serial {missing[0].serial} is not plugged in, but "
                f"{', '.join(strangers)} is: was the camera replaced? Calibrate the new one and set its serial"
            )
        for source in live:
            if source not in missing:
                info(source)
    except InputError as error:
        raise ConfigError(f"{mounts.path}: {error}") from error
    except DriverError as error:
        log.warning("cameras_not_compared", error=str(error))
