"""Builds from a configuration, without devices: cameras of the scans, zones of the map, robot, session."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from onboard.assembly.policies import WITHOUT_MODEL
from onboard.config.config import LIDARS, CamerasSection, Config, LaserPose, NoReturn, ScanSection, ScanSource
from onboard.config.mounts import AHEAD_M, Mounts, completed_text, last_run, say_once
from onboard.config.plant_model import Plant
from onboard.config.pretrained import model_path
from onboard.drivers.dds.topics import Topic, imu_source, scan_source
from onboard.perception import cliff, obstacle_memory
from onboard.perception.building.occupancy_grid import OccupancyGrid, encode, load_building
from onboard.perception.building.reach import reach_in
from onboard.perception.collision import braking_m, stoppable_mps
from onboard.perception.min_range import with_min_distance
from onboard.perception.scan_fusion import Rig, Scanner, build_rig
from onboard.policy.manifest import load_manifest
from onboard.recording import provenance
from onboard.safety import keepout_zones
from onboard.safety.keepout_zones import MapZones
from onboard.state import Robot
from onboard.values.errors import ConfigError
from onboard.values.geometry import quaternion_from_rpy, rotation_from_quaternion
from onboard.values.interfaces import Policy

Scanners = tuple[Scanner, Scanner | None]
"""Scanner of the policy's scan, and of the limits' scan; None if both are the same."""
BY_TF: Final = "tf"
STAND_IN: LaserPose = (0.0, 0.0, AHEAD_M[2], 0.0, 0.0, 0.0)
"""Pose of a lidar by tf, before any run has taken it."""


def robot_of(
    config: Config,
    scanners: Scanners,
    plant: Plant,
    policy: Policy,
    zones: MapZones | None,
    building: OccupancyGrid | None = None,
) -> Robot:
    """Return the robot of a configuration.

    scanners: result of `build_rigs`; zones: result of `zones_of`; building: result of `building_of`
    """
    reach = None if building is None else reach_in(building, config.robot.footprint.inner_m)
    return Robot(config, *scanners, plant, policy.initial_memory(), policy.memory_reset_s, zones, reach)


def build_rigs(config: Config, mounts: Mounts) -> tuple[Rig, Rig | None]:
    """Return the cameras of the policy's scan and of the limits' scan, None if both are the same."""
    own, mounts = config.own_scan, with_min_distance(mounts, config.cameras)
    body = config.robot.height_m, config.robot.footprint.inner_m
    rig = build_rig(_chosen(mounts, config.scan, "scan", config.cameras), config.scan, *body)
    return rig, None if own is None else build_rig(_chosen(mounts, own, "limits_scan", config.cameras), own, *body)


def used_mounts(config: Config, mounts: Mounts) -> Mounts:
    """Return the cameras that the robot has by its configuration: without those whose source is none."""
    depth = {name: mount for name, mount in mounts.depth.items() if config.cameras.source_of(name) != "none"}
    return replace(mounts, depth=depth, color={} if config.cameras.color == "none" else mounts.color)


def scan_topics(config: Config) -> dict[str, str]:
    """Return the topics of ready-made scans, by their table in the configuration."""
    tables = {"scan": config.scan, "limits_scan": config.limits_scan}
    return {name: section.topic for name, section in tables.items() if section is not None and section.topic}


def lasers_of(config: Config) -> dict[str, npt.NDArray[np.float64] | None]:
    """Return base_from_laser, (4, 4), of each topic of ready-made scans; None: its scans are in the base frame.

    A pose that one table states holds for the same topic in the other. Raises ConfigError for two poses of one topic,
    and for a pose without a topic.
    """
    config = with_lasers(config)
    poses: dict[str, tuple[float, float, float]] = {}
    for name, section in {"scan": config.scan, "limits_scan": config.limits_scan}.items():
        if section is None or section.laser is None:
            continue
        if not section.topic:
            raise ConfigError(
                f"{name}.laser: {section.laser} has no effect without {name}.topic: set both keys, or neither"
            )
        first = poses.setdefault(section.topic, section.laser)
        if first != section.laser:
            raise ConfigError(f"{name}.laser: {section.laser} and scan.laser {first} are two poses of {section.topic}")
    single = [topic for topic in scan_topics(config).values() if topic != LIDARS]
    level = {topic: _posed((x_m, y_m, 0.0, 0.0, 0.0, yaw)) for topic, (x_m, y_m, yaw) in poses.items()}
    return {topic: level.get(topic) for topic in single} | _lidars_of(config)


def lasers_by_tf(config: Config) -> list[str]:
    """Return the topics of lidars whose pose the configuration takes from tf."""
    sections = [section for section in (config.scan, config.limits_scan) if section is not None]
    return list(dict.fromkeys(name for one in sections for name, pose in one.lasers.items() if pose == BY_TF))


def with_lasers(config: Config, taken: Mapping[str, LaserPose] | None = None) -> Config:
    """Return the configuration with the numbers of lidars by tf: `taken`, else those of the last run, else a stand-in.

    A line in the log says which of the last two, once.
    """
    names = lasers_by_tf(config)
    if not names:
        return config
    path = config.robot.mounts
    if taken is None:
        kept = last_run(path)
        taken = {} if kept is None else kept.lasers
        for name in names:
            where = "of the last run" if name in taken else f"not taken from a robot yet: level, {AHEAD_M[2]} m high"
            say_once(path, f"scan.lasers {name}", f"pose {where}")
    poses = {name: taken.get(name, STAND_IN) for name in names}
    sections = {"scan": config.scan, "limits_scan": config.limits_scan}
    changes = {
        table: section.model_copy(update={"lasers": section.lasers | poses})
        for table, section in sections.items()
        if section is not None and section.lasers
    }
    return config.model_copy(update=changes)


def _lidars_of(config: Config) -> dict[str, npt.NDArray[np.float64] | None]:
    """Return the pose of each fused lidar. Raises ConfigError for two sets, and for a height outside of the scan's."""
    fused = [
        section for section in (config.scan, config.limits_scan) if section is not None and section.topic == LIDARS
    ]
    if len(fused) == 2 and (fused[0].lasers, fused[0].clouds) != (fused[1].lasers, fused[1].clouds):
        raise ConfigError("limits_scan.lasers, clouds: the fused lidars must be the same as those of scan")
    found: dict[str, npt.NDArray[np.float64] | None] = {}
    low_m, high_m = config.scan.z_min_m, config.scan.z_max_m
    for topic, is_cloud in (fused[0].sources if fused else {}).items():
        pose = fused[0].lasers.get(topic)
        if pose is None or pose == BY_TF:
            found[topic] = None
            continue
        found[topic] = _posed(pose)
        if not is_cloud and not low_m <= pose[2] <= high_m:
            raise ConfigError(
                f"scan.lasers: {topic} is {pose[2]:g} m above the floor, not within scan.z_min_m {low_m:g} and "
                f"z_max_m {high_m:g}"
            )
    return found


def _posed(pose: tuple[float, float, float, float, float, float]) -> npt.NDArray[np.float64]:
    """Return base_from_laser, (4, 4), of x, y, z [m], roll, pitch, yaw [deg]."""
    roll, pitch, yaw = map(math.radians, pose[3:])
    whole = np.eye(4)
    whole[:3, :3] = rotation_from_quaternion(quaternion_from_rpy(roll, pitch, yaw))
    whole[:3, 3] = pose[:3]
    return whole


def lidars_of(config: Config) -> ScanSection:
    """Return the section of the fused lidars, with the heights of `scan`."""
    own = config.own_scan
    return own if own is not None and config.scan.topic != LIDARS else config.scan


def lidar_rows(config: Config) -> dict[str, Topic]:
    """Return the topic of each lidar by its name."""
    sections = [section for section in (config.scan, config.limits_scan) if section is not None]
    return {name: scan_source(name, cloud) for section in sections for name, cloud in section.sources.items()}


def imu_rows(config: Config) -> dict[str, Topic]:
    """Return the topic of the IMU by its name, if there is one."""
    return {config.odometry.imu: imu_source(config.odometry.imu)} if config.odometry.imu else {}


def no_return_of(config: Config) -> dict[str, list[NoReturn]]:
    """Return `no_return` of each topic of ready-made scans; what one table states holds in the other too."""
    found: dict[str, list[NoReturn]] = {}
    for section in (config.scan, config.limits_scan):
        for topic in section.sources if section is not None else ():
            found.setdefault(topic, []).extend(section.no_return if section is not None else ())
    return found


def zones_of(config: Config) -> MapZones | None:
    """Return the configured zones of the map, None without masks. Raises InputError."""
    return keepout_zones.load_zones(config.zones, config.limits.v_max_mps, config.robot.footprint)


def building_of(config: Config) -> OccupancyGrid | None:
    """Return the configured map of the building, None without one, and before a first run has taken it from its topic.

    Raises InputError.
    """
    file = config.map.file
    return None if file is None or (config.map.topic and not file.exists()) else load_building(file)


def check_reach(config: Config, plant: Plant) -> None:
    """Raise ConfigError if the braking distance exceeds the range of obstacle memory, cliff search or map masks."""
    limits = config.limits
    braking_mps2 = min(limits.acceleration_mps2, plant.linear.braking_max)
    swept_m = config.robot.footprint.reach_m + limits.stop_margin_m
    way_m = braking_m(limits.v_max_mps, braking_mps2, limits.reaction_s) + swept_m
    masks = config.zones.keep_out or config.zones.speed
    #         search or memory, range, switched on
    reaches = [
        (
            "the obstacle memory (obstacle_memory.py)",
            obstacle_memory.REACH_M,
            limits.remember_s > 0.0,
        ),
        ("the search for missing floor (cliff.py)", cliff.REACH_M, config.scan.drop_m > 0.0),
        ("the search in the map's masks (keepout_zones.py)", keepout_zones.REACH_M, masks is not None),
    ]
    for what, reach_m, used in reaches:
        if used and way_m > reach_m:
            most_mps = stoppable_mps(max(reach_m - swept_m, 0.0), braking_mps2, limits.reaction_s)
            raise ConfigError(
                f"limits.v_max_mps {limits.v_max_mps:g}: stopping takes {way_m:.2f} m, footprint and margin included; "
                f"{what} reaches {reach_m:g} m, enough for up to {most_mps:.2f} m/s"
            )


def session_of(config: Config, building: OccupancyGrid | None = None) -> dict[str, str]:
    """Return a recording's session metadata. A replay needs no file of the robot except the model.

    building: result of `building_of`, read again without it
    """
    building = building or building_of(config)
    driven_by_model = config.policy.model not in WITHOUT_MODEL
    return {
        "robot": config.robot.name,
        "configuration": json.dumps(with_lasers(config).model_dump(mode="json")),
        "mounts": completed_text(config.robot.mounts),
        "plant": config.robot.plant.read_text(),
        "model_sha256": load_manifest(model_path(config.policy.model)).sha256 if driven_by_model else "",
        "engine": provenance.engine(config.policy, WITHOUT_MODEL),
        "code_sha256": provenance.code_sha256(),
        "libraries": provenance.libraries(),
        "machine": provenance.machine(),
        "processor": provenance.processor(),
        **(
            {}
            if (building := building or building_of(config)) is None
            else {"map": encode(building), "map_sha256": building.digest}
        ),
        **({} if (masks := zones_of(config)) is None else {"zones": keepout_zones.encode(masks)}),
    }


def _chosen(mounts: Mounts, section: ScanSource, table: str, sources: CamerasSection) -> Mounts:
    """Return the mounts of a scan's cameras; none for a ready-made scan alone. Raises ConfigError."""
    if not section.uses_cameras:
        return replace(mounts, depth={})
    unknown = [name for name in section.cameras if name not in mounts.depth]
    if unknown:
        raise ConfigError(f"{table}.cameras: unknown camera {unknown[0]}, {mounts.path} has {', '.join(mounts.depth)}")
    if section.topic and (off := [name for name in section.cameras if sources.source_of(name) == "none"]):
        raise ConfigError(f"{table}.cameras: {off[0]} has no source (cameras.source, cameras.sources)")
    names = section.cameras or list(mounts.depth)
    return replace(mounts, depth={name: mounts.depth[name] for name in names})
