"""A map from scans and drifting wheels: loops are closed, map_server reads the map, and bad input is one line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hil.commands.drive.build_map import map_command
from hil.recordings.mapping.build import build, write
from hil.recordings.mapping.keyframes import Sample, keyframes
from hil.recordings.mapping.pose_graph import Edge, optimized
from hil.sensors.direct_scan import direct_scan
from onboard.config.config import Config
from onboard.perception.building.occupancy_grid import load_building
from onboard.perception.building.reach import reach_in
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, between, compose, distance, wrap
from onboard.values.messages import Pose
from tests.rigs.rooms import drawn
from tests.rigs.runtime_bench import MOUNTS

RING = drawn(
    """
    ####################
    #..................#
    #..#.............#.#
    #..................#
    #....##########....#
    #....##########....#
    #....##########....#
    #..................#
    #.#................#
    #...............#..#
    ####################
    """,
    0.5,
)


def ring(laps: float) -> list[Pose]:
    """Return true poses every 0.15 m around the block."""
    corners = [(1.3, 1.3), (8.2, 1.3), (8.2, 3.7), (1.3, 3.7)]
    poses = []
    for side in range(round(4 * laps)):
        (ax, ay), (bx, by) = corners[side % 4], corners[(side + 1) % 4]
        way, yaw = math.hypot(bx - ax, by - ay), math.atan2(by - ay, bx - ax)
        poses += [Pose(ax + (bx - ax) * s / way, ay + (by - ay) * s / way, yaw) for s in np.arange(0.0, way, 0.15)]
    return poses


def samples(true: list[Pose]) -> list[Sample]:
    """Return scans with wheels that are 3 % too long and turn too far."""
    sight, odom, kept = direct_scan(RING, MOUNTS, Config().scan, "lidar"), IDENTITY, []
    for before, pose in zip([true[0], *true], true, strict=False):
        step = between(before, pose)
        odom = compose(odom, Pose(1.03 * step.x_m, step.y_m, wrap(1.01 * step.yaw_rad + 0.004 * abs(step.x_m))))
        kept.append(Sample(odom, np.asarray(sight.ranges(pose), np.float32)))
    return kept


def test_a_loop_is_closed_and_the_map_is_read_again(tmp_path: Path) -> None:
    true = ring(1.5)
    taken = samples(true)
    frames = keyframes(taken)
    made = build(frames)
    assert made.closures
    assert made.unsure < 5
    numbers = [next(n for n, one in enumerate(taken) if one.ranges_m is frame.ranges_m) for frame in frames]
    off_m = [distance(compose(true[0], pose), true[n]) for pose, n in zip(made.poses, numbers, strict=True)]
    by_wheels_m = distance(compose(true[0], taken[-1].odom), true[-1])
    assert max(off_m) < 0.25 < by_wheels_m
    file, image, picture = write(made, tmp_path / "map.yaml")
    read = load_building(file)
    np.testing.assert_array_equal(read.percent, made.grid.percent)
    assert image.exists()
    assert picture.exists()
    reach = reach_in(read, 0.1)
    ahead = between(true[0], Pose(8.2, 3.7, 0.0))
    assert reach.part_at((0.0, 0.0)) == reach.part_at((ahead.x_m, ahead.y_m)) != 0


def test_a_wrong_closure_does_not_bend_the_graph() -> None:
    poses = [Pose(float(n), 0.0, 0.0) for n in range(30)]
    sure = np.diag([1e4, 1e4, 1e4])
    chain = [Edge(n, n + 1, Pose(1.0, 0.0, 0.0), sure) for n in range(29)]
    wrong = Edge(2, 25, Pose(20.0, 4.0, 0.3), sure, closure=True)
    right = [Edge(n, n + 20, Pose(20.0, 0.0, 0.0), sure, closure=True) for n in range(5)]
    found = optimized(poses, [*chain, *right, wrong])
    assert max(distance(a, b) for a, b in zip(found, poses, strict=True)) < 0.15


def test_a_drive_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was the robot driven"):
        build(keyframes(samples(ring(1.5)[:1])))
    for out, line in ((tmp_path / "map.pgm", r"must end in \.yaml"), (tmp_path / "no" / "map.yaml", "no folder")):
        with pytest.raises(InputError, match=line):
            map_command([str(tmp_path)], out)
    with pytest.raises(InputError, match="no recording there"):
        map_command([str(tmp_path)], tmp_path / "map.yaml")
