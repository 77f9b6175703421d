"""What stands about the goal: enclosed or not, by rings of points, and by drives about a box in our own world."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode
from onboard.config.config import GoalSection, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.navigation import mission as m
from onboard.navigation.goal_place import JUDGED_M, Ring, is_enclosed, ring_after
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.values.messages import BINS, Pose, Scan
from tests.rigs.rooms import room, with_box

RADIUS_M = 0.25
AWAY = (2.0, 0.0)


def circle(radius_m: float, *without_deg: tuple[float, float], step_deg: float = 10.0) -> Ring:
    """Return points about the goal, but for those at bearings between two."""
    degrees = np.arange(-175.0, 180.0, step_deg)
    left = [one for one in degrees if not any(low < one < high for low, high in without_deg)]
    return tuple((radius_m * math.cos(math.radians(one)), radius_m * math.sin(math.radians(one))) for one in left)


#   what                                        ring                                    robot's place   enclosed
RINGS: list[tuple[str, Ring, tuple[float, float], bool]] = [
    ("all around",                              circle(0.6),                            AWAY,           True),
    ("a gap that is too narrow",                circle(0.6, (-10.0, 10.0)),             AWAY,           True),
    ("a gap that the robot fits",               circle(0.6, (-30.0, 30.0)),             AWAY,           False),
    ("a gap on the far side",                   circle(0.6, (120.0, 180.0)),            AWAY,           False),
    ("the robot is inside",                     circle(1.1),                            (0.6, 0.0),     False),
    ("nothing",                                 (),                                     AWAY,           False),
    ("a post",                                  ((0.3, 0.0),),                          AWAY,           False),
    ("a wall beside the goal",                  tuple((0.3, y / 10) for y in range(-9, 10)), AWAY,      False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "ring", "off_m", "enclosed"), RINGS, ids=[row[0] for row in RINGS])
def test_a_ring_without_a_gap_for_the_robot_encloses_the_goal(
    what: str, ring: Ring, off_m: tuple[float, float], enclosed: bool
) -> None:
    assert is_enclosed(ring, off_m, RADIUS_M) is enclosed


def test_a_scan_that_sees_past_a_point_drops_it() -> None:
    ring: Ring = ((0.5, 0.1), (-0.5, 0.0))
    scan = Scan(1, np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_))
    assert ring_after(ring, scan, Pose(0.0, 0.0, 0.0), (2.0, 0.0)) == ()
    assert ring_after(ring, replace(scan, seen=~scan.seen), Pose(0.0, 0.0, 0.0), (2.0, 0.0)) == ring


def test_from_afar_a_goal_is_never_occupied() -> None:
    """The floor before a robot that is tilted by half a degree is an obstacle 6 m ahead."""
    ranges_m = np.full(BINS, np.inf, np.float32)
    ranges_m[BINS // 2 - 2 : BINS // 2 + 2] = 5.8
    scan = Scan(1, ranges_m, np.ones(BINS, np.bool_))
    mission = m.accept(m.Mission(), (5.8, 0.0), 0)
    for x_m, driving in ((0.0, True), (5.8 - JUDGED_M + 0.1, False)):
        seen = replace(scan, ranges_m=ranges_m - np.float32(x_m))
        for _ in range(20):
            mission = m.look_at_goal(mission, seen, Pose(x_m, 0.0, 0.0), RADIUS_M, GoalSection(), 1.0 / 3.0)
        assert mission.driving is driving


def test_a_goal_inside_a_box_ends_the_drive_within_ten_seconds() -> None:
    config = load_config(None)
    plant, mounts = load_plant(config.robot.plant), load_mounts(config.robot.mounts)
    world = with_box(room(8.0, 6.0), (4.6, 5.4), (2.6, 3.4), (0.0, 0.8))
    setting = Setting(world, plant, body_of(config.robot), mounts, config, Senses())
    policy = ReactivePolicy(plant, config.robot, config.rates, config.goal)
    outcome = drive_fast(setting, Episode(Pose(1.5, 2.5, 0.0), (5.0, 3.0), 4.0), policy, 1, max_s=60.0)
    away_m = np.hypot(*(outcome.trace[:, 1:3] - [5.0, 3.0]).T)
    looked_s = outcome.time_s - outcome.trace[np.argmax(away_m < JUDGED_M), 0]
    assert "goal cannot be reached" in outcome.ended
    assert looked_s < 10.0
    assert outcome.contacts == 0
