"""A recording of `mapped` holds its map, and replays to the last bit without the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hil.drive.robot import SimulatedRobot
from hil.physics.collision_world import body_of
from hil.recordings.recording import Session
from hil.replay.recorded_policy import recorded_building
from hil.replay.replay import replay
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import building_of
from onboard.config.config import MapSection, PolicySection
from onboard.recording.recorder import RecordQueue
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.onboard.perception.building.test_reach import saved
from tests.rigs.in_process import InProcess
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Tape, plain_config


def test_a_drive_with_a_map_replays_to_the_last_bit_without_its_file(tmp_path: Path) -> None:
    world = room(4.0, 3.0, cell_m=0.1)
    file = saved(tmp_path, np.where(world.overlapping(0.0, 1.0), 100, 0), origin=[-0.1, -0.1, 0])
    config = plain_config(policy=PolicySection(model="mapped"), map=MapSection(file=file))
    tape = Tape(tmp_path / "drive", config, queue=RecordQueue(100_000, 1e9))
    robot = SimulatedRobot(world, PLANT, body_of(config.robot), MOUNTS, Pose(1.0, 1.5, 0.0))
    policy = policy_maker(config, PLANT, building_of(config))()
    drive = InProcess(config, MOUNTS, PLANT, robot, policy, [tape]).drive_to(Pose(3.0, 1.5, 0.0), limit_s=2.0)
    assert any(tick.sensed and tick.sensed.observation.map_from_start for tick in drive.ticks)
    recording = tape.close()
    file.unlink()
    found = replay(recording)
    assert found.identical
    assert found.decisions > 3


def test_a_damaged_map_is_one_line() -> None:
    session = Session("it", {"map": "{"}, 0, plain_config(), MOUNTS)
    with pytest.raises(InputError, match="it: recorded map: not a map"):
        recorded_building("it", session)
