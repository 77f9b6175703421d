"""Names the required input that is lost, for the state of the drive. Pure."""

from __future__ import annotations

from onboard.config.config import Config, ScanSection
from onboard.navigation.odometry import OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Inputs, Scan
from onboard.values.topic_name import full_name

MS_PER_S = 1000.0


def described(wheels: OdometryState, scan: Scan, policy_scan: Scan, config: Config, inputs: Inputs) -> str:
    """Return the first input that is stale, by R5 and R17 of `limits.py`: which, its age, limit and key; "" if none is.

    scan: of the limits; policy_scan: of the policy
    """
    dds = config.odometry.input == "dds"
    base = config.dds.odometry_topic if dds else config.odometry.serial_port
    scan_ms, now_ns = config.limits.scan_stale_ms, inputs.now_ns
    limits_from, policy_from = (_source(one, config, inputs) for one in (config.own_scan or config.scan, config.scan))
    for name, stamp_ns, limit_ms, key in (
        (f"odometry ({base})", wheels.fresh_ns, config.odometry.stale_ms, "odometry.stale_ms"),
        (f"scan ({limits_from})", _stamp(scan), scan_ms, "limits.scan_stale_ms"),
        (f"scan ({policy_from})", _stamp(policy_scan), scan_ms, "limits.scan_stale_ms"),
    ):
        if stamp_ns is None:
            return f"{name} was never received"
        age_s = (now_ns - stamp_ns) / NS_PER_S
        if abs(age_s) * MS_PER_S > limit_ms:
            return f"{name} is {age_s:.1f} s old (limit {limit_ms:g} ms, {key}): nothing usable is received"
    return ""


def _stamp(scan: Scan) -> int | None:
    return scan.stamp_ns or None


def _source(section: ScanSection, config: Config, inputs: Inputs) -> str:
    """Return where a scan comes from: its topic, or the depth cameras; of both also which of them is silent."""
    if not section.topic:
        return "depth cameras " + ", ".join(section.cameras) if section.cameras else "depth cameras"
    topic, lidar = full_name(config.dds.namespace, section.topic), inputs.scans.get(section.topic)
    source = " and ".join([topic, *section.cameras])
    limit_ns = config.limits.scan_stale_ms * NS_PER_S / MS_PER_S
    silent = [] if lidar is not None and inputs.now_ns - lidar.stamp_ns <= limit_ns else [topic]
    silent += [name for name in section.cameras if name not in inputs.depth]
    return f"{source}; silent: {', '.join(silent)}" if section.cameras and silent else source
