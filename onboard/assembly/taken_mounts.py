"""What files leave out, taken once at the start: lens from the device or `camera_info`, poses from tf.

What was taken is kept beside the file (`keep_run` in `onboard/config/mounts.py`), from where all commands read it. What
differs from the last run ends the start, as another serial number does: the camera or its mode was changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import structlog

from onboard.assembly.published_mounts import LIVE_SIZE, NOTHING, Heard, listened, pose_of
from onboard.assembly.robot import lasers_by_tf, lasers_of, lidar_rows, used_mounts, with_lasers
from onboard.assembly.taken_map import take_map
from onboard.config.config import Config, LaserPose, tilt_fault
from onboard.config.mounts import (
    AHEAD_M,
    LENS,
    SIZE,
    LastRun,
    MountTable,
    completed,
    keep_run,
    last_run,
    load_mounts,
    note_taken,
    rows,
)
from onboard.config.mounts import stated as stated_in
from onboard.drivers.dds.camera_input import COLOR, LENS_TOLERANCE, info_topic, lens_of
from onboard.drivers.dds.topics import raw_topic
from onboard.drivers.realsense.cameras import camera_sources
from onboard.drivers.realsense.device import Source, StreamInfo, read_intrinsics, require_library
from onboard.service.readiness import LOOK_EVERY_S, PATIENCE_S
from onboard.service.systemd import Notifier
from onboard.values.errors import ConfigError, DriverError, InputError
from onboard.values.frames import place_of, quaternion_of

log = structlog.get_logger()

WAIT_S = 6.0
"""A camera_info comes with each image, and tf_static at once; discovery takes less than a second."""
MOVED_M, TURNED, TURNED_DEG = 1e-3, 1e-6, 0.1
"""Differences of a position [m], a rotation (1 less the quaternions' product) and an angle that are rounding."""
DIGITS = 4


def await_published(config: Config, notifier: Notifier, pause: Callable[[float], object] = time.sleep) -> None:
    """Take the mounts' numbers and the map; a service waits for a camera or a map that is silent.

    Raises like `take_mounts` and `take_map`.
    """
    until_s, reported = time.monotonic() + PATIENCE_S, ""
    while True:
        try:
            take_mounts(config)
            take_map(config)
            return
        except DriverError as error:
            if not notifier.managed or time.monotonic() > until_s:
                raise
            missing = str(error).replace("\n", "; ")
            if missing != reported:
                notifier.send(f"STATUS=waiting: {missing}")
                log.warning("waiting", missing=missing)
            reported = missing
            pause(LOOK_EVERY_S)


def take_mounts(config: Config, info: Callable[[Source], StreamInfo] = read_intrinsics, wait_s: float = WAIT_S) -> None:
    """Ask devices and topics for what the mounts file leaves out, and keep it for this run. Else do nothing.

    Raises ConfigError with a line for each camera that does not fit, DriverError if nothing answers.
    """
    path = config.robot.mounts
    note_taken(path)
    file = stated_in(path)
    asked = [(kind, name, row) for kind, name, row in rows(file) if _is_asked(config, kind, name, row)]
    lasers = _lasers_by_tf(config, wait_s)
    if not asked and not lasers:
        return
    found: dict[tuple[str, str], MountTable] = {}
    mistakes: list[str] = []
    absent: list[str] = []
    sources = {source.camera: source for source in _sources(config)}
    topics = {}
    for kind, name, row in asked:
        if _source(config, kind, name) == "dds":
            topics[name if kind == "cameras" else COLOR] = (kind, name, row)
            continue
        try:
            if row.pose is not None:
                raise InputError('pose = "tf" needs images over DDS: write translation_m and look_deg')
            found[kind, name] = row.model_copy(update=_by_device(row, sources[name], info))
        except InputError as error:
            mistakes.append(f"camera {name}: {error}")
        except DriverError as error:
            absent.append(f"camera {name}: {error}")
    more, wrong, silent = _by_topics(config, topics, wait_s)
    found |= more
    mistakes, absent = mistakes + wrong, absent + silent
    mistakes += [line for (kind, name), row in found.items() for line in _changes(config, kind, name, row)]
    if mistakes:
        raise ConfigError("\n".join(f"{path}: {line}" for line in mistakes))
    if absent:
        raise DriverError("\n".join(f"{path}: {line}" for line in absent))
    whole: dict[str, Any] = {"cameras": {}, "color_cameras": {}}
    for kind, name, row in rows(completed(path)):
        whole[kind][name] = found.get((kind, name), row)
    kept = keep_run(path, LastRun(**whole, lasers=lasers))
    log.info("mounts_taken", cameras=", ".join(name for _, name in found), lidars=", ".join(lasers), kept=str(kept))


def _lasers_by_tf(config: Config, wait_s: float) -> dict[str, LaserPose]:
    """Return the pose of each lidar that the configuration takes from tf.

    Raises ConfigError with a line for each that does not fit, DriverError if one is silent.
    """
    rows = {name: row for name, row in lidar_rows(config).items() if name in lasers_by_tf(config)}
    if not rows:
        return {}
    heard, kept = listened(config, {}, (), wait_s, rows), last_run(config.robot.mounts)
    poses: dict[str, LaserPose] = {}
    wrong, silent = list[str](), list[str]()
    for name in rows:
        frame = heard.frames.get(name)
        if frame is None:
            silent.append(f"scan.lasers: {NOTHING.format(topic=name).replace('camera', 'lidar')}")
            continue
        try:
            pose, notes = pose_of(config, frame, heard)
            if pose is None:
                raise InputError("; ".join(notes))
            x, y, z, roll, pitch, yaw = (round(value, DIGITS) + 0.0 for value in place_of(pose))
            poses[name] = x, y, z, roll, pitch, yaw
            fault = "" if name in config.scan.clouds else tilt_fault(name, poses[name])
            if fault or (fault := _moved(config, name, poses[name], None if kept is None else kept.lasers.get(name))):
                raise InputError(fault)
            for note in notes:
                log.warning("mounts_taken", lidar=name, note=note)
        except InputError as error:
            words = str(error).replace("translation_m and look_deg", "its pose into scan.lasers")
            wrong.append(f"scan.lasers: {name}: {words}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    if silent:
        raise DriverError("\n".join(silent))
    lasers_of(with_lasers(config, poses))  # refuses a height outside of the scan's, before the poses are kept
    return poses


def _moved(config: Config, name: str, new: LaserPose, old: LaserPose | None) -> str:
    """Return why a pose is not that of the last run; "" if it is."""
    if old is None:
        return ""
    off = np.subtract(new, old)
    off_deg = np.abs((off[3:] + 180.0) % 360.0 - 180.0)
    if np.abs(off[:3]).max() <= MOVED_M and off_deg.max() <= TURNED_DEG:
        return ""
    file = f"{config.robot.mounts.stem}.last_run.toml"
    return f"pose was {list(old)}, is {list(new)}: was the lidar moved? Remove {file} to accept it"


def _is_asked(config: Config, kind: str, name: str, row: MountTable) -> bool:
    source = _source(config, kind, name)
    unit = kind == "cameras" and source == "realsense" and row.depth_scale_m is None
    return source != "none" and (not row.whole or unit)


def _source(config: Config, kind: str, name: str) -> str:
    return config.cameras.source_of(name) if kind == "cameras" else config.cameras.color


def _sources(config: Config) -> list[Source]:
    return camera_sources(used_mounts(config, load_mounts(config.robot.mounts)), config.cameras)


def _by_device(row: MountTable, source: Source, info: Callable[[Source], StreamInfo]) -> dict[str, Any]:
    """Return the lens and the depth unit of a RealSense or its recording. Raises InputError, DriverError."""
    require_library()
    width, height = (row.width or 0, row.height or 0) if source.recording else (row.width, row.height)
    if width is None or height is None:
        width, height = LIVE_SIZE
    stream = info(replace(source, width=width, height=height, depth_scale_m=row.depth_scale_m or 0.0))
    unit = {} if stream.depth_scale_m == 0.0 else {"depth_scale_m": stream.depth_scale_m}
    return unit | ({key: getattr(stream, key) for key in (*SIZE, *LENS)} if row.fx is None else {})


def _by_topics(
    config: Config, topics: dict[str, tuple[str, str, MountTable]], wait_s: float
) -> tuple[dict[tuple[str, str], MountTable], list[str], list[str]]:
    """Return the completed tables of cameras over DDS, what is wrong, and what is silent. Raises DriverError.

    topics: our name of the camera in topics -> kind, name and table
    """
    if not topics:
        return {}, [], []
    images = {
        name: raw_topic(config.dds, f"{name}/image" if name == COLOR else f"{name}/depth/image") for name in topics
    }
    posed = [name for name, (_, _, row) in topics.items() if row.pose is not None]
    heard = listened(config, images, posed, wait_s)
    found, wrong, silent = {}, list[str](), list[str]()
    for ours, (kind, name, row) in topics.items():
        topic = info_topic(images[ours])
        stated = heard.infos.get(ours)
        if stated is None:
            silent.append(f"camera {name}: {NOTHING.format(topic=topic)}")
            continue
        try:
            changes: dict[str, Any] = {}
            if row.fx is None:
                lens, notes = lens_of(stated, topic)
                if row.width not in (None, stated.width) or row.height not in (None, stated.height):
                    raise InputError(
                        f"{topic} states {stated.width}x{stated.height}, the file {row.width}x{row.height}"
                    )
                changes |= dict(zip((*SIZE, *LENS), (stated.width, stated.height, *lens), strict=True))
                for note in notes:
                    log.warning("mounts_taken", camera=name, note=note)
            if row.pose is not None:
                changes |= _by_frames(config, name, heard.frames[ours], heard)
            found[kind, name] = row.model_copy(update=changes)
        except InputError as error:
            wrong.append(f"camera {name}: {error}")
    return found, wrong, silent


def _by_frames(config: Config, name: str, frame: str, heard: Heard) -> dict[str, Any]:
    """Return the pose of a frame as keys of a table. Raises InputError."""
    pose, notes = pose_of(config, frame, heard)
    if pose is None:
        raise InputError("; ".join(notes))
    for note in notes:
        log.warning("mounts_taken", camera=name, note=note)
    xyzw = tuple(float(value) for value in quaternion_of(pose[:3, :3]))
    return {"pose": None, "translation_m": tuple(float(value) for value in pose[:3, 3]), "rotation_xyzw": xyzw}


def _changes(config: Config, kind: str, name: str, row: MountTable) -> list[str]:
    """Return a line for what is not as the last run took it from the same camera."""
    kept = last_run(config.robot.mounts)
    before = None if kept is None else getattr(kept, kind).get(name)
    if before is None or before.serial != row.serial:
        return []
    changed = []
    for key in (*SIZE, *LENS, "depth_scale_m"):
        new, old = getattr(row, key), getattr(before, key)
        if new is not None and old is not None and abs(new - old) > LENS_TOLERANCE * abs(old):
            changed.append(f"{key} was {old:g}, is {new:g}")
    if row.rotation_xyzw is not None and before.rotation_xyzw is not None:
        moved_m = float(np.abs(np.subtract(row.translation_m or AHEAD_M, before.translation_m or AHEAD_M)).max())
        turned = 1.0 - abs(float(np.dot(row.rotation_xyzw, before.rotation_xyzw)))
        if moved_m > MOVED_M or turned > TURNED:
            changed.append(f"pose was {list(before.translation_m or ())}, is {list(row.translation_m or ())}")
    if not changed:
        return []
    return [
        f"camera {name}: differs from the last run ({'; '.join(changed)}): was the camera or its mode changed? "
        f"Remove {config.robot.mounts.stem}.last_run.toml to accept it"
    ]
