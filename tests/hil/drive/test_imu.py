"""A simulated skid-steer, whose wheels report turns that the body does not make, with and without its IMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.drive.robot import Senses, SimulatedRobot
from hil.physics.collision_world import body_of
from hil.replay.replay import replay
from onboard.assembly.policies import policy_maker
from onboard.recording.recorder import RecordQueue
from onboard.values.geometry import wrap
from onboard.values.messages import Pose
from tests.rigs.in_process import InProcess
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Tape, plain_config

SLIP, START, GOAL = 0.3, Pose(2.0, 3.0, 0.0), Pose(-1.0, 0.5, 0.0)
"""The goal is behind the robot, in the odometry's frame, whose origin is the start."""


@pytest.mark.parametrize(("imu", "yaw_error_rad"), [("", (0.3, 2.0)), ("/imu", (0.0, 0.2))], ids=["wheels", "imu"])
def test_an_imu_holds_the_heading_of_wheels_that_slip_and_replays_exactly(
    tmp_path: Path, imu: str, yaw_error_rad: tuple[float, float]
) -> None:
    config = plain_config()
    config = config.model_copy(
        update={"odometry": config.odometry.model_copy(update={"imu": imu, "scan_matching": False})}
    )
    senses = Senses(seed=2, drift_scale=0.0, localization=False, wheel_slip=SLIP, imu=bool(imu))
    robot = SimulatedRobot(room(6.0, 6.0, cell_m=0.1), PLANT, body_of(config.robot), MOUNTS, START, senses)
    tape = Tape(tmp_path / "drive", config, queue=RecordQueue(100_000, 1e9))
    drive = InProcess(config, MOUNTS, PLANT, robot, policy_maker(config, PLANT)(), [tape]).drive_to(
        GOAL, frame_id="odom", limit_s=6.0
    )
    believed = drive.ticks[-1].odometry.pose.yaw_rad
    least, most = yaw_error_rad
    assert least <= abs(wrap(believed - robot.state.pose.yaw_rad)) <= most
    found = replay(tape.close())
    assert found.identical
    assert found.decisions > 3
