"""Stand-in for the real robot: a separate process that simulates plant, odometry and cameras in an empty room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hil.drive.robot import Senses, SimulatedRobot
from hil.live.simulator import run_sim
from hil.live.twin.topics import robot_section
from hil.maps.load import load_map
from hil.physics.collision_world import body_of
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose

ROOM = Path(__file__).parent / "data" / "room.json"
"""Map of the room: 5 m x 3 m, with a corner at the origin."""
ROOM_START = Pose(2.5, 1.5, 0.0)
SELDOM = 1_000_000
"""Ticks between two colour images. No process uses colour images of the room."""


def run_physical(
    config: Config,
    room: Path,
    start: Pose,
    drift: float,
    seed: int,
    seconds: float | None,
    ready: Callable[[int], None],
) -> dict[str, Any]:
    """Simulate the robot until a signal, or for `seconds`. Return the true result of its drive, as `truth` does.

    drift: factor on the odometry drift; ready: called with the DDS domain
    The result also has `began_ns`, the wall time of the start [ns].
    Raises InputError if the robot does not fit at its start, and DriverError.
    """
    mounts = load_mounts(config.robot.mounts)
    body = body_of(config.robot)
    senses = Senses(seed=seed, drift_scale=drift, localization=False, color_every=SELDOM)
    robot = SimulatedRobot(load_map(str(room)), load_plant(config.robot.plant), body, mounts, start, senses)
    began_ns = 0

    def begun(domain: int) -> None:
        nonlocal began_ns
        began_ns = wall_ns()
        ready(domain)

    truth = run_sim(robot, mounts, robot_section(config.dds, "odom"), seconds, begun)
    return truth | {"began_ns": began_ns}
