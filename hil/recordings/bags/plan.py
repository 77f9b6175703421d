"""Plans an import: topics, configuration, and one line for each missing input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from hil.recordings.bags.bag import CLOUD, IMAGE, TRANSFORMS, Bag, uncompressed
from hil.recordings.bags.topics import ROLES, camera_name, choose, info_topic, named_cameras, named_color, named_lidars
from hil.recordings.recording import TopicMessage
from onboard.assembly.robot import imu_rows, lidar_rows
from onboard.config.config import Config, ScanSection, load_config
from onboard.config.mounts import Mount, Mounts, camera_table, load_mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import header, rays_from_ros
from onboard.drivers.dds.ros_types import Point, Pose, PoseStamped
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.drivers.images.raw import CHANNELS, DEPTH_ENCODINGS
from onboard.perception.laser_scan import scan_of_rays
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, InputError
from onboard.values.frames import Frames, Transform, place_of

LASER_NAME = "imported/scan"
"""Scan topic of a laser that the bag places."""
FRAMES_READ = 500
"""Messages with transforms that are read to place the sensors."""
NEVER_S = 1e6
"""Timeout that never expires: the bag's robot does not obey, so no check of obedience may end the drive."""
SETTLE_S = 1.0
"""Time from the first odometry to the requested goal."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options: topic by role ("" for none), depth as "NAME=TOPIC", colour topic, goal in the odom frame [m].

    lidars: topics of LaserScans and PointCloud2s that are fused
    """

    roles: Mapping[str, str | None]
    depth: Sequence[str] = ()
    color: str | None = None
    goal_xy_m: tuple[float, float] | None = None
    config: Path | None = None
    policy: str | None = None
    lidars: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of an import.

    topics:  name in the runtime by topic of the bag
    laser:   topic of a single laser and base_from_laser; None with fused lidars, or those of the configuration
    goal:    additional goal with its time [ns, the bag's clock]
    missing: one line for each missing input
    """

    config: Config
    topics: Mapping[str, str]
    laser: tuple[str, Transform] | None
    goal: TopicMessage | None
    missing: tuple[str, ...]


def planned(bag: Bag, options: ImportOptions, folder: Path) -> Plan:
    """Return the plan. folder: place for a mounts file from the bag. Raises InputError, ConfigError."""
    config = load_config(options.config) if options.config else _default()
    own, lines = ({}, []) if options.config is None or options.lidars else _own_lidars(bag, config)
    asked = {**options.roles, "laser": ""} if own or options.lidars else options.roles
    roles = {role.name: choose(role, bag.topics, asked.get(role.name)) for role in ROLES}
    config = _with_frames(config, bag, roles)
    frames, base = _frames(bag), config.dds.base_frame
    named = named_cameras(bag.topics, options.depth)
    mounts = None if options.config is None else load_mounts(config.robot.mounts)
    cameras = cameras_of(bag, frames, base, named, named_color(bag.topics, options.color), mounts)
    laser = None
    if not own:
        laser, more = _laser(bag, roles["laser"], frames, base, wanted=bool(asked.get("laser")) or not cameras.depth)
        lidars = named_lidars(bag.topics, options.lidars)
        if not (lidars or laser or cameras.depth):
            lidars = [topic.name for topic in bag.topics if topic.kind == CLOUD][:1]
        scan, further = _fused(bag, lidars, frames, base, config.scan)
        lines += more + further
        scan = scan.model_copy(update={"topic": LASER_NAME}) if laser else scan
        config = config.model_copy(update={"scan": scan, "limits_scan": None})
        own = {row.wire: row.name for row in lidar_rows(config).values()}
    goal = None if roles["goals"] else _goal(bag, roles["odometry"], config, options.goal_xy_m)
    config = _configured(config, cameras, options, folder)
    topics = {name: role.ours for role in ROLES if role.ours and (name := roles[role.name])}
    topics |= {topic: f"{name}/depth/image" for name, topic in cameras.depth.items()}
    topics |= {cameras.color: "color/image"} if cameras.color else {}
    topics |= {laser[0]: scan_source(LASER_NAME).name} if laser else own
    topics |= _imu(bag, config)
    missing = [f"{role.name}: {role.without}" for role in ROLES if role.without and not roles[role.name]]
    missing += [] if roles["goals"] else [_goal_line(goal)]
    missing += [*cameras.missing, *lines, *_blind(cameras, bool(own))]
    return Plan(config, topics, laser, goal, tuple(missing))


def _default() -> Config:
    """Return the default configuration without drop detection, which needs an exact camera tilt."""
    config = load_config(None)
    return config.model_copy(update={"scan": config.scan.model_copy(update={"drop_m": 0.0})})


def _goal_line(goal: TopicMessage | None) -> str:
    if goal is None:
        return "goals: without odometry none can be asked for, so nothing is decided"
    at = goal.sample.pose.position
    return f"goals: ({at.x:.2f}, {at.y:.2f}) in frame {goal.sample.header.frame_id} is asked for instead"


def _blind(cameras: Cameras, lidar: bool) -> list[str]:
    lines = [] if cameras.color else ["colour images: a policy that looks at them sees none"]
    if not cameras.depth and not lidar:
        lines.append("depth images or a laser scan: the runtime is blind, and stands still")
    return lines


def _with_frames(config: Config, bag: Bag, roles: Mapping[str, str | None]) -> Config:
    """Return the configuration with the frame names of the bag."""
    names: dict[str, str] = {}
    odometry, fix = (bag.first(topic) if (topic := roles[name]) else None for name in ("odometry", "localization"))
    if odometry is not None:
        names["odom_frame"], names["base_frame"] = odometry.header.frame_id, odometry.child_frame_id
    if fix is not None:
        names["map_frame"] = fix.header.frame_id
    known = {key: name.strip("/") for key, name in names.items() if name.strip("/")}
    return config.model_copy(update={"dds": config.dds.model_copy(update=known)})


def _frames(bag: Bag) -> Frames:
    """Return the tree of the bag's frames, the static ones first."""
    frames = Frames()
    trees = [topic.name for topic in bag.topics if topic.kind == TRANSFORMS]
    for topic in sorted(trees, key=lambda name: not name.endswith("static")):
        for _, one in zip(range(FRAMES_READ), bag.read({topic}), strict=False):
            frames.hear(one.sample.transforms)
    return frames


def _own_lidars(bag: Bag, config: Config) -> tuple[dict[str, str], list[str]]:
    """Return our name by topic of the bag of the configured lidars, and a line for each that the bag lacks."""
    kinds, found, lines = {topic.name: topic.kind for topic in bag.topics}, {}, []
    for row in lidar_rows(config).values():
        name = ros_topic(config.dds, row)
        if kinds.get(name) == row.kind:
            found[name] = row.name
        else:
            lines.append(f"{name}: the configured lidar is not in the bag as a {row.kind}")
    return found, lines


def _fused(
    bag: Bag, topics: Sequence[str], frames: Frames, base: str, section: ScanSection
) -> tuple[ScanSection, list[str]]:
    """Return the section with only these lidars, placed by the bag's frames, and reasons. Raises InputError."""
    kinds, poses, lines = {topic.name: topic.kind for topic in bag.topics}, {}, []
    for topic in topics:
        sample = bag.first(topic)
        pose = None if sample is None else frames.between(base, sample.header.frame_id)
        if sample is None or pose is None:
            why = "there is no message of it" if sample is None else _unplaced(base, sample.header.frame_id)
            lines.append(f"{topic}: {why}, so it is not used")
        else:
            poses[topic] = place_of(pose)
    clouds = [topic for topic in poses if kinds[topic] == CLOUD]
    lidars = {"topic": "", "laser": None, "lasers": poses, "clouds": clouds}
    try:
        return ScanSection.model_validate(section.model_dump() | lidars), lines
    except ValidationError as error:
        raise InputError(f"--lidar: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from error


def _unplaced(base: str, frame: str) -> str:
    return f"no transform from {base} to {frame}"


def _imu(bag: Bag, config: Config) -> dict[str, str]:
    """Return our names by topic of the bag of the configured IMU, and of the frames that place it."""
    found = {}
    for row in imu_rows(config).values():
        kinds = {topic.name: topic.kind for topic in bag.topics}
        if kinds.get(name := ros_topic(config.dds, row)) == row.kind:
            found[name] = row.name
            found |= {name: "tf_static" for name, kind in kinds.items() if kind == TRANSFORMS and "static" in name}
    return found


def _laser(
    bag: Bag, topic: str | None, frames: Frames, base: str, *, wanted: bool
) -> tuple[tuple[str, Transform] | None, list[str]]:
    """Return the laser's topic and base_from_laser, or None and the reasons."""
    sample = bag.first(topic) if topic and wanted else None
    if topic is None or sample is None:
        return None, []
    base_from_laser = frames.between(base, sample.header.frame_id)
    if base_from_laser is None:
        return None, [f"{topic}: {_unplaced(base, sample.header.frame_id)}, so it is not used"]
    try:
        scan_of_rays(rays_from_ros(sample), 0, base_from_laser)
    except InputError as error:
        return (topic, base_from_laser), [f"{topic}: its first scan is refused: {error}"]
    return (topic, base_from_laser), []


def _goal(
    bag: Bag, odometry: str | None, config: Config, requested_xy_m: tuple[float, float] | None
) -> TopicMessage | None:
    """Return the requested goal, else the robot's last position within the largest goal distance."""
    if odometry is None:
        return None
    began_ns, place = 0, requested_xy_m
    start: tuple[float, float] | None = None
    for one in bag.read({odometry}):
        at = one.sample.pose.pose.position
        began_ns = began_ns or one.time_ns
        start = start or (at.x, at.y)
        near = math.hypot(at.x - start[0], at.y - start[1]) < config.goal.max_distance_m
        if requested_xy_m is None and near:
            place = (at.x, at.y)
    if place is None:
        return None
    time_ns = began_ns + round(SETTLE_S * NS_PER_S)
    goal = PoseStamped(header(time_ns, config.dds.odom_frame), Pose(Point(*place)))
    return TopicMessage("goal_pose", time_ns, goal)


def _configured(config: Config, cameras: Cameras, options: ImportOptions, folder: Path) -> Config:
    """Return the runtime's configuration. Raises ConfigError for bad cameras of the bag."""
    changes: dict[str, Any] = {
        "goal": config.goal.model_copy(update={"progress_timeout_s": NEVER_S, "timeout_s": NEVER_S}),
        "recovery": config.recovery.model_copy(update={"blocked_s": NEVER_S}),
    }
    policy = config.policy.driven_by(options.policy) if options.policy else config.policy
    changes["policy"] = policy.model_copy(update={"engine": "onnxruntime"})
    if cameras.mounts:
        file = folder / "mounts.toml"
        file.write_text(cameras.mounts, encoding="utf-8")
        changes["robot"] = config.robot.model_copy(update={"mounts": file})
        try:
            load_mounts(file)
        except ConfigError as error:
            raise ConfigError(f"the cameras of the bag: {str(error).removeprefix(f'{file}: ')}") from error
    return config.model_copy(update=changes)


READ = (*DEPTH_ENCODINGS, *CHANNELS)
MILLIMETRE_M = 0.001


@dataclass(frozen=True, slots=True)
class Cameras:
    """Cameras of a bag: depth topics by camera, the colour topic, and problems.

    mounts: text of a mounts file from the bag, "" if the configuration's mounts apply
    """

    depth: Mapping[str, str]
    color: str | None
    mounts: str
    missing: tuple[str, ...]


def cameras_of(
    bag: Bag, frames: Frames, base: str, named: Mapping[str, str], color: str | None, mounts: Mounts | None
) -> Cameras:
    """Return the cameras.

    named:  depth topics by camera, empty to find them
    color:  colour topic, "" for none, None to find it
    mounts: mounts of a configuration, None to take them from the bag
    """
    samples = {topic.name: bag.first(topic.name) for topic in bag.topics if topic.kind == IMAGE}
    known = None if mounts is None else mounts.depth
    depth, missing = dict(named), []
    missing += [
        f"{topic}: images of {sample.encoding!r} cannot be read, or are damaged; supported: {', '.join(READ)}"
        for topic, sample in samples.items()
        if sample is not None and sample.encoding not in READ
    ]
    if not named:
        for topic, sample in samples.items():
            if sample is None or sample.encoding not in DEPTH_ENCODINGS:
                continue
            name = camera_name(topic, known)
            if uncompressed(topic) in depth.values():
                continue
            if name is None or name in depth:
                missing.append(f"{topic}: its camera is unclear: name it with --depth NAME={topic}")
            else:
                depth[name] = topic
    if color is None:
        color = next((name for name, one in samples.items() if one is not None and one.encoding in CHANNELS), "")
    tables = []
    for name, topic in list(depth.items()):
        sample, problem = samples[topic], ""
        if sample is None:
            problem = "there is no message of it"
        elif mounts is not None:
            problem = _misfit(name, sample, known)
        else:
            table, problem = _table(bag, name, topic, sample, frames, base)
            tables.append(table)
        if problem:
            missing.append(f"{topic}: {problem}")
            del depth[name]
    return Cameras(depth, color or None, "\n".join(filter(None, tables)), tuple(missing))


def _misfit(name: str, sample: ros.Image, known: Mapping[str, Mount] | None) -> str:
    """Return why a configured mount does not fit a camera's images, or ""."""
    mount = (known or {}).get(name)
    if mount is None:
        return f"the mounts have no camera {name}, they have {', '.join(known or {})}"
    if (sample.width, sample.height) != (mount.width, mount.height):
        return f"its images are {sample.width}x{sample.height}, the mount {name} says {mount.width}x{mount.height}"
    return ""


def _table(bag: Bag, name: str, topic: str, sample: ros.Image, frames: Frames, base: str) -> tuple[str, str]:
    """Return a camera's table for a mounts file and "", or "" and the reason why there is none."""
    info = bag.first(info_topic(topic))
    if info is None:
        return "", f"no intrinsics on {info_topic(topic)}: give --config with the robot's mounts"
    base_from_camera = frames.between(base, sample.header.frame_id)
    if base_from_camera is None:
        where = f"no transform from {base} to {sample.header.frame_id}"
        return "", f"{where}: give --config with the robot's mounts"
    k = [float(value) for value in info.k]
    if not (np.isfinite(k).all() and k[0] > 0.0 and k[4] > 0.0):
        return "", f"invalid intrinsics on {info_topic(topic)}: focal lengths {k[0]}, {k[4]}"
    lens = k[0], k[4], k[2], k[5]
    return camera_table(name, (sample.width, sample.height), lens, MILLIMETRE_M, base_from_camera), ""
