"""The cameras: connection, USB bus, image rate, calibration; and the lidars that are used in their place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from onboard.assembly.robot import lasers_of
from onboard.commands.doctor.finding import Finding, Level, Problem, amber, combined
from onboard.commands.doctor.wire_probe import RuntimeStatus
from onboard.config.config import LIDARS, CamerasSection, Config
from onboard.config.mounts import Mount, Mounts, calibration_dates
from onboard.drivers.dds.ros_convert import points_from_ros, rays_from_ros
from onboard.drivers.dds.ros_types import LaserScan, PointCloud2
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.drivers.realsense.device import Device, Source
from onboard.health.verdict import LIMITS
from onboard.perception.laser_scan import scan_of_rays
from onboard.perception.point_cloud import scan_of_points
from onboard.service.input_watch import SCANS_IN_TIME
from onboard.values.errors import InputError

OLD_DAYS = 180
"""Half a year of driving loosens screws."""
LENS_TOLERANCE = 0.01
"""Relative to the focal length, and to the image's width for the principal point: about a pixel at the edge."""
MEASURE = "calibrate the mounts again and set `calibrated = YYYY-MM-DD` in their tables"


def age(mounts: Path, today: date) -> Finding:
    """Return the age of the calibration, by the dates in the mounts file. Raises ConfigError."""
    dates = calibration_dates(mounts)
    dated = {name: day for name, day in dates.items() if day is not None}
    changed = datetime.fromtimestamp(mounts.stat().st_mtime, tz=timezone.utc).date()
    problems = []
    undated = sorted(set(dates) - set(dated))
    if undated:
        text = f"no calibration date for {', '.join(undated)} (the file was last changed on {changed})"
        problems.append(Problem(Level.AMBER, text, MEASURE))
    for name, day in sorted(dated.items()):
        days = (today - day).days
        if days < 0:
            problems.append(
                Problem(Level.AMBER, f"{name} is dated {day}, in the future", "correct the system clock or the date")
            )
        elif days > OLD_DAYS:
            problems.append(Problem(Level.AMBER, f"{name} is {days} days old", MEASURE))
    oldest = min(dated.values(), default=None)
    summary = "" if oldest is None else f"oldest: {oldest}, {(today - oldest).days} days ago"
    days_of = {name: None if day is None else day.isoformat() for name, day in dates.items()}
    return combined("calibration", summary, problems, file=str(mounts), calibrated=days_of, changed=changed.isoformat())


def nearness(mounts: Mounts, section: CamerasSection) -> list[Finding]:
    """Return a finding about cameras without a known least distance.

    A RealSense has a default; another camera may be of any kind and must state its own.
    """
    unstated = [name for name, mount in mounts.depth.items() if mount.least_m is None]
    silent = [name for name in unstated if section.source_of(name) != "realsense"]
    if not silent:
        return []
    text = (
        f"mounts.toml has no least_m for {', '.join(silent)}: obstacles closer than their minimum range are forgotten"
    )
    return [amber("least distance", text, "measure it and set `least_m = METRES` in their tables", cameras=silent)]


def lidar(
    config: Config, name: str, hz: float, newest: LaserScan | PointCloud2 | None, publishers: Sequence[str]
) -> Finding:
    """Return the finding about the lidar of a topic. hz: its scans a second; newest: the last of them."""
    needed_hz, base = SCANS_IN_TIME * 1e3 / config.limits.scan_stale_ms, config.dds.base_frame
    where, problems, summary = ros_topic(config.dds, scan_source(name)), [], ""
    if not publishers:
        problems.append(Problem(Level.RED, "no publisher", "start the lidar's driver, or correct scan.topic"))
    elif newest is None:
        problems.append(Problem(Level.RED, "it has a publisher, but no scan is received", "restart the lidar's driver"))
    else:
        frame, pose = newest.header.frame_id.lstrip("/"), lasers_of(config)[name]
        if pose is None and frame != base:
            several = config.scan.topic == LIDARS
            key, form = (
                ("scan.lasers", "{ topic = [x, y, z, roll, pitch, yaw] }") if several else ("scan.laser", "[x, y, yaw]")
            )
            text = f"its frame is {frame}, not {base}, and {key} is not set"
            problems.append(Problem(Level.RED, text, f"set {key} = {form} (docs/robot.md)"))
        try:
            pose = None if frame == base else pose
            if isinstance(newest, LaserScan):
                scan = scan_of_rays(rays_from_ros(newest), 0, pose)
            else:
                matrix = np.eye(4) if pose is None else pose
                scan = scan_of_points(points_from_ros(newest), 0, matrix, config.scan)
            summary = (
                f"{hz:.1f} scans/s from {', '.join(publishers)}, frame {frame}, {int((~scan.seen).sum())} bins blind"
            )
        except InputError as error:
            problems.append(Problem(Level.RED, f"refused: {error}", "correct the lidar's driver"))
        if hz < needed_hz:
            text = f"{hz:.1f} scans/s, {needed_hz:g} are needed (limits.scan_stale_ms)"
            problems.append(Problem(Level.AMBER, text, "raise the lidar's rate"))
    return combined(f"lidar {where}", summary, problems, rate_hz=round(hz, 1), publishers=list(publishers))


def lens(mount: Mount, info: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if the device's lens (`info`: fx, fy, cx, cy of `StreamInfo`) differs from the mount's."""
    if not {"fx", "fy", "cx", "cy"} <= set(info):
        return []
    off = [
        f"{name} {info[name]:.1f} (mounts: {stated:.1f})"
        for name, stated, scale in (
            ("fx", mount.fx, mount.fx),
            ("fy", mount.fy, mount.fy),
            ("cx", mount.cx, mount.width),
            ("cy", mount.cy, mount.width),
        )
        if abs(info[name] - stated) > LENS_TOLERANCE * scale
    ]
    if not off:
        return []
    return [
        Problem(
            Level.RED,
            f"its lens reports {', '.join(off)}",
            f"copy the camera's own intrinsics into the table of {mount.name}",
        )
    ]


LEAST_FLOORS = 3
FLOOR_REMEDY = (
    "heights in mounts.toml are measured from the floor under the robot: add the height of the base frame, or run "
    "`onboard-calib floor`"
)


def floor_seen(floors: Sequence[tuple[float, float, float]]) -> list[Problem]:
    """Return a problem if the floor in a camera's images is not where its mount expects it."""
    if len(floors) < LEAST_FLOORS:
        return []
    x, y, lift_m = (float(one) for one in np.median(floors, axis=0))
    tilt_deg = math.degrees(math.hypot(x, y))
    level = max(_level("tilt_deg", tilt_deg), _level("height_m", abs(lift_m)))
    if level is Level.GREEN:
        return []
    where = f"{abs(lift_m):.2f} m {'lower' if lift_m > 0 else 'higher'} than mounts.toml says, and tilted by"
    return [Problem(level, f"the floor that it sees is {where} {tilt_deg:.1f} deg", FLOOR_REMEDY)]


def compared_by_the_runtime(status: RuntimeStatus) -> list[Finding]:
    """Return a finding if the running runtime says that mounts or base differ from their calibration."""
    row = status.rows.get("calibration")
    return [] if row is None or not row.level else [amber("calibration in use", row.message, MEASURE)]


def _level(quantity: str, value: float) -> Level:
    watch, recalibrate = LIMITS[quantity]
    return Level.RED if value > recalibrate else Level.AMBER if value > watch else Level.GREEN


SLOW_AMBER = 0.9
SLOW_RED = 0.5
"""Share of the requested images."""
BLIND_AMBER = 0.02
BLIND_RED = 0.3
"""Share of the time; the robot slows down or stops meanwhile."""
UNCOVER = "clean or uncover the lens; check that no part of the robot is in view"
USB_2 = "2"
NATIVE = ("video4linux", "v4l2")
OWN_BACKEND_LIMIT = 2
"""librealsense's own USB driver is unreliable with more cameras (its issue 14925)."""
PLUG_IN = "plug it into a blue (USB 3) port, or set the serial number of the connected device in the mounts"


@dataclass(frozen=True, slots=True)
class CameraMeasurement:
    """The measurement of one configured camera.

    kind:      "realsense" or "dds"
    rate_hz:   images a second; None if unknown
    wanted_hz: images a second that are requested, or that a decision needs
    blind:     share of the time without a usable image
    reason:    why the camera was blind the last time
    device:    the device's own description; None if unknown
    lens:      problems of its lens (see `lens`), and of the floor that it sees (`floor_seen`)
    """

    name: str
    kind: str
    rate_hz: float | None
    wanted_hz: float
    blind: float
    reason: str
    frames: int
    restarts: int
    device: Device | None = None
    lens: Sequence[Problem] = field(default_factory=tuple)


def camera(one: CameraMeasurement) -> Finding:
    """Return the finding about one camera."""
    problems = [*_images(one), *one.lens]
    if one.restarts:
        text = f"restarted {one.restarts} times"
        problems.append(Problem(Level.AMBER, text, "see `camera_down` in the log; try another cable, or a powered hub"))
    if one.device is not None:
        problems += _device(one.device)
    rate = "" if one.rate_hz is None else f"{one.rate_hz:.1f} of {one.wanted_hz:g} images/s"
    summary = ", ".join(filter(None, [rate, _words(one.device)]))
    values = {
        "source": one.kind,
        "rate_hz": None if one.rate_hz is None else round(one.rate_hz, 2),
        "wanted_hz": one.wanted_hz,
        "blind": round(one.blind, 3),
        "frames": one.frames,
        "restarts": one.restarts,
        "device": None if one.device is None else asdict(one.device),
    }
    return combined(f"camera {one.name}", summary, problems, **values)


def on_the_bus(sources: Sequence[Source], devices: Sequence[Device]) -> list[Finding]:
    """Return findings about the bus: cameras missing from the mounts, backend, firmware of equal models."""
    expected = {source.serial for source in sources if not source.recording}
    strangers = [device for device in devices if device.serial not in expected]
    found = []
    if strangers:
        who = ", ".join(f"{stranger.name} {stranger.serial}" for stranger in strangers)
        remedy = "add its serial number to the mounts, or unplug it: it uses bandwidth of the bus"
        found.append(
            amber("bus", f"not in the mounts: {who}", remedy, strangers=[asdict(stranger) for stranger in strangers])
        )
    if len(devices) > OWN_BACKEND_LIMIT and not all(is_native(one) for one in devices):
        text = f"{len(devices)} cameras on librealsense's own USB driver"
        remedy = "build librealsense with its native backend (FORCE_RSUSB_BACKEND=OFF), see systemd/install.md"
        found.append(amber("backend", text, remedy))
    firmwares = Counter((one.name, one.firmware) for one in devices)
    for model in sorted({name for name, _ in firmwares}):
        versions = sorted(firmware for name, firmware in firmwares if name == model)
        if len(versions) > 1:
            text = f"{model} with {' and '.join(versions)}"
            found.append(amber("firmware", text, "install the same firmware on all (rs-fw-update)"))
    return found


def is_native(device: Device) -> bool:
    """Return whether the kernel's driver serves the camera, not librealsense's own USB driver."""
    return any(word in device.port for word in NATIVE)


def device_of_row(values: Mapping[str, str]) -> Device | None:
    """Return the device from a runtime's diagnostics (`device`: a mapping as text); None if unreadable."""
    text = values.get("device", "")
    fields = {name: _between(text, f"'{name}': '", "'") for name in Device.__dataclass_fields__}
    return Device(**fields) if fields["serial"] else None


def _between(text: str, before: str, after: str) -> str:
    return text.partition(before)[2].partition(after)[0]


def wanted_hz(config: Config, kind: str) -> float:
    """Return the required images a second: the rate requested from a device, else one image a decision."""
    return config.cameras.fps if kind == "realsense" else config.rates.control_hz / config.rates.ticks_per_decision


def _images(one: CameraMeasurement) -> list[Problem]:
    if not one.frames:
        remedy = PLUG_IN if one.kind == "realsense" else "start the publisher of its images"
        return [Problem(Level.RED, one.reason or "no image", remedy)]
    if one.blind > BLIND_AMBER:
        level = Level.RED if one.blind > BLIND_RED else Level.AMBER
        remedy = UNCOVER if "covered" in one.reason else "fix the other findings first, then restart its publisher"
        return [Problem(level, f"blind {one.blind:.0%} of the time: {one.reason}", remedy)]
    if one.rate_hz is None or one.rate_hz >= SLOW_AMBER * one.wanted_hz:
        return []
    level = Level.AMBER if one.rate_hz >= SLOW_RED * one.wanted_hz else Level.RED
    remedy = "try another port or cable, fewer cameras on one hub, or lower cameras.fps"
    return [Problem(level, f"{one.rate_hz:.1f} images/s, too few", remedy)]


def _device(device: Device) -> list[Problem]:
    found = []
    if device.usb_type.startswith(USB_2):
        text = f"connected over USB {device.usb_type}"
        found.append(Problem(Level.AMBER, text, "use a USB 3 port and a USB 3 cable, pushed in all the way"))
    if device.recommended and device.firmware != device.recommended:
        text = f"firmware {device.firmware}, this librealsense recommends {device.recommended}"
        found.append(Problem(Level.AMBER, text, "run rs-fw-update if images are missing or wrong"))
    return found


def _words(device: Device | None) -> str:
    if device is None:
        return ""
    backend = "native backend" if is_native(device) else "librealsense's own USB driver" if device.port else ""
    usb = f"USB {device.usb_type}" if device.usb_type else ""
    firmware = f"firmware {device.firmware}" if device.firmware else ""
    return ", ".join(filter(None, [f"{device.name} {device.serial}".strip(), usb, firmware, backend]))
