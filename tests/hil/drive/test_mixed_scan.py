"""Lidars and depth cameras in one scan: `scan.cameras` next to `scan.topic` or `scan.lasers`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import CamerasAndLidars
from hil.physics.collision_world import body_of
from hil.replay.replay import replay
from onboard.assembly.in_effect import in_effect
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import build_rigs, lasers_of
from onboard.config.config import CamerasSection, Config, ScanSection
from onboard.navigation.lost_input import described
from onboard.navigation.odometry import OdometryState
from onboard.perception.scan_fusion import NO_SCAN, Rig, ScanMemory
from onboard.recording.recorder import RecordQueue
from onboard.values.errors import ConfigError
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, DepthFrame, Inputs, Pose, Scan
from tests.rigs.in_process import InProcess
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT, Tape, plain_config

MS = 1_000_000
SCAN = ScanSection(topic="lidar", laser=(0.0, 0.0, 0.0), cameras=["front"])
LIDAR = Scan(90 * MS, np.full(BINS, 3.0, np.float32), np.ones(BINS, np.bool_), arrival_ns=100 * MS)


def rig_of(section: ScanSection = SCAN) -> Rig:
    return build_rigs(plain_config(scan=section), MOUNTS)[0]


def inputs(depth_m: float | None, lidar: Scan | None = LIDAR) -> Inputs:
    """Return inputs with a wall across the front camera, None for a lost camera."""
    front = MOUNTS.depth["front"]
    image = np.full((front.height, front.width), 0 if depth_m is None else round(depth_m * 1000), np.uint16)
    depth = {} if depth_m is None else {"front": DepthFrame("front", 1, 80 * MS, image)}
    return Inputs(100 * MS, depth=depth, scans={} if lidar is None else {"lidar": lidar})


def scan_of(rig: Rig, given: Inputs) -> Scan:
    return rig.scan(given, IDENTITY, ScanMemory())[0]


def test_the_nearest_of_both_counts_and_the_older_stamp() -> None:
    rig = rig_of()
    scan = scan_of(rig, inputs(1.0))
    looks = rig.looks
    assert looks.any()
    assert not looks.all()
    assert (scan.ranges_m[looks] <= 3.0).all()
    assert (scan.ranges_m[looks] < 2.5).sum() > 5
    assert (scan.ranges_m[~looks] == 3.0).all()
    assert scan.seen.all()
    assert scan.stamp_ns == 80 * MS
    assert scan.from_m is not None
    assert (scan.from_m[~looks] == 0.0).all()
    assert (scan.from_m[looks] > 0.0).all()


def test_a_lost_camera_makes_the_whole_scan_stale() -> None:
    """The lidar alone does not see what is lower than its plane."""
    rig = rig_of(SCAN.model_copy(update={"cameras": ["front", "rear"]}))
    given = inputs(1.0)
    both = replace(given, depth={**given.depth, "rear": replace(given.depth["front"], camera="rear", stamp_ns=70 * MS)})
    scan, memory = rig.scan(both, IDENTITY, ScanMemory())
    assert scan.stamp_ns == 70 * MS
    later, memory = rig.scan(replace(given, now_ns=900 * MS), IDENTITY, memory)
    assert later.stamp_ns == 70 * MS
    assert rig.scan(both, IDENTITY, ScanMemory())[0].stamp_ns == 70 * MS
    assert scan_of(rig, inputs(None)).stamp_ns == NO_SCAN.stamp_ns


def test_a_silent_lidar_makes_the_whole_scan_stale() -> None:
    rig = rig_of()
    assert scan_of(rig, inputs(1.0, None)).stamp_ns == NO_SCAN.stamp_ns
    assert scan_of(rig, inputs(1.0, replace(LIDAR, stamp_ns=10 * MS))).stamp_ns == 10 * MS


def test_the_state_names_which_of_lidar_and_camera_is_silent() -> None:
    config, whole = plain_config(scan=SCAN), replace(inputs(1.0), now_ns=300 * MS)
    for given, silent in (
        (replace(whole, depth={}), "silent: front"),
        (replace(whole, scans={}), "silent: /lidar"),
        (replace(whole, now_ns=900 * MS, depth={}), "silent: /lidar, front"),
    ):
        wheels = OdometryState(fresh_ns=given.now_ns)
        assert f"scan (/lidar and front; {silent}) was never" in described(wheels, NO_SCAN, NO_SCAN, config, given)


def test_without_names_a_lidar_is_alone() -> None:
    assert scan_of(rig_of(SCAN.model_copy(update={"cameras": []})), inputs(1.0)) is LIDAR


def test_a_named_camera_needs_a_source() -> None:
    config = plain_config(scan=SCAN, cameras=CamerasSection(source="none"))
    with pytest.raises(ConfigError, match=r"scan\.cameras: front has no source"):
        build_rigs(config, MOUNTS)
    assert in_effect(Config(scan=SCAN))["cameras"].startswith("ready-made scan on /lidar")
    assert "+ front (dds)" in in_effect(Config(scan=SCAN))["cameras"]


def test_a_drive_past_a_box_that_only_the_camera_sees_replays_exactly(tmp_path: Path) -> None:
    """The box ends below the lidar's plane."""
    section = SCAN.model_copy(update={"topic": "", "laser": None, "lasers": {"/lidar": (0.0, 0.0, 0.4, 0.0, 0.0, 0.0)}})
    section = ScanSection.model_validate(section.model_dump())
    config = plain_config(scan=section)
    world = with_box(room(6.0, 4.0, cell_m=0.1), (2.6, 3.0), (1.4, 2.6), (0.0, 0.2))
    lasers = lasers_of(config)
    robot = SimulatedRobot(
        world, PLANT, body_of(config.robot), MOUNTS, Pose(1.2, 2.0, 0.0), Senses(seed=1), lasers=lasers
    )
    tape = Tape(tmp_path / "drive", config, queue=RecordQueue(100_000, 1e9))
    whole = InProcess(config, MOUNTS, PLANT, robot, policy_maker(config, PLANT)(), [tape])
    whole.inbox._sensors = CamerasAndLidars(robot, lasers, color=False, together=["/lidar"])
    drive = whole.drive_to(Pose(3.5, 2.0, 0.0), limit_s=2.5)
    assert robot.state.contacts == 0
    ahead = BINS // 2
    nearest = min(float(tick.scan.ranges_m[ahead]) for tick in drive.ticks if tick.sensed is not None)
    assert nearest < 1.5
    found = replay(tape.close())
    assert found.identical, found
    assert found.fused > 3
