"""What is legal in a configuration and yet hardly meant: a line each, for `check-config` and the start of a run."""

from __future__ import annotations

import difflib

import numpy as np

from onboard.assembly.robot import build_rigs, used_mounts, zones_of
from onboard.config.config import Config
from onboard.config.mounts import Mounts, load_mounts, unusual_views
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import BY_NAME, CAMERA, check_distinct, imu_source, scan_source, topic
from onboard.perception.building.map_image import OCCUPIED, occupied_cells, read_map_image, speed_limits
from onboard.perception.height_coverage import described
from onboard.safety.limits import seen_mps
from onboard.values.errors import ConfigError

LONGEST_TIMEOUT_S = 0.5
"""Of a base without commands (docs/base.md)."""
LEAST_DETOUR_M, DETOUR_M = 30.0, 120.0
"""A robot that may drive less than the first without getting nearer is warned of, with the time for the second."""
SPEED_SLACK = 0.05
"""An identified top speed this much below the limit is noise of the identification [m/s, rad/s]."""


def config_warnings(config: Config) -> list[str]:
    """Return the warnings about a configuration whose files are checked. Raises OnboardError for files that are not."""
    mounts = used_mounts(config, load_mounts(config.robot.mounts))
    return [
        *unusual_views(mounts),
        *_base(config),
        *_recovery(config),
        *_times(config),
        *_zones(config),
        *_heights(config),
        *_views(config, mounts),
    ]


def mask_cells(config: Config) -> dict[str, int]:
    """Return how many cells of each mask have an effect: `keep_out_cells` forbid, `speed_cells` limit the speed."""
    cells = {}
    for name, used in {"keep_out": occupied_cells, "speed": speed_limits}.items():
        if (file := getattr(config.zones, name)) is not None:
            table, value = read_map_image(file, used)
            cells[f"{name}_cells"] = int(np.count_nonzero(used(value, table)))
    return cells


def check_staleness(config: Config) -> None:
    """Raise ConfigError if one dead camera would make the whole scan stale, and so stop the robot."""
    cameras_ms, scan_ms = config.cameras.stale_ms, config.limits.scan_stale_ms
    fused = [section for section in (config.scan, config.limits_scan) if section is not None and section.uses_cameras]
    if fused and cameras_ms > scan_ms:
        raise ConfigError(
            f"cameras.stale_ms {cameras_ms:g} is above limits.scan_stale_ms {scan_ms:g}: one camera that falls silent "
            "would stop the robot instead of leaving a blind sector; lower cameras.stale_ms"
        )


def check_remaps(config: Config, mounts: Mounts) -> None:
    """Raise ConfigError with a line for each remapping of a camera that the mounts do not have."""
    lines = []
    for name in config.dds.remap:
        camera = name.partition("/")[0]
        if "/" in name and name not in BY_NAME and camera not in mounts.depth:
            near = difflib.get_close_matches(camera, mounts.depth, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            lines.append(
                f"dds.remap.{name}: unknown camera {camera}, {mounts.path} has {', '.join(mounts.depth)}{hint}"
            )
    if lines:
        raise ConfigError("\n".join(lines))


def check_topics(config: Config, mounts: Mounts) -> None:
    """Raise ConfigError with a line for each topic that two of our inputs and outputs share."""
    color = config.cameras.color == "dds"
    names = [name for name in BY_NAME if CAMERA not in name and (color or not name.startswith("color/"))]
    for camera in used_mounts(config, mounts).depth:
        heard = config.cameras.source_of(camera) == "dds"
        names += [f"{camera}/depth/camera_info", *([f"{camera}/depth/image"] if heard else [])]
    rows = [(f"dds.remap.{name}", topic(name)) for name in names]
    if imu := config.odometry.imu:
        rows.append(("odometry.imu", imu_source(imu)))
    rows += [("scan.topic", scan_source(name)) for name in config.scan.sources]
    if (own := config.limits_scan) is not None:
        rows += [("limits_scan.topic", scan_source(name)) for name in own.sources if name not in config.scan.sources]
    check_distinct(config.dds, rows)


def check_heights(mounts: Mounts) -> None:
    """Raise ConfigError with a line for each depth camera that is not above the floor."""
    lines = [
        f"{mounts.path}: cameras.{name}.translation_m: z is {mount.base_from_camera[2, 3]:g} m, which is not above the "
        "floor: it counts from the floor, so add the height of the base frame (`onboard mounts --from-urdf` does)"
        for name, mount in mounts.depth.items()
        if mount.base_from_camera[2, 3] <= 0.0
    ]
    if lines:
        raise ConfigError("\n".join(lines))


def _base(config: Config) -> list[str]:
    plant, limits, lines = load_plant(config.robot.plant), config.limits, []
    if (timeout_s := plant.base.command_timeout_s) > LONGEST_TIMEOUT_S:
        lines.append(
            f"{config.robot.plant}: base.command_timeout_s {timeout_s:g} is above {LONGEST_TIMEOUT_S:g}: after a crash "
            "the robot keeps rolling for this time; shorten it in the base (docs/base.md)"
        )
    speeds = {
        "linear.speed_max": (plant.linear.speed_max, "limits.v_max_mps", limits.v_max_mps),
        "angular.speed_max": (plant.angular.speed_max, "limits.w_max_radps", limits.w_max_radps),
    }
    for name, (reached, key, allowed) in speeds.items():
        if reached < allowed - SPEED_SLACK:
            lines.append(
                f"{config.robot.plant}: {name} {reached:g} is below {key} {allowed:g}: the policy plans for a slower "
                "base than the limits allow; identify the base at that speed (`onboard-calib drive-pattern`), or lower "
                f"{key}"
            )
    return lines


def _recovery(config: Config) -> list[str]:
    asked, allowed = config.recovery.backward_mps, -config.limits.v_min_mps
    if not config.recovery.back_off or asked <= allowed:
        return []
    return [
        f"recovery.backward_mps {asked:g} is above -limits.v_min_mps {allowed:g}, so the robot backs off at "
        f"{allowed:g} m/s and covers less ground; lower recovery.backward_mps, or lower limits.v_min_mps"
    ]


def _times(config: Config) -> list[str]:
    """Return a line for each time that ends a slow robot's drive early."""
    mps, goal, lines = config.limits.v_max_mps, config.goal, []
    if (away_m := goal.progress_timeout_s * mps) < LEAST_DETOUR_M:
        lines.append(
            f"goal.progress_timeout_s {goal.progress_timeout_s:g}: with limits.v_max_mps {mps:g} a path that leads "
            f"away from the goal for {away_m:.0f} m ends the drive; {DETOUR_M / mps:.0f} s allow {DETOUR_M:g} m"
        )
    if (far_m := goal.timeout_s * mps) < goal.max_distance_m:
        lines.append(
            f"goal.timeout_s {goal.timeout_s:g}: with limits.v_max_mps {mps:g} the robot drives {far_m:.0f} m in this "
            f"time, and goals may be {goal.max_distance_m:g} m away (goal.max_distance_m)"
        )
    return lines


def _zones(config: Config) -> list[str]:
    masks, section = zones_of(config), config.zones
    if masks is None:
        missing = "zones.required has no effect without a mask: set zones.keep_out or zones.speed"
        return [missing] if section.required else []
    if masks.keep_out is not None and not (masks.keep_out.percent == OCCUPIED).any():
        return [
            f"{section.keep_out}: zones.keep_out forbids no cell: with its mode, negate and "
            "occupied_thresh none is occupied; draw forbidden ground black"
        ]
    return []


def _views(config: Config, mounts: Mounts) -> list[str]:
    """Return a line for each range of heights that the cameras do not see in time (R29 of the limits)."""
    rig, own = build_rigs(config, mounts)
    coverage, footprint, limits = (own or rig).coverage, config.robot.footprint, config.limits
    if coverage is None:
        return []
    most_mps = seen_mps(limits, load_plant(config.robot.plant), footprint, coverage)
    held = f": the robot drives ahead at most at {most_mps:.2f} m/s" if most_mps < limits.v_max_mps else ""
    lines = described(coverage)
    return [f"{mounts.path}: {line}{held}; tilt or move a camera, or add one" for line in lines]


def _heights(config: Config) -> list[str]:
    section = config.limits_scan or config.scan
    if not section.uses_cameras or config.robot.height_m <= config.scan.z_max_m:
        return []
    return [
        f"robot.height_m {config.robot.height_m:g} is above scan.z_max_m {config.scan.z_max_m:g}: objects that "
        f"hang between them are not obstacles; raise scan.z_max_m"
    ]
