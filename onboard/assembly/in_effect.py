"""What drives, for an operator: policy, cameras, wire, limits and what is off, each in a line."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onboard.assembly.policies import WITHOUT_MODEL
from onboard.assembly.robot import build_rigs
from onboard.config.config import LIDARS, Config, ScanSource
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.topics import domain_id, imu_source, ros_topic, scan_source
from onboard.perception import collision
from onboard.perception.scan_fusion import Rig
from onboard.safety.limits import SLOW_FRACTION
from onboard.safety.looking import turn_to_see
from onboard.values.messages import BINS, Scan, Twist


def in_effect(config: Config) -> dict[str, str]:
    """Return a line for each of policy, cameras, wire, limits and off. Raises ConfigError for the files it reads."""
    rates, policy, limits, goal = config.rates, config.policy, config.limits, config.goal
    engine = "" if policy.model in WITHOUT_MODEL else f" on {policy.engine}"
    hz = rates.control_hz / rates.ticks_per_decision
    late_ms = 1e3 * rates.delay_ticks / rates.control_hz
    return {
        "policy": f"{policy.name}{engine}, {hz:g} decisions/s, each acts after {late_ms:.0f} ms",
        "cameras": _cameras(config),
        "wire": _wire(config),
        "limits": f"{limits.v_min_mps:g} to {limits.v_max_mps:g} m/s, {limits.w_max_radps:g} rad/s, "
        f"{_footprint(config)}, {limits.stop_margin_m:g} m to obstacles; goals within {goal.tolerance_m:g} m"
        f"{f' with confidence {goal.arrival_confidence:g}' if goal.arrival_confidence else ''}"
        f"{_blind(config)}",
        "off": "; ".join(_off(config)) or "nothing",
    }


def in_effect_text(config: Config) -> str:
    """Return the five lines."""
    return "".join(f"{name:8} {line}\n" for name, line in in_effect(config).items())


def ahead_mps(config: Config) -> float:
    """Return the highest speed straight ahead that the limits allow with these cameras (R12); 0 if they allow none.

    A robot that must turn to look is slower on the whole.
    """
    policy_rig, own_rig = build_rigs(config, load_mounts(config.robot.mounts))
    rig, limits = own_rig or policy_rig, config.limits
    if rig.section.topic:
        return limits.v_max_mps
    view = _look_ahead(rig)
    if view is collision.SectorView.SEEN:
        return limits.v_max_mps
    drives = view is collision.SectorView.FLANK_BLIND or _turns_to_look(rig, config)
    return SLOW_FRACTION * limits.v_max_mps if drives else 0.0


def _turns_to_look(rig: Rig, config: Config) -> bool:
    """Return whether a robot without a view ahead can turn to look there, and drive over what it saw."""
    return config.limits.ground_s > 0.0 and turn_to_see(rig.looks) is not None


def _look_ahead(rig: Rig) -> collision.SectorView:
    return collision.view_sector(Scan(0, np.full(BINS, np.inf, np.float32), rig.looks), Twist(1.0, 0.0), 0.0)


def _blind(config: Config) -> str:
    """Return how blind sectors slow the robot ahead (R12 of `onboard/safety/limits.py`) and a polygon's turn (R26)."""
    policy_rig, own_rig = build_rigs(config, load_mounts(config.robot.mounts))
    rig, limits, footprint = own_rig or policy_rig, config.limits, config.robot.footprint
    if rig.section.topic or rig.looks.all():
        return ""
    sectors = ", ".join(f"{low:g} to {high:g}" for low, high in collision.blind_sectors_deg(rig.looks))
    view = _look_ahead(rig)
    slow_mps = SLOW_FRACTION * limits.v_max_mps
    effects = []
    if view is not collision.SectorView.SEEN:
        flank = view is collision.SectorView.FLANK_BLIND
        speed = f"at most {slow_mps:g} m/s" if flank or _turns_to_look(rig, config) else "not at all"
        where = "" if flank or speed == "not at all" else ", over ground that it turned to look at"
        side_deg = math.degrees(collision.FLANK_RAD if flank else collision.AHEAD_RAD)
        effects.append(f"ahead {speed}{where}; a full view ahead needs {-side_deg:.0f} to {side_deg:.0f} deg")
    if not footprint.is_round:
        turn_radps = min(SLOW_FRACTION * limits.w_max_radps, slow_mps / footprint.reach_m)
        effects.append(f"turns in place at most {turn_radps:.2g} rad/s, and a corner can hit what no camera has seen")
    return f"; no camera sees {sectors} deg: {'; '.join(effects)}" if effects else ""


def _footprint(config: Config) -> str:
    robot = config.robot.model_dump()
    corners = robot.get("footprint_m")
    return f"polygon of {len(corners)} corners" if corners else f"circle of {robot['footprint_radius_m']:g} m"


def _cameras(config: Config) -> str:
    section = config.cameras
    more = f"; colour over {section.color}" if section.color != "none" else ""
    more += "; scans correct the wheel odometry" if config.odometry.scan_matching else ""
    imu = config.odometry.imu
    more += f"; turn rate of the wheels and of the IMU on {ros_topic(config.dds, imu_source(imu))}" if imu else ""
    own = config.limits_scan
    limits = "" if own is None else f"; for the limits {_sources(config, own)}"
    guard = own or config.scan
    plane = guard.topic and not guard.uses_cameras and not any(guard.sources.values())
    more += "; nothing below or above the lidar's plane is seen, and the robot can hit it" if plane else ""
    return f"{_sources(config, config.scan)}{limits}{more}"


def _sources(config: Config, section: ScanSource) -> str:
    """Return the sources of a scan: the lidar with its pose, or the cameras."""
    if section.topic:
        cameras = "".join(f" + {name} ({config.cameras.source_of(name)})" for name in section.cameras)
        if section.topic == LIDARS:
            lidars = ", ".join(ros_topic(config.dds, scan_source(name)) for name in section.sources)
            return f"lidars fused: {lidars}{cameras}"
        pose = section.laser or config.scan.laser
        where = "in the base frame" if pose is None else f"at x {pose[0]:g} m, y {pose[1]:g} m, yaw {pose[2]:g} deg"
        return f"ready-made scan on {ros_topic(config.dds, scan_source(section.topic))}, {where}{cameras}"
    names = section.cameras or list(load_mounts(config.robot.mounts).depth)
    return ", ".join(f"{name} ({config.cameras.source_of(name)})" for name in names)


def _wire(config: Config) -> str:
    dds = config.dds
    kind = "TwistStamped" if dds.stamped_cmd_vel else "Twist"
    serial = config.odometry.input == "serial"
    base = f"base on {config.odometry.serial_port}" if serial else f"{ros_topic(dds, 'cmd_vel')} as {kind}"
    scan = "" if "scan" not in dds.remap else f"; its own scan on {ros_topic(dds, 'scan')}"
    return f"DDS domain {domain_id(dds)} on {dds.interface}; {base}; goals on {ros_topic(dds, 'goal_pose')}{scan}"


def _off(config: Config) -> Iterator[str]:
    """Yield each protection that the configuration leaves off."""
    off = {
        "colour": config.cameras.color == "none",
        "scan (no depth camera, no scan.topic): the robot sees nothing": _sees_nothing(config),
        "stairs (scan.drop_m)": config.scan.drop_m == 0.0 and (config.scan.uses_cameras or bool(config.scan.clouds)),
        "zones": config.zones.keep_out is None and config.zones.speed is None,
        "required e-stop": not config.dds.e_stop_required,
        "DDS Security": config.dds.security is None,
        "memory of obstacles (limits.remember_s)": config.limits.remember_s == 0.0,
        "frozen cameras (cameras.unchanged_m)": config.cameras.unchanged_m == 0.0,
        "recording": not config.record.enabled,
    }
    yield from (name for name, is_off in off.items() if is_off)


def _sees_nothing(config: Config) -> bool:
    names = config.scan.cameras or load_mounts(config.robot.mounts).depth
    return not config.scan.topic and all(config.cameras.source_of(name) == "none" for name in names)
