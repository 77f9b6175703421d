"""What moves: a person's velocity by two scans; walls, posts and what comes out from behind them have none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies
from hil.sensors.depth_noise import noisy_scan
from hil.sensors.direct_scan import cast_scan
from onboard.safety.moving import KEPT_S, NOTHING, Moving, advance, meeting, reached
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, Pose, Scan, Twist
from tests.rigs.rooms import room, with_box

PERIOD_S = 1.0 / 3.0
ROOM = room(9.0, 9.0)
POSTS = with_box(with_box(ROOM, (5.0, 5.2), (4.0, 4.2), (0.0, 1.5)), (4.0, 4.5), (6.5, 8.0), (0.0, 1.5))
SEEN = np.ones(BINS, np.bool_)


def person(x_m: float, y_m: float) -> Bodies:
    return np.array([[x_m, y_m, 0.25, 0.0, 1.7, 0.0]])


def scan(number: int, pose: Pose, bodies: Bodies = NO_BODIES, world: World = ROOM, seed: int | None = None) -> Scan:
    ranges_m = cast_scan(world, pose, bodies=bodies)
    noisy = ranges_m if seed is None else noisy_scan(ranges_m, seed, number)
    return Scan(NS_PER_S + round(number * PERIOD_S * NS_PER_S), noisy, SEEN)


def seen(poses: list[Pose], bodies: list[Bodies], world: World = ROOM, seed: int | None = None) -> Moving:
    moving = Moving()
    for number, (pose, there) in enumerate(zip(poses, bodies, strict=True)):
        moving = advance(moving, scan(number, pose, there, world, seed), pose)
    return moving


#   walks from     velocity     robot's twist
WALKS = [
    ((6.0, 2.5), (0.0, 1.0), (0.0, 0.0)),
    ((6.0, 2.5), (0.0, 1.0), (0.7, 0.0)),
    ((6.5, 4.5), (-1.0, 0.0), (0.7, 0.0)),
    ((4.0, 2.5), (0.7, 0.7), (0.7, 1.0)),
    ((6.5, 6.5), (-0.5, -1.2), (0.0, 1.0)),
]


@pytest.mark.parametrize(("begin", "velocity", "twist"), WALKS)
@pytest.mark.parametrize("seed", [None, 1])
def test_a_person_has_the_velocity_of_his_walk(
    begin: tuple[float, float], velocity: tuple[float, float], twist: tuple[float, float], seed: int | None
) -> None:
    times = [number * PERIOD_S for number in range(3)]
    poses = [Pose(3.0 + twist[0] * at, 4.5, twist[1] * at) for at in times]
    moving = seen(poses, [person(begin[0] + velocity[0] * at, begin[1] + velocity[1] * at) for at in times], seed=seed)
    assert len(moving.places_m) >= 3
    assert np.median(moving.velocity_mps, axis=0) == pytest.approx(velocity, abs=0.35)


def test_a_person_who_walks_along_a_wall_moves() -> None:
    wall = with_box(ROOM, (6.3, 6.5), (1.0, 8.0), (0.0, 1.5))
    people = [person(6.0, 3.6 + PERIOD_S * number) for number in range(2)]
    moving = seen([Pose(4.7, 4.5, 0.0)] * 2, people, wall)
    assert len(moving.places_m) >= 3
    assert moving.velocity_mps[0, 1] > 0.5


@pytest.mark.parametrize("twist", [(0.0, 0.0), (1.0, 0.0), (0.6, 1.0), (0.0, 2.0)])
@pytest.mark.parametrize("seed", [None, *range(5)])
def test_nothing_moves_in_a_room_that_the_robot_drives_through(twist: tuple[float, float], seed: int | None) -> None:
    times = [number * PERIOD_S for number in range(4)]
    poses = [Pose(2.5 + twist[0] * at, 4.5, twist[1] * at) for at in times]
    assert len(seen(poses, [NO_BODIES] * 4, POSTS, seed).places_m) == 0


@pytest.mark.parametrize("world", [ROOM, with_box(ROOM, (6.3, 6.5), (1.0, 8.0), (0.0, 1.5))])
def test_a_person_who_steps_out_is_known_after_a_few_images(world: World) -> None:
    """At 10 Hz, also before a wall; by the scans of successive decisions it took 0.7 s."""
    pose, moving, known_s = Pose(4.0, 4.5, 0.0), Moving(), []
    for number in range(20):
        walked_s = 0.1 * number - 1.0
        bodies = person(6.0, 3.5 + walked_s) if walked_s >= 0.0 else NO_BODIES
        image = replace(scan(0, pose, bodies, world), stamp_ns=NS_PER_S + number * NS_PER_S // 10)
        moving = advance(moving, image, pose)
        if len(reached(moving, pose, image.stamp_ns)) > 0:
            known_s.append(walked_s)
            assert moving.velocity_mps[-1] == pytest.approx([0.0, 1.0], abs=0.4)
    assert known_s[0] <= 0.4


def test_a_person_who_stands_does_not_move() -> None:
    poses = [Pose(3.0 + 0.3 * number, 4.5, 0.0) for number in range(3)]
    assert len(seen(poses, [person(6.0, 4.0)] * 3).places_m) == 0


def test_scans_of_less_than_a_step_are_not_compared() -> None:
    first = advance(Moving(), scan(0, Pose(3.0, 4.5, 0.0)), Pose(3.0, 4.5, 0.0))
    soon = replace(scan(0, Pose(3.0, 4.5, 0.0)), stamp_ns=first.past[-1].stamp_ns + NS_PER_S // 20)
    assert advance(first, soon, Pose(3.0, 4.5, 0.0)) is first


def test_a_motion_goes_on_from_its_scan_and_is_forgotten() -> None:
    still, at = Pose(0.0, 0.0, 0.0), np.array([NS_PER_S])
    moving = Moving((), np.array([[2.0, -1.0]]), np.array([[0.0, 1.0]]), at)
    points = reached(moving, still, NS_PER_S + NS_PER_S // 10)
    assert points[0] == pytest.approx([2.0, -0.9, 0.0])
    assert points[10] == pytest.approx([2.0, 0.1, 1.0])
    turned = reached(moving, Pose(2.0, 0.0, math.pi / 2.0), NS_PER_S)
    assert turned[10] == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)
    assert reached(moving, still, NS_PER_S + round((KEPT_S + 0.1) * NS_PER_S)) is NOTHING


#   twist                point and time      meets
MEETINGS = [
    (Twist(0.5, 0.0), (1.0, 0.0, 2.0), True),
    (Twist(0.5, 0.0), (1.0, 0.0, 0.2), False),  # it has passed before the robot comes
    (Twist(0.5, 0.0), (0.2, 0.0, 2.0), False),  # the robot has left before it comes
    (Twist(0.5, 0.0), (1.0, 0.5, 2.0), False),
    (Twist(0.5, 0.0), (-1.0, 0.0, 0.0), False),
    (Twist(-0.5, 0.0), (-1.0, 0.0, 2.0), True),
    (Twist(0.5, 0.5), (1.0, 1.0, 3.0), True),
    (Twist(0.5, -0.5), (1.0, -1.0, 3.0), True),
    (Twist(0.5, 0.5), (1.0, -1.0, 3.0), False),
]


@pytest.mark.parametrize(("twist", "point", "meets"), MEETINGS)
def test_a_point_is_met_where_both_are_at_a_time(twist: Twist, point: tuple[float, float, float], meets: bool) -> None:
    assert (len(meeting(np.array([point]), twist, 0.3)) == 1) is meets
