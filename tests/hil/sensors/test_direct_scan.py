"""The direct scan: its bins, height band and range limit."""

from __future__ import annotations

import numpy as np
import pytest

from hil.sensors.direct_scan import LIDAR_HEIGHT_M, direct_scan, looked_at
from onboard.config.config import ScanSection
from onboard.perception.scan_fusion import build_rig
from onboard.values.messages import BINS, Pose
from tests.rigs.rooms import body_row, room, with_box
from tests.rigs.runtime_bench import MOUNTS

WORLD = with_box(room(8.0, 6.0), (6.0, 6.3), (2.0, 4.0), (0.4, 0.8))
POSE = Pose(4.0, 3.0, 0.0)
AHEAD = BINS // 2


def test_seen_bins_equal_those_of_the_fusion():
    rig = build_rig(MOUNTS, ScanSection())
    everyone = np.logical_or.reduce([view.looks for view in rig.views.values()])
    np.testing.assert_array_equal(looked_at(MOUNTS, ScanSection()), everyone)
    front = ScanSection(cameras=["front"])
    np.testing.assert_array_equal(looked_at(MOUNTS, front), rig.views["front"].looks)


@pytest.mark.parametrize(("z", "ahead_m"), [((0.1, 0.3), 2.0), ((0.4, 0.8), 4.0)], ids=["in its plane", "above it"])
def test_a_lidar_sees_one_plane_all_around(z, ahead_m):
    world = with_box(room(8.0, 6.0), (6.0, 6.3), (2.0, 4.0), z)
    scan = direct_scan(world, MOUNTS, ScanSection(), "lidar")
    assert z[0] <= LIDAR_HEIGHT_M <= z[1] or ahead_m == 4.0
    assert scan.seen.all()
    assert scan.ranges(POSE)[AHEAD] == pytest.approx(ahead_m, abs=1e-3)


def test_a_lidar_next_to_cameras_sees_what_either_sees():
    """The box is above the lidar's plane; behind the robot, where no camera of this robot looks, is only the lidar."""
    section = ScanSection(topic="/laser", cameras=["front"])
    both, cameras = (direct_scan(WORLD, MOUNTS, one, "fused") for one in (section, ScanSection(cameras=["front"])))
    lidar = direct_scan(WORLD, MOUNTS, ScanSection(topic="/laser"), "lidar")
    assert both.seen.all()
    assert not cameras.seen.all()
    ranges_m = both.ranges(POSE)
    np.testing.assert_array_equal(ranges_m, np.minimum(cameras.ranges(POSE), lidar.ranges(POSE)))
    assert ranges_m[AHEAD] == pytest.approx(2.0, abs=1e-3)
    assert ranges_m[0] == pytest.approx(4.0, abs=1e-2)


def test_the_scan_sees_moving_bodies():
    scan = direct_scan(room(8.0, 6.0), MOUNTS, ScanSection(), "fused")
    person = body_row((5.5, 3.0), 0.25, 1.7, 0)[None]
    assert scan.ranges(POSE, person)[AHEAD] == pytest.approx(1.25, abs=1e-2)
