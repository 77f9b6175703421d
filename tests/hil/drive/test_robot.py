"""The simulated robot among others: what its cameras see of them, what touches it, and that the seed decides all."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.robot import Senses, SimulatedRobot
from hil.maps.materials import draw_appearance
from hil.physics.collision_world import Body
from hil.physics.odometry_noise import TRAINING_FIX_PERIOD_S
from hil.scene.walkers import KINDS, Crowd, crowd_of
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import room

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
HALL = room(8.0, 6.0)
START = Pose(1.0, 3.0, 0.0)
PITCH_RAD = math.radians(10.0)
"""Of the front camera, downwards; depth is along its axis."""
CROSSING = [np.array([(4.0, 0.5), (4.0, 5.5)])]
COMING = [np.array([(6.0, 3.0), (1.0, 3.0)])]


def person(ways: list[np.ndarray], speed_mps: float = 1.0) -> Crowd:
    return crowd_of([KINDS["pedestrian"]], [speed_mps], ways)


def robot(senses: Senses | None = None, crowd: Crowd | None = None, **options) -> SimulatedRobot:
    return SimulatedRobot(HALL, PLANT, Body(), MOUNTS, START, senses or Senses(seed=3), crowd, **options)


def live(one: SimulatedRobot, seconds: float, command: Twist | None = None, images: bool = False) -> list:
    sensed = []
    for _ in range(round(30 * seconds)):
        if command is not None:
            one.command(command)
        sensed.append(one.step(images=images))
    return sensed


def front_m(one: SimulatedRobot) -> np.ndarray:
    """Return what the front camera sees [m]."""
    return one.depth(one.glance())["front"] * MOUNTS.depth["front"].depth_scale_m


def test_a_person_who_crosses_is_seen_while_he_is_in_front():
    one = robot(crowd=person(CROSSING))
    empty = front_m(one)
    live(one, 2.5)
    with_person = front_m(one)
    live(one, 2.5)
    changed = with_person != empty
    ahead_m, head_over_camera_m = 4.0 - 0.25 - 1.0 - 0.2, 1.7 - 0.3
    head_m = ahead_m * math.cos(PITCH_RAD) - head_over_camera_m * math.sin(PITCH_RAD)
    assert with_person[changed].min() == pytest.approx(head_m, abs=0.03)
    assert (with_person <= np.where(empty > 0.0, empty, np.inf)).all()
    np.testing.assert_array_equal(front_m(one), empty)


def test_a_person_is_seen_in_colour_and_the_look_changes_the_room():
    empty, peopled, painted = robot(), robot(crowd=person(COMING)), robot(look=draw_appearance(4))
    images = [one.color(one.glance()) for one in (empty, peopled, painted)]
    assert (images[0] != images[1]).any()
    assert (images[0] != images[2]).any()
    assert all(image.shape == (144, 256, 3) for image in images)


def test_driving_into_a_person_is_a_contact_and_touches():
    one = robot(crowd=person(COMING, speed_mps=0.6))
    sensed = live(one, 6.0, Twist(1.0, 0.0))
    assert one.state.contacts >= 1
    assert len(one.trace.contacts) == one.state.contacts
    assert any(row.touching for row in sensed)


def test_nobody_walks_into_a_robot_that_stands():
    one = robot(crowd=person(COMING, speed_mps=1.5))
    live(one, 12.0)
    assert (one.state.contacts, one.state.bumps, one.state.path_m) == (0, 0, 0.0)


def test_noisy_depth_differs_by_seed_camera_and_tick_and_is_about_true():
    one, other = (robot(Senses(seed=seed, depth_noise=True)) for seed in (1, 2))
    true, noisy = robot().depth(robot().glance()), one.depth(one.glance())
    for name, image in true.items():
        both = (image > 0) & (noisy[name] > 0)
        assert 0.5 < both.sum() / (image > 0).sum() < 1.0
        assert np.median(np.abs(noisy[name][both] / image[both] - 1.0)) < 0.03
    later = replace(one.glance(), tick=1)
    assert any((noisy[name] != image).any() for name, image in other.depth(one.glance()).items())
    assert any((noisy[name] != image).any() for name, image in one.depth(later).items())


def test_fixes_come_as_rarely_as_in_training_where_asked():
    counts = [
        sum(sensed.fix is not None for sensed in live(robot(senses), 60.0))
        for senses in (Senses(seed=1), Senses(seed=1, fix_period_s=TRAINING_FIX_PERIOD_S))
    ]
    assert 30 <= counts[0] <= 60
    assert 15 <= counts[1] <= 23
