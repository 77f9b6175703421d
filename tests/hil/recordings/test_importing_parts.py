"""Choosing topics, places of sensors, a laser seen from the base, and how far decisions agree with commands."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hil.recordings.bags.bag import IMAGE, BagTopic
from hil.recordings.bags.drive import Agreement, seen_from_base
from hil.recordings.bags.topics import ROLES, camera_name, choose, info_topic, named_cameras
from onboard.drivers.dds.ros_convert import rays_from_ros
from onboard.perception.laser_scan import scan_of_rays
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.frames import Frames, matrix, quaternion_of
from onboard.values.geometry import rotation_from_quaternion
from onboard.values.messages import Decision, Twist
from tests.rigs.recordings.bag_rig import LASER_TURN, TREE, scan, transform

BY_NAME = {role.name: role for role in ROLES}
ODOMETRY, TWIST, STAMPED = "nav_msgs/msg/Odometry", "geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"
POSE, FIX = "geometry_msgs/msg/PoseStamped", "geometry_msgs/msg/PoseWithCovarianceStamped"

#   role            topics of the bag                              asked       chosen
CHOICES = [
    ("odometry", [("/a/wheels", ODOMETRY)], None, "/a/wheels"),
    ("odometry", [("/a/wheels", ODOMETRY), ("/b/odom", ODOMETRY)], None, "/b/odom"),
    ("odometry", [("/a/wheels", ODOMETRY), ("/b/odom", ODOMETRY)], "/a/wheels", "/a/wheels"),
    ("odometry", [("/a/wheels", ODOMETRY)], "", None),
    ("odometry", [("/a", TWIST)], None, None),
    ("commands", [("/a/command", STAMPED)], None, "/a/command"),
    ("goals", [("/tracker/pose", POSE)], None, None),
    ("goals", [("/tracker/pose", POSE), ("/goal_pose", POSE)], None, "/goal_pose"),
    ("localization", [("/initialpose", FIX)], None, None),
    ("localization", [("/initialpose", FIX), ("/amcl_pose", FIX)], None, "/amcl_pose"),
]


@pytest.mark.parametrize(("role", "topics", "named", "chosen"), CHOICES)
def test_a_topic_is_found_by_its_type_or_named(role, topics, named, chosen):
    assert choose(BY_NAME[role], [BagTopic(*topic, 1) for topic in topics], named) == chosen


#   topics of the bag                                   asked      the line
REFUSED = [
    (
        [("/a", ODOMETRY), ("/b", ODOMETRY)],
        None,
        "several topics can be the odometry: name one with --odometry: /a, /b",
    ),
    ([("/a", ODOMETRY)], "/x", "--odometry /x: there is no such topic; of that type there is /a"),
    ([("/a", TWIST)], "/x", "--odometry /x: there is no such topic; of that type there is none"),
    ([("/a", TWIST)], "/a", f"--odometry /a: is a {TWIST}, must be {ODOMETRY}"),
]


@pytest.mark.parametrize(("topics", "named", "line"), REFUSED)
def test_a_choice_that_cannot_be_made_is_one_line(topics, named, line):
    with pytest.raises(InputError) as raised:
        choose(BY_NAME["odometry"], [BagTopic(*topic, 1) for topic in topics], named)
    assert str(raised.value) == line


def test_cameras_are_named_in_pairs():
    topics = [BagTopic("/a/image", IMAGE, 1), BagTopic("/b/image", IMAGE, 1)]
    assert named_cameras(topics, ["front=/a/image", "rear=/b/image"]) == {"front": "/a/image", "rear": "/b/image"}
    for text in ("/a/image", "=/a/image", "front=", "the front=/a/image", "front=/c/image"):
        with pytest.raises(InputError, match=r"^--depth "):
            named_cameras(topics, [text])


#   topic                                      mounts              camera
CAMERA_NAMES = [
    ("/front/depth/image", ["front", "rear"], "front"),
    ("/camera/depth/image_raw", ["front", "rear"], None),
    ("/camera/depth/image_raw", ["front"], "front"),
    ("/camera/aligned_depth_to_color/image_raw", None, "camera"),
    ("/robot/left_camera/depth/image_rect_raw", None, "robot_left_camera"),
    ("/depth/image", None, "camera"),
    ("/left/depth/image/compressedDepth", None, "left"),
]


@pytest.mark.parametrize(("topic", "mounts", "name"), CAMERA_NAMES)
def test_a_camera_is_named_after_its_topic(topic, mounts, name):
    assert camera_name(topic, None if mounts is None else dict.fromkeys(mounts)) == name


def test_intrinsics_are_beside_the_images():
    for form in ("", "/compressed", "/compressedDepth"):
        assert info_topic(f"/camera/depth/image_raw{form}") == "/camera/depth/camera_info"


def test_places_follow_the_tree_up_and_down():
    frames = Frames()
    frames.hear(TREE.transforms)
    point = frames.between("laser", "camera_optical") @ [0.0, 0.0, 1.0, 1.0]  # one metre ahead of the camera
    assert point[:3] == pytest.approx([0.0, -0.9, 0.1])  # the laser is turned to the left
    assert np.allclose(frames.between("/base", "base"), np.eye(4))
    assert frames.between("base", "elsewhere") is None


def test_of_two_frames_the_first_transform_counts_and_one_that_is_none_does_not():
    frames = Frames()
    frames.hear([transform("a", "b", (math.nan, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))])
    frames.hear([transform("a", "b", (1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))])
    assert frames.between("a", "b") is None
    for x_m in (2.0, 3.0):
        frames.hear([transform("a", "b", (x_m, 0.0, 0.0), (0.0, 0.0, 0.0, 1.05))])
    assert frames.between("a", "b")[0, 3] == 2.0


PART = st.floats(-1.0, 1.0)


@given(st.tuples(PART, PART, PART, PART).filter(lambda q: sum(part * part for part in q) > 0.1))
def test_a_rotation_has_its_quaternion_back(parts):
    x, y, z, w = np.array(parts) / np.linalg.norm(parts)
    rotation = rotation_from_quaternion((x, y, z, w))
    assert np.allclose(rotation_from_quaternion(tuple(quaternion_of(rotation))), rotation, atol=1e-9)


@given(st.floats(-math.pi, math.pi), st.floats(-0.4, 0.4), st.floats(-0.4, 0.4), st.floats(1.0, 15.0))
@example(-0.333984375, -0.375, -0.328125, 4.0)
@example(1.0, -0.375, 0.34375, 1.0)  # its shadow begins 5.4 m away, 13 deg beside it
def test_a_post_is_where_it_is_wherever_the_laser_sits(turn_rad, x_m, y_m, ahead_m):
    place = (x_m, y_m, 0.3)
    base_from_laser = matrix(
        transform("base", "laser", place, (0.0, 0.0, math.sin(turn_rad / 2), math.cos(turn_rad / 2))).transform
    )
    sample = scan(5, 3.0)
    post = np.linalg.inv(base_from_laser) @ [ahead_m, 0.0, 0.3, 1.0]
    ray = round((math.atan2(post[1], post[0]) - sample.angle_min) / sample.angle_increment) % len(sample.ranges)
    ranges = [math.inf] * len(sample.ranges)
    ranges[ray] = math.hypot(post[0], post[1])
    found = scan_of_rays(rays_from_ros(seen_from_base(replace(sample, ranges=ranges), base_from_laser, "base")), 7)
    near = np.flatnonzero(found.ranges_m <= 1.02 * ahead_m)
    off_deg = np.abs(-180 + 2 * near + 1)
    assert off_deg.min() <= 3
    assert off_deg.max() <= 7  # a bin next to it that no ray meets, as the laser is elsewhere, takes the smaller range
    assert found.ranges_m[near] == pytest.approx(ahead_m, rel=0.02)
    assert found.seen[near].all()
    shadow = np.flatnonzero(np.isfinite(found.ranges_m) & (found.ranges_m > 1.02 * ahead_m))
    bearing = np.radians(-180 + 2 * shadow + 1)
    flat = [found.ranges_m[shadow] * np.cos(bearing), found.ranges_m[shadow] * np.sin(bearing)]
    x, y, *_ = np.linalg.inv(base_from_laser) @ [*flat, np.full(len(shadow), 0.3), np.ones(len(shadow))]
    beside = np.remainder(np.arctan2(y, x) - math.atan2(post[1], post[0]) + math.pi, 2.0 * math.pi) - math.pi
    assert (np.abs(beside) <= math.radians(4.0)).all(), "only behind the post, between the rays next to it"


def test_what_a_moved_laser_does_not_see_is_not_seen():
    half = [math.inf] * 180 + [math.nan] * 180
    moved = seen_from_base(
        replace(scan(5, 3.0), ranges=half),
        matrix(transform("a", "b", (0.1, 0.0, 0.0), LASER_TURN).transform),
        "base",
    )
    found = scan_of_rays(rays_from_ros(moved), 7)
    assert 85 <= np.count_nonzero(found.seen) <= 95
    assert not np.isfinite(found.ranges_m).any()


@pytest.mark.parametrize("change", [{"ranges": []}, {"range_max": math.nan}, {"angle_increment": math.inf}])
def test_a_moved_scan_that_is_none_is_refused(change):
    with pytest.raises(InputError):
        seen_from_base(replace(scan(5, 3.0), **change), matrix(TREE.transforms[0].transform), "base")


NO_LOGITS = np.zeros(28, np.float32)


def test_agreement_is_counted_by_decision():
    agreement = Agreement()
    forward = ACTIONS.index(Twist(0.6, 0.0))
    agreement.add(Decision(forward, NO_LOGITS), Twist(0.58, 0.05))
    agreement.add(Decision(forward, NO_LOGITS), Twist(0.0, 1.0))
    assert (agreement.decisions, agreement.same) == (2, 1)
    assert agreement.line() == (
        "1 of 2 decisions are the action nearest to the recorded command; mean difference 0.31 m/s, 0.53 rad/s"
    )
