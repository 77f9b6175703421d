"""What a decision senses and fuses with a mix of sensors, compared with four cameras alone, in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hil.recordings.bags.drive import BagWire
from hil.recordings.recording import TopicMessage
from onboard.assembly.inbox import dds_inputs_of
from onboard.config.config import DEFAULT_ROBOT, LIDARS, Config, ScanSection
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.ros_convert import header, ros_cloud, ros_imu, ros_odometry
from onboard.drivers.dds.ros_types import LaserScan
from onboard.drivers.dds.topics import imu_source, scan_source
from onboard.perception.scan_fusion import ScanMemory, build_rig, fuse, mixed
from onboard.values.geometry import IDENTITY
from onboard.values.messages import DepthFrame, Twist
from tests.onboard.perception.test_point_cloud import replaced

POSES = {"/front": (0.2, 0, 0.3, 0, 0, 0), "/rear": (-0.2, 0, 0.3, 180, 0, 180), "/points": (0, 0, 0.5, 0, 0, 0)}
PERIOD_NS, STAMP_NS = 100_000_000, 1_700_000_000 * 10**9
DECISIONS, MOST_RATIO = 60, 2.0


def messages(points_m: np.ndarray, ranges_m: list[float]) -> list[TopicMessage]:
    """Return two lidars of 1,081 rays and a cloud at 10 Hz, an IMU at 100 Hz, odometry; all of a period at once."""
    found: list[tuple[str, int, Any]] = []
    for number in range(1, DECISIONS + 1):
        at_ns = number * PERIOD_NS
        stamp_ns = STAMP_NS + at_ns
        for name in ("/front", "/rear"):
            sample = LaserScan(header(stamp_ns, "laser"), -2.35, 2.35, 4.7 / 1080, 1e-5, 0.05, 0.06, 30.0, ranges_m)
            found.append((scan_source(name).name, at_ns, sample))
        found.append((scan_source("/points", True).name, at_ns, ros_cloud(stamp_ns, "velodyne", points_m)))
        steps = [stamp_ns + step * PERIOD_NS // 10 for step in range(10)]
        found += [(imu_source("/imu").name, at_ns, ros_imu(step_ns, "imu", 0.1)) for step_ns in steps]
        moving = Twist(0.2, 0.1)
        found += [
            ("odom", at_ns, ros_odometry(step_ns, "odom", "base_link", IDENTITY, moving)) for step_ns in steps[::3]
        ]
    return [TopicMessage(*one) for one in found]


def test_a_mix_costs_little_more_than_four_cameras() -> None:
    front, random = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"], np.random.default_rng(0)
    views = {f"camera{n}": replaced(front, f"camera{n}", 90.0 * n) for n in range(4)}
    mounts = Mounts(DEFAULT_ROBOT, views, {})
    scan = {"lasers": POSES, "clouds": ["/points"], "cameras": list(views)}
    config = Config.model_validate({"scan": scan, "odometry": {"imu": "/imu", "imu_rpy_deg": (0, 0, 0)}})
    alone, both = build_rig(mounts, ScanSection()), build_rig(mounts, config.scan)
    points_m, ranges_m = random.normal(0.0, 3.0, (30_000, 3)).astype(np.float32), (3.0 + random.random(1081)).tolist()
    wire = BagWire(config.dds, iter(messages(points_m, ranges_m)))
    inputs = dds_inputs_of(config, wire)
    depth = {name: (1000 + random.integers(0, 3000, (480, 848))).astype(np.uint16) for name in views}

    def cameras(frames: dict[str, DepthFrame], now_ns: int) -> None:
        fuse(frames, now_ns, IDENTITY, ScanMemory(), alone)

    def mix(frames: dict[str, DepthFrame], now_ns: int) -> None:
        wire.advance(now_ns)
        taken = inputs.take(now_ns)
        assert (len(taken.imu), taken.scans[LIDARS].arrival_ns) == (10, now_ns)
        mixed(taken.scans[LIDARS], fuse(frames, now_ns, IDENTITY, ScanMemory(), both)[0], both)

    spent_s: dict[Callable[..., None], list[float]] = {cameras: [], mix: []}
    for number in range(1, DECISIONS + 1):
        frames = {name: DepthFrame(name, number, number * PERIOD_NS, image) for name, image in depth.items()}
        for work in (cameras, mix) if number % 2 else (mix, cameras):
            began_s = time.process_time()
            work(frames, number * PERIOD_NS)
            spent_s[work].append(time.process_time() - began_s)
    p50, p99 = (
        {work.__name__: 1e3 * float(np.quantile(spent_s[work][5:], share)) for work in spent_s} for share in (0.5, 0.99)
    )
    for name, ms in (("median", p50), ("p99", p99)):
        print(f"{name}: cameras {ms['cameras']:.1f} ms, mix {ms['mix']:.1f} ms, {ms['mix'] / ms['cameras']:.2f} times")
    assert p50["mix"] < MOST_RATIO * p50["cameras"]
