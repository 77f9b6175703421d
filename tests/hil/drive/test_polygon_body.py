"""A polygon in the simulated world: contact of its corners, clearance, doors, and turns beside blind flanks."""

from __future__ import annotations

from math import cos, inf, pi, sin, sqrt
from pathlib import Path

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, Simulation, body_of
from hil.physics.free_space import Episode
from onboard.config.config import DEFAULT_ROBOT, Config, LimitsSection, RobotSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import Puppet

PLANT, MOUNTS = load_plant(DEFAULT_ROBOT / "plant.toml"), load_mounts(DEFAULT_ROBOT / "mounts.toml")
LONG = RobotSection(footprint_m=((0.6, 0.25), (0.6, -0.25), (-0.6, -0.25), (-0.6, 0.25)))
ROUND = RobotSection(footprint_radius_m=LONG.footprint.reach_m)
HALL = room(4.0, 4.0)
ABOVE = np.array([[2.0, 2.9, 0.2, 0.0, 1.0, 0.0]])


def door(width_m: float) -> World:
    """Return a room of 10 m x 6 m with a wall across; its door is in the middle."""
    world = with_box(room(10.0, 6.0), (4.9, 5.0), (0.0, 3.0 - width_m / 2), (0.0, 2.0))
    return with_box(world, (4.9, 5.0), (3.0 + width_m / 2, 6.0), (0.0, 2.0))


@pytest.mark.parametrize(("robot", "reaches"), [(LONG, True), (ROUND, False)], ids=["polygon", "circle"])
def test_a_long_robot_drives_through_a_door_that_its_circle_cannot_pass(robot: RobotSection, reaches: bool) -> None:
    config, senses = Config(robot=robot), Senses(drift_scale=0.0, localization_scale=0.0)
    setting = Setting(door(0.7), PLANT, body_of(robot), MOUNTS, config, senses)
    policy = ReactivePolicy(PLANT, robot, config.rates, config.goal)
    outcome = drive_fast(setting, Episode(Pose(2.0, 3.0, 0.0), (8.0, 3.0), 6.0), policy, seed=1, max_s=30.0)
    assert (outcome.reached, outcome.contacts) == (reaches, 0)
    assert outcome.min_clearance_m > 0.05
    assert (outcome.trace[-1, 1] > 4.9) == reaches


TWO_CAMERAS = """
[cameras.{name}]
serial = ""
width = 80
height = 60
fx = 40.0
fy = 40.0
cx = 39.5
cy = 29.5
depth_scale_m = 0.001
translation_m = [{x}, 0.0, 0.5]
look_deg = [{yaw}, 15.0, 0.0]
"""


@pytest.mark.parametrize("ahead_m", [0.9, 1.1])
def test_with_blind_flanks_it_touches_no_door_post_that_it_saw_before(ahead_m: float, tmp_path: Path) -> None:
    """R26. It drives towards a door by drifting wheels, then turns in place, with the posts out of all views."""
    file = tmp_path / "mounts.toml"
    front, rear = TWO_CAMERAS.format(name="front", x=0.55, yaw=0.0), TWO_CAMERAS.format(name="rear", x=-0.55, yaw=180.0)
    file.write_text(front + rear)
    config = Config(robot=LONG, limits=LimitsSection(v_max_mps=0.6))
    setting = Setting(door(0.9), PLANT, body_of(LONG), load_mounts(file), config, Senses())
    forward, turn = ACTIONS.index(Twist(0.3, 0.0)), ACTIONS.index(Twist(0.0, 1.0))
    policy = Puppet(lambda seen: turn if seen.filtered.pose.x_m >= ahead_m else forward)
    outcome = drive_runtime(setting, Episode(Pose(3.55, 3.0, 0.0), (9.0, 3.0), 6.0), policy, 5, True, 20.0)
    assert outcome.path_m > ahead_m
    assert (outcome.contacts, outcome.reached) == (0, False)


#   name                            x    y    yaw      overlaps
PLACES = [
    ("in the middle", 2.0, 2.0, 0.3, False),
    ("beside a wall", 2.0, 0.251, 0.0, False),
    ("across it", 2.0, 0.251, 0.1, True),
    ("in a corner", 0.601, 0.251, pi, False),
    ("the nose in the wall", 3.41, 2.0, 0.0, True),
    ("outside", -1.0, 2.0, 0.0, True),
]


@pytest.mark.parametrize(("x", "y", "yaw", "overlaps"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_it_overlaps_a_wall_by_its_own_shape(x: float, y: float, yaw: float, overlaps: bool) -> None:
    assert Simulation(HALL, PLANT, body_of(LONG)).overlaps(Pose(x, y, yaw)) == overlaps


@pytest.mark.parametrize("yaw", [0.0, 0.4, pi / 2, 2.0, -3.0])
def test_clearance_is_the_distance_of_the_nearest_corner_or_body(yaw: float) -> None:
    simulation = Simulation(HALL, PLANT, body_of(LONG))
    state = simulation.start(Pose(2.0, 2.0, yaw))
    away = [
        max(abs(cos(yaw) * x - sin(yaw) * y), abs(sin(yaw) * x + cos(yaw) * y)) for x, y in LONG.footprint.corners_m
    ]
    assert simulation.clearance_m(state) == pytest.approx(2.0 - max(away), abs=1e-9)
    x, y = sin(yaw) * 0.9, cos(yaw) * 0.9  # of the body above, in the robot's frame
    apart = sqrt(max(abs(x) - 0.6, 0.0) ** 2 + max(abs(y) - 0.25, 0.0) ** 2) - 0.2
    assert simulation.clearance_m(state, ABOVE) == pytest.approx(min(2.0 - max(away), max(apart, 0.0)), abs=1e-9)


def test_turning_in_place_beside_a_wall_its_corner_hits_once_and_the_heading_stays() -> None:
    simulation = Simulation(HALL, PLANT, body_of(LONG))
    state = simulation.start(Pose(2.0, 0.4, 0.0))
    for _ in range(60):
        state = simulation.step(simulation.command(state, Twist(0.0, 1.0)))
    assert state.contacts == 1
    assert 0.0 < state.pose.yaw_rad < np.arcsin(0.4 / 0.65) - np.arctan2(0.25, 0.6) + 1e-9
    assert not simulation.overlaps(state.pose)
    for _ in range(60):
        state = simulation.step(simulation.command(state, Twist(0.0, -1.0)))
    assert state.touched_at is None or state.pose.yaw_rad < 0.0, "it turns away"


def test_a_start_without_room_is_refused_with_the_corners() -> None:
    with pytest.raises(InputError, match=r"body of corners .* does not fit"):
        Simulation(HALL, PLANT, body_of(LONG)).start(Pose(2.0, 0.3, 1.0))


def test_the_body_of_a_circle_is_a_cylinder() -> None:
    assert body_of(ROUND) == Body(0.65, 1.0, ())
    assert body_of(LONG).inner_m == pytest.approx(0.25)
    assert (
        Simulation(HALL, PLANT, Body()).clearance_m(Simulation(HALL, PLANT, Body()).start(Pose(2, 2, 0)), at_most_m=inf)
        < inf
    )
