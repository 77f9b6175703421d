"""Values to ROS 2 messages and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import (
    fix_from_ros,
    goal_from_ros,
    odometry_from_ros,
    ros_camera_info,
    ros_fix,
    ros_goal,
    ros_mount_transform,
    ros_odometry,
    ros_scan,
)
from onboard.values.geometry import rotation_from_quaternion
from onboard.values.messages import BINS, Pose, Scan, Twist

WALL_NS = 1_700_000_000_123_456_789
ARRIVAL_NS = 42
POSE = Pose(1.0, -2.0, 0.5)
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")

finite = st.floats(-1e6, 1e6)
poses = st.builds(Pose, finite, finite, st.floats(-3.14, 3.14))


def test_odometry_comes_back():
    message = odometry_from_ros(ros_odometry(WALL_NS, "odom", "base_link", POSE, Twist(0.3, -1.0)), ARRIVAL_NS)
    assert (message.stamp_ns, message.arrival_ns, message.twist) == (WALL_NS, ARRIVAL_NS, Twist(0.3, -1.0))
    assert (message.pose.x_m, message.pose.y_m) == (1.0, -2.0)
    assert message.pose.yaw_rad == pytest.approx(0.5)


def test_odometry_that_is_not_a_number_passes_as_it_is():
    sample = ros_odometry(WALL_NS, "odom", "base_link", Pose(math.nan, math.inf, 0.0), Twist(math.nan, math.inf))
    sample.pose.pose.orientation = ros.Quaternion(math.nan, math.inf, 1e300, 1e300)
    message = odometry_from_ros(sample, ARRIVAL_NS)
    assert math.isnan(message.twist.v_mps)
    assert message.twist.w_radps == math.inf
    assert math.isnan(message.pose.yaw_rad)


def test_fix_comes_back_with_its_covariance():
    fix = fix_from_ros(ros_fix(WALL_NS, "map", POSE, (0.03, 0.04, 0.05)), ARRIVAL_NS)
    assert fix.stamp_ns == WALL_NS
    np.testing.assert_allclose(fix.covariance, np.diag([0.03**2, 0.04**2, 0.05**2]))


def test_covariance_picks_x_y_and_yaw():
    sample = ros_fix(WALL_NS, "map", POSE, (1.0, 1.0, 1.0))
    sample.pose.covariance = [float(i) for i in range(36)]
    np.testing.assert_array_equal(fix_from_ros(sample, ARRIVAL_NS).covariance, [[0, 1, 5], [6, 7, 11], [30, 31, 35]])


def test_covariance_of_zeros_is_not_stated():
    assert fix_from_ros(ros_fix(WALL_NS, "map", POSE, (0.0, 0.0, 0.0)), ARRIVAL_NS).covariance is None


@pytest.mark.parametrize(
    ("stated", "taken"), [(4e-4, 4e-4), (0.0, None), (-1.0, None), (1e3, None), (math.nan, None), (math.inf, None)]
)
def test_the_variances_of_the_wheels_twist_are_taken_unless_they_are_fillers(stated, taken):
    sample = ros_odometry(WALL_NS, "odom", "base_link", POSE, Twist(0.2, 0.1))
    sample.twist.covariance = [0.0] * 35 + [stated]
    message = odometry_from_ros(sample, ARRIVAL_NS)
    assert (message.speed_variance, message.yaw_variance) == (None, taken)
    sample.twist.covariance = [stated] + [0.0] * 35
    message = odometry_from_ros(sample, ARRIVAL_NS)
    assert (message.speed_variance, message.yaw_variance) == (taken, None)


NO_QUATERNIONS = [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.5, 0.0), (0.0, 0.0, 0.0, 1.3), (math.nan,) * 4]


@pytest.mark.parametrize("xyzw", NO_QUATERNIONS)
def test_an_orientation_that_is_none_is_a_heading_of_nan(xyzw):
    odometry, fix = ros_odometry(WALL_NS, "odom", "b", POSE, Twist(0.1, 0.0)), ros_fix(WALL_NS, "map", POSE, (1, 1, 1))
    goal = ros_goal(WALL_NS, "odom", POSE)
    for pose in (odometry.pose.pose, fix.pose.pose, goal.pose):
        pose.orientation = ros.Quaternion(*xyzw)
    poses = [odometry_from_ros(odometry, 0).pose, fix_from_ros(fix, 0).pose]
    assert all(math.isnan(pose.yaw_rad) and (pose.x_m, pose.y_m) == (1.0, -2.0) for pose in poses)
    yaw_rad = goal_from_ros(goal, 0).pose.yaw_rad
    assert yaw_rad == 0.0 if not any(xyzw) else math.isnan(yaw_rad)


def test_a_pose_that_is_all_zero_is_not_filled():
    sample = ros.Odometry()
    sample.pose.pose.orientation = ros.Quaternion(0.0, 0.0, 0.0, 0.0)
    assert odometry_from_ros(sample, ARRIVAL_NS).pose is None


def test_scan_tells_blind_from_empty():
    ranges, seen = np.full(BINS, np.inf, np.float32), np.ones(BINS, bool)
    ranges[90], ranges[3], seen[3], seen[4] = 1.5, 2.0, False, False
    sample = ros_scan(WALL_NS, "base_link", Scan(ARRIVAL_NS, ranges, seen), range_max_m=10.0)
    assert sample.ranges[90] == 1.5
    assert math.isnan(sample.ranges[3])
    assert math.isnan(sample.ranges[4])
    assert sample.ranges[5] == math.inf
    assert len(sample.ranges) == BINS
    assert ros.from_cdr(ros.LaserScan, ros.to_cdr(sample)).range_max == 10.0


def test_scan_angles_are_the_centres_of_the_bins():
    sample = ros_scan(WALL_NS, "base_link", Scan(0, np.ones(BINS, np.float32), np.ones(BINS, bool)), 10.0)
    assert math.degrees(sample.angle_min) == pytest.approx(-179.0)
    assert math.degrees(sample.angle_increment) == pytest.approx(2.0)
    assert math.degrees(sample.angle_max) == pytest.approx(179.0)


def test_camera_info_is_the_mounts():
    mount = MOUNTS.depth["front"]
    sample = ros_camera_info(WALL_NS, mount)
    assert (sample.width, sample.height, sample.header.frame_id) == (80, 60, "front_optical_frame")
    assert (sample.k[0], sample.k[2], sample.k[4], sample.k[5]) == (mount.fx, mount.cx, mount.fy, mount.cy)
    assert (sample.p[0], sample.p[2], sample.p[5], sample.p[6]) == (mount.fx, mount.cx, mount.fy, mount.cy)


@pytest.mark.parametrize("mount", MOUNTS.depth.values(), ids=lambda mount: mount.name)
def test_mount_transform_is_base_from_camera(mount):
    sample = ros_mount_transform(WALL_NS, "base_link", mount).transform
    q = sample.rotation
    np.testing.assert_allclose(rotation_from_quaternion((q.x, q.y, q.z, q.w)), mount.base_from_camera[:3, :3])
    np.testing.assert_allclose(
        (sample.translation.x, sample.translation.y, sample.translation.z), mount.base_from_camera[:3, 3]
    )
