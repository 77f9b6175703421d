"""A mounts file by what a running robot says of itself: `camera_info`, `/tf_static`, plugged-in RealSense devices."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from onboard.assembly.robot import lidar_rows
from onboard.config.config import Config
from onboard.config.mounts import MILLIMETRE_M, camera_table, load_mounts
from onboard.config.urdf import Pose3, Urdf, read_urdf
from onboard.config.urdf_floor import floor_of
from onboard.drivers.dds.camera_input import info_topic, lens_of
from onboard.drivers.dds.domain import hold_domain
from onboard.drivers.dds.participant import Reader, Wire, wait_until
from onboard.drivers.dds.ros_types import CameraInfo
from onboard.drivers.dds.topics import BY_NAME, LATCHED, SENSOR, Quality, Topic, domain_id, raw_topic
from onboard.drivers.realsense.device import Source, list_devices, read_intrinsics
from onboard.values.errors import ConfigError, InputError
from onboard.values.frames import Frames, Transform, place_of
from onboard.values.geometry import rotation_from_quaternion

DEPTH, COLOR = "/depth/image", "color/image"
FOOTPRINT = "base_footprint"
WAIT_S = 6.0
"""A camera_info comes with each image, and tf_static at once; discovery takes less than a second."""
NOTHING = "{topic}: nothing is received: is the camera's driver running?"
LEVEL_DEG = 0.5
"""A lidar that is tilted less counts as level."""
LIVE_SIZE, LIVE_FPS = (848, 480), 30


def published_mounts(config: Config) -> tuple[str, list[str]]:
    """Return the text of a mounts file, and notes: what is doubtful or missing, and where lidars are.

    Listens for at most WAIT_S. The text is empty for a robot with lidars and without cameras. Raises InputError with a
    line for each camera that cannot be written, DriverError.
    """
    tables, notes = _devices(config)
    images, lidars = _image_topics(config), lidar_rows(config)
    if images or lidars:
        heard = listened(config, images, images, WAIT_S, lidars)
        found, more = _published(config, images, heard)
        tables += found
        notes += [*more, *(_placed(config, name, heard) for name in lidars)]
    if not tables and lidars:
        return "", notes
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


@dataclass(slots=True)
class Heard:
    """What a running robot says of itself.

    infos:   camera -> its first camera_info; frames: camera or lidar -> frame of its message
    static:  frames of /tf_static; every: also of /tf; moving: pairs of frames of /tf
    parents: child -> its parents in /tf_static
    urdf:    robot_description, "" if nobody publishes it
    """

    infos: dict[str, CameraInfo] = field(default_factory=dict)
    frames: dict[str, str] = field(default_factory=dict)
    static: Frames = field(default_factory=Frames)
    every: Frames = field(default_factory=Frames)
    moving: set[frozenset[str]] = field(default_factory=set)
    parents: dict[str, list[str]] = field(default_factory=dict)
    urdf: str = ""


def listened(
    config: Config,
    images: Mapping[str, str],
    posed: Collection[str],
    wait_s: float,
    lidars: Mapping[str, Topic] = MappingProxyType({}),
) -> Heard:
    """Return what the robot publishes within `wait_s`, sooner if it is all that is needed.

    images: the raw image topic of each camera, by our name; posed: cameras whose pose is needed
    lidars: topics by name, whose pose is needed too. Raises DriverError.
    """
    hold_domain(domain_id(config.dds), config.dds)
    wire, heard = Wire(config.dds), Heard()
    try:
        kind = BY_NAME["color/camera_info"].kind
        readers = {
            name: wire.reader(Topic(f"camera_info of {name}", info_topic(image), kind, SENSOR))
            for name, image in images.items()
        }
        rays = {name: wire.reader(row) for name, row in lidars.items()}
        latched = Quality(depth=100, read_reliable=True, latched=True)
        tf_static = wire.reader(replace(BY_NAME["tf_static"], quality=latched))
        tf = wire.reader(replace(BY_NAME["tf"], quality=SENSOR))
        urdf = wire.reader(Topic("robot_description", "robot_description", "std_msgs/msg/String", LATCHED))

        def take() -> bool:
            for name, reader in readers.items():
                for message in reader.take():
                    heard.infos.setdefault(name, message.sample)
                    heard.frames.setdefault(name, message.sample.header.frame_id)
            for name, reader in rays.items():
                for message in reader.take():
                    heard.frames.setdefault(name, message.sample.header.frame_id)
            for parent, child in _hear(tf_static, (heard.static, heard.every)):
                if parent not in heard.parents.setdefault(child, []):
                    heard.parents[child].append(parent)
            heard.moving.update(map(frozenset, _hear(tf, (heard.every,))))
            heard.urdf = next((message.sample.data for message in reversed(urdf.take())), heard.urdf)
            base = config.dds.base_frame
            floor = bool(heard.urdf) or heard.static.between(base, FOOTPRINT) is not None
            known = heard.infos.keys() == images.keys() and rays.keys() <= heard.frames.keys()
            return known and all(
                floor and heard.static.between(base, heard.frames[name]) is not None for name in (*posed, *rays)
            )

        wait_until(take, wait_s)
    finally:
        wire.close()
    return heard


def _placed(config: Config, name: str, heard: Heard) -> str:
    """Return where a lidar is, as the configuration states it, or why that is not known."""
    frame = heard.frames.get(name)
    if frame is None:
        return f"lidar {NOTHING.format(topic=name).replace('camera', 'lidar')}"
    try:
        pose, notes = pose_of(config, frame, heard)
    except InputError as error:
        return f"lidar {name}: {error}"
    if pose is None:
        return f"lidar {name}: {'; '.join(notes)}".replace("translation_m and look_deg", "its pose into scan.lasers")
    x, y, z, roll, pitch, yaw = (round(value, 4) + 0.0 for value in place_of(pose))
    level = f", or scan.laser = [{x}, {y}, {yaw}]" if abs(roll) < LEVEL_DEG and abs(pitch) < LEVEL_DEG else ""
    return "; ".join([f'lidar {name}: in [scan.lasers] "{name}" = {[x, y, z, roll, pitch, yaw]}{level}', *notes])


def _published(config: Config, images: Mapping[str, str], heard: Heard) -> tuple[list[str], list[str]]:
    tables, notes, mistakes = [], list[str](), []
    for name, image in images.items():
        try:
            info = heard.infos.get(name)
            if info is None:
                raise InputError(NOTHING.format(topic=info_topic(image)))
            lens, more = lens_of(info, info_topic(image))
            pose, doubts = pose_of(config, info.header.frame_id, heard)
            notes += [f"camera {name}: {note}" for note in (*more, *doubts)]
            unit_m, table = (0.0, "color_cameras") if name == "color" else (MILLIMETRE_M, "cameras")
            tables.append(camera_table(name, (info.width, info.height), lens, unit_m, pose, table))
        except InputError as error:
            mistakes.append(f"camera {name}: {error}")
    if mistakes:
        raise InputError("\n".join(mistakes))
    return tables, notes


def _hear(reader: Reader, trees: tuple[Frames, ...]) -> list[tuple[str, str]]:
    """Add new transforms to trees; return their pairs of frames, the parent first."""
    heard = [transform for message in reader.take() for transform in message.sample.transforms]
    for tree in trees:
        tree.hear(heard)
    return [(one.header.frame_id.strip("/"), one.child_frame_id.strip("/")) for one in heard]


def pose_of(config: Config, frame: str, heard: Heard) -> tuple[Transform | None, list[str]]:
    """Return base_from_camera with its height from the floor, and notes.

    By /tf_static, else by the joints of robot_description. Raises InputError for a moving joint, for a loop, and for a
    frame with two parents.
    """
    base, static = config.dds.base_frame, heard.static
    for end in (frame, base):
        _check_chain(end.strip("/"), heard.parents)
    found, urdf = static.between(base, frame), _description(heard.urdf)
    described = urdf is not None and {base, frame} <= urdf.frames() and urdf.connected(base, frame)
    if found is None and (described or heard.every.between(base, frame) is not None):
        others = {config.dds.odom_frame, config.dds.map_frame}
        joints = "; ".join(sorted(" - ".join(sorted(pair)) for pair in heard.moving if not pair & others))
        moving = urdf.moving_between(base, frame) if urdf is not None and described else f"/tf has {joints}"
        if moving:
            raise InputError(
                f"{frame} moves against {base} ({moving}): write its pose for one position of the joint, by "
                "`onboard mounts --from-urdf FILE --joint NAME=VALUE`"
            )
        found = _matrix(urdf.pose(base, frame)) if urdf is not None else None
    if found is None:
        known = ", ".join(static.names()[:10]) or "none (is robot_state_publisher running?)"
        found_none = f"/tf_static connects no {base} with {frame!r}; its frames: {known}"
        return None, [f"{found_none}: write translation_m and look_deg"]
    floor, raised = static.between(base, FOOTPRINT), found.copy()
    height_m = None if floor is None else -float(floor[2, 3])
    if height_m is None and urdf is not None and base in urdf.frames():
        height_m = floor_of(urdf, base).base_height_m
    if height_m is None:
        return found, [f"tf has no {FOOTPRINT}: heights are from {base}; add its height above the floor"]
    raised[2, 3] += height_m
    return raised, []


def _check_chain(frame: str, parents: Mapping[str, list[str]]) -> None:
    """Raise InputError for a loop above a frame, or a frame with two parents."""
    chain = [frame]
    while above := parents.get(chain[-1]):
        if len(above) > 1:
            raise InputError(f"/tf_static: {chain[-1]} has two parents, {above[0]} and {above[1]}: stop one publisher")
        chain.append(above[0])
        if above[0] in chain[:-1]:
            raise InputError(f"/tf_static: {' - '.join(chain)} is a loop: correct the frames of its publishers")


def _description(text: str) -> Urdf | None:
    """Return the URDF in robot_description, None without one. Raises InputError if it is damaged."""
    if not text:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot_description.urdf"
        file.write_text(text, encoding="utf-8")
        try:
            return replace(read_urdf(file), path=Path("robot_description"))
        except InputError as error:
            raise InputError(str(error).replace(str(file), "robot_description")) from error


def _matrix(pose: Pose3) -> Transform:
    whole = np.eye(4)
    whole[:3, 3], whole[:3, :3] = pose[0], rotation_from_quaternion(pose[1])
    return whole


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
