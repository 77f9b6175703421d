"""A mounts file by what a running robot says of itself: `camera_info`, `/tf_static`, plugged-in RealSense devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onboard.config.config import Config
from onboard.config.mounts import camera_table, load_mounts
from onboard.drivers.dds.domain import hold_domain
from onboard.drivers.dds.participant import Reader, Wire, wait_until
from onboard.drivers.dds.ros_types import CameraInfo
from onboard.drivers.dds.topics import BY_NAME, SENSOR, Quality, Topic, domain_id, raw_topic
from onboard.drivers.realsense.device import Source, list_devices, read_intrinsics
from onboard.values.errors import ConfigError, InputError
from onboard.values.frames import Frames, Transform

DEPTH, COLOR = "/depth/image", "color/image"
FOOTPRINT = "base_footprint"
WAIT_S = 6.0
"""A camera_info comes with each image, and tf_static at once; discovery takes less than a second."""
MILLIMETRE_M = 0.001
"""Unit of 16UC1 by REP-118."""
LIVE_SIZE, LIVE_FPS = (848, 480), 30


def published_mounts(config: Config) -> tuple[str, list[str]]:
    """Return the text of a mounts file, and notes on what is doubtful or missing.

    Listens for at most WAIT_S. Raises InputError with a line for each camera that cannot be written, DriverError.
    """
    tables, notes = _devices(config)
    images = _image_topics(config)
    if images:
        found, more = _published(config, images)
        tables += found
        notes += more
    if not tables:
        raise InputError('no camera: map its image topic in onboard.toml, [dds.remap] "front/depth/image" = "/..."')
    return "\n".join(["# By `onboard cameras --out`", *tables]), notes


def _image_topics(config: Config) -> dict[str, str]:
    """Return the image topic of each camera over DDS by its name; "color" is the colour camera."""
    names = [name.removesuffix(DEPTH) for name in config.dds.remap if name.endswith(DEPTH)]
    found = {name: raw_topic(config.dds, f"{name}{DEPTH}") for name in names if config.cameras.source_of(name) == "dds"}
    if COLOR in config.dds.remap and config.cameras.color == "dds":
        found["color"] = raw_topic(config.dds, COLOR)
    return found


def _published(config: Config, images: Mapping[str, str]) -> tuple[list[str], list[str]]:
    hold_domain(domain_id(config.dds), config.dds)
    wire = Wire(config.dds)
    infos: dict[str, CameraInfo] = {}
    static, every, moving = Frames(), Frames(), set[frozenset[str]]()
    try:
        kind = BY_NAME["color/camera_info"].kind
        readers = {
            name: wire.reader(Topic(f"camera_info of {name}", info_topic(image), kind, SENSOR))
            for name, image in images.items()
        }
        latched = Quality(depth=100, read_reliable=True, latched=True)
        tf_static = wire.reader(replace(BY_NAME["tf_static"], quality=latched))
        tf = wire.reader(replace(BY_NAME["tf"], quality=SENSOR))

        def take() -> bool:
            infos.update({name: message.sample for name, reader in readers.items() for message in reader.take()})
            _hear(tf_static, (static, every))
            moving.update(_hear(tf, (every,)))
            return infos.keys() == images.keys() and all(
                static.between(config.dds.base_frame, info.header.frame_id) is not None for info in infos.values()
            )

        wait_until(take, WAIT_S)
    finally:
        wire.close()
    tables, notes, mistakes = [], list[str](), []
    for name, image in images.items():
        try:
            info = infos.get(name)
            if info is None:
                raise InputError(f"{info_topic(image)}: nothing is received: is the camera's driver running?")
            lens, more = lens_of(info, info_topic(image))
            pose, doubts = _pose(config, name, info.header.frame_id, static, every, moving)
            notes += [f"camera {name}: {note}" for note in (*more, *doubts)]
            unit_m, table = (0.0, "color_cameras") if name == "color" else (MILLIMETRE_M, "cameras")
            tables.append(camera_table(name, (info.width, info.height), lens, unit_m, pose, table))
        except InputError as error:
            mistakes.append(f"camera {name}: {error}")
    if mistakes:
        raise InputError("\n".join(mistakes))
    return tables, notes


def _hear(reader: Reader, trees: tuple[Frames, ...]) -> set[frozenset[str]]:
    """Add new transforms to trees; return their pairs of frames."""
    heard = [transform for message in reader.take() for transform in message.sample.transforms]
    for tree in trees:
        tree.hear(heard)
    return {frozenset((one.header.frame_id.strip("/"), one.child_frame_id.strip("/"))) for one in heard}


def info_topic(image_topic: str) -> str:
    """Return the CameraInfo topic next to a raw image topic, by image_transport's custom."""
    return f"{image_topic.rpartition('/')[0]}/camera_info"


def lens_of(info: CameraInfo, topic: str) -> tuple[tuple[float, float, float, float], list[str]]:
    """Return fx, fy, cx, cy [px] of rectified images, and notes. Raises InputError for one that states none."""
    bent = any(value != 0.0 for value in info.d)
    k = [float(value) for value in (info.p if bent and info.p[0] > 0.0 else info.k)]
    fx, cx, fy, cy = (k[0], k[2], k[5], k[6]) if len(k) == 12 else (k[0], k[2], k[4], k[5])
    if not (np.isfinite([fx, fy, cx, cy]).all() and fx > 0.0 and fy > 0.0 and info.width and info.height):
        raise InputError(
            f"{topic} states focal lengths {fx:g}, {fy:g} for {info.width}x{info.height}: calibrate the camera, or "
            "write its lens into mounts.toml"
        )
    values = ", ".join(f"{value:.3g}" for value in info.d)
    note = (
        f"{topic} has a distortion ({info.distortion_model}, {values}): its image topic must be a rectified one, whose "
        "lens was written"
    )
    return (fx, fy, cx, cy), [note] if bent else []


def _pose(
    config: Config, name: str, frame: str, static: Frames, every: Frames, moving: set[frozenset[str]]
) -> tuple[Transform | None, list[str]]:
    """Return base_from_camera with its height from the floor, and notes. Raises InputError for a moving joint."""
    base = config.dds.base_frame
    found = static.between(base, frame)
    if found is None and every.between(base, frame) is not None:
        others = {config.dds.odom_frame, config.dds.map_frame}
        joints = "; ".join(sorted(" - ".join(sorted(pair)) for pair in moving if not pair & others))
        raise InputError(
            f"{frame} moves against {base} (/tf has {joints}): write its pose for one position of the joint, by "
            "`onboard mounts --from-urdf FILE --joint NAME=VALUE`"
        )
    if found is None:
        known = ", ".join(static.names()[:10]) or "no frame"
        return None, [f"/tf_static connects no {base} with {frame!r}, it has {known}: write translation_m and look_deg"]
    floor = static.between(base, FOOTPRINT)
    if floor is None:
        return found, [f"tf has no {FOOTPRINT}: heights are from {base}; add its height above the floor"]
    raised = found.copy()
    raised[2, 3] -= floor[2, 3]
    return raised, []


def _devices(config: Config) -> tuple[list[str], list[str]]:
    """Return the tables of plugged-in RealSense cameras, with the poses of the configured mounts."""
    if config.cameras.source != "realsense" and "realsense" not in config.cameras.sources.values():
        return [], []
    try:
        known = {mount.serial: mount for mount in load_mounts(config.robot.mounts).depth.values() if mount.serial}
    except ConfigError:  # the file that is to be written
        known = {}
    tables, notes = [], []
    for number, device in enumerate(list_devices()):
        mount = known.get(device.serial)
        name = f"camera{number}" if mount is None else mount.name
        width, height = LIVE_SIZE if mount is None else (mount.width, mount.height)
        source = Source(name, serial=device.serial, width=width, height=height, fps=LIVE_FPS)
        info = read_intrinsics(source)
        pose = None if mount is None else mount.base_from_camera
        lens = info.fx, info.fy, info.cx, info.cy
        text = camera_table(name, (info.width, info.height), lens, info.depth_scale_m, pose)
        tables.append(f'{text}serial = "{device.serial}"\n')
        if mount is None:
            notes.append(f"camera {name}: write its name, translation_m and look_deg")
    return tables, notes
