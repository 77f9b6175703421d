"""Choosing topics, places of sensors, a laser seen from the base, and how far decisions agree with commands."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from hil.recordings.bags.bag import IMAGE, BagTopic
from hil.recordings.bags.cameras import cameras_of, quaternion_of
from hil.recordings.bags.compressed import CompressedImage, plain, rvl_pixels
from hil.recordings.bags.drive import Agreement
from hil.recordings.bags.topics import ROLES, camera_name, choose, info_topic, named_cameras, named_color
from hil.recordings.bags.transforms import Frames, matrix, seen_from_base
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.ros_convert import rays_from_ros
from onboard.perception.laser_scan import scan_of_rays
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.geometry import rotation_from_quaternion
from onboard.values.messages import Decision, Twist
from tests.rigs.recordings.bag_rig import LASER_TURN, TREE, rvl, scan, transform

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


def test_colour_is_a_topic_of_images_or_none():
    topics = [BagTopic("/a/image", IMAGE, 1), BagTopic("/odom", ODOMETRY, 1)]
    assert [named_color(topics, named) for named in ("/a/image", "", None)] == ["/a/image", "", None]
    for named, problem in (("/none", "there is no such topic"), ("/odom", f"is a {ODOMETRY}")):
        with pytest.raises(InputError, match=rf"^--color {named}: {problem}"):
            named_color(topics, named)


class SilentBag:
    """A bag whose one topic of images has no message, as a recorder leaves it that waited for a camera."""

    topics = (BagTopic("/a/image", IMAGE, 0),)

    def first(self, topic: str) -> None:
        return None


@pytest.mark.parametrize("mounts", [None, load_mounts(DEFAULT_ROBOT / "mounts.toml")])
def test_a_named_camera_without_a_message_is_said(mounts):
    cameras = cameras_of(SilentBag(), Frames(), "base", {"front": "/a/image"}, None, mounts)
    assert (dict(cameras.depth), cameras.mounts) == ({}, "")
    assert cameras.missing == ("/a/image: there is no message of it",)


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


DEPTH = np.arange(12, dtype=np.uint16).reshape(3, 4) * 1000
COLOR = np.full((4, 6, 3), (200, 100, 50), np.uint8)


def packed(image: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Picture.fromarray(image).save(stream, kind)
    return stream.getvalue()


def test_compressed_images_are_those_that_were_compressed():
    depth = plain(CompressedImage(format="16UC1; compressedDepth png", data=bytes(12) + packed(DEPTH, "png")))
    assert (depth.encoding, depth.width, depth.height, depth.step) == ("16UC1", 4, 3, 8)
    assert depth.data == DEPTH.tobytes()
    for kind in ("jpeg", "png"):
        color = plain(CompressedImage(format=kind, data=packed(COLOR, kind)))
        assert (color.encoding, color.width, color.height, color.step) == ("rgb8", 6, 4, 18)
        assert np.allclose(np.frombuffer(color.data, np.uint8).reshape(4, 6, 3), COLOR, atol=3)


@pytest.mark.parametrize("form", ["16UC1; png compressed ", "png", "16UC1;png compressed", "mono16; png compressed "])
def test_depth_that_is_compressed_as_a_plain_png_is_depth(form):
    image = plain(CompressedImage(format=form, data=packed(DEPTH, "png")))
    assert image.encoding == ("mono16" if "mono" in form else "16UC1")
    assert (image.width, image.height, image.data) == (4, 3, DEPTH.tobytes())


def test_quantised_inverse_metres_come_back():
    """Formula of compressed_depth_image_transport: inverse = scale / depth + offset."""
    metres = np.array([[0.5, 1.0, 4.0, 0.0], [9.0, 2.5, 0.0, 7.25]])
    scale, offset = 100.0 * 101.0, 1.0 - 100.0 * 101.0 / 10.0
    with np.errstate(divide="ignore"):
        inverse = np.where(metres > 0.0, np.rint(scale / metres + offset + 1010.0), 0).astype(np.uint16)
    head = np.array([0], "<i4").tobytes() + np.array([scale, offset + 1010.0], "<f4").tobytes()
    for form, body in (("png", packed(inverse, "png")), ("rvl", np.array([4, 2], "<i4").tobytes() + rvl(inverse))):
        image = plain(CompressedImage(format=f"32FC1; compressedDepth {form}", data=head + body))
        assert (image.encoding, image.width, image.height, image.step) == ("32FC1", 4, 2, 16)
        read = np.frombuffer(image.data, np.float32).reshape(2, 4)
        assert np.isnan(read[metres == 0.0]).all()
        np.testing.assert_allclose(read[metres > 0.0], metres[metres > 0.0], rtol=5e-3)


def test_rvl_is_read_as_the_codec_of_ros_writes_it():
    """The bytes were written by the codec of compressed_depth_image_transport."""
    pixels = [0, 0, 1000, 1003, 999, 0, 65535, 1, 0, 0, 0, 0]
    data = bytes.fromhex("67f38a23f38c8e1240f3ffbf")
    assert rvl(np.array(pixels)) == data
    assert rvl_pixels(data, 12).tolist() == pixels
    for wrong, count in ((data[:8], 12), (data, 11), (data, 40), (b"", 12), (b"\xff" * 64, 12)):
        with pytest.raises(ValueError, match="RVL"):
            rvl_pixels(wrong, count)


@given(st.lists(st.one_of(st.just(0), st.integers(0, 65535)), min_size=1, max_size=90))
def test_rvl_returns_every_image(pixels):
    assert rvl_pixels(rvl(np.array(pixels)), len(pixels)).tolist() == pixels


#   format                              data
UNDECODABLE = [
    ("32FC1; compressedDepth png", bytes(12) + packed(DEPTH, "png")),
    ("16UC1; jpeg compressed ", packed(COLOR, "jpeg")),
    ("32FC1; tiff compressed ", b"II*\0" + bytes(40)),
    ("16UC1; compressedDepth png", bytes(12) + packed(COLOR, "png")),
    ("bayer_rggb8; png compressed bayer_rggb8", packed(COLOR[..., 0], "png")),
    ("16UC1; compressedDepth rvl", bytes(12) + np.array([4, 3], "<i4").tobytes() + b"\x10\0\0\0"),
    ("16UC1; compressedDepth rvl", bytes(12) + np.array([1 << 20, 1 << 20], "<i4").tobytes() + bytes(64)),
    ("16UC1; compressedDepth rvl", bytes(12)),
    ("16UC1; compressedDepth png", packed(DEPTH, "png")[:40]),
    ("16UC1; compressedDepth rvl", bytes(30)),
    ("jpeg", b""),
    ("png", packed(COLOR, "png")[:45]),
]


@pytest.mark.parametrize(("form", "data"), UNDECODABLE, ids=[f"{form} {len(data)}" for form, data in UNDECODABLE])
def test_an_image_that_cannot_be_decoded_has_no_pixels(form, data):
    image = plain(CompressedImage(format=form, data=data))
    assert (image.encoding, image.width, image.data) == (form, 0, b"")


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


def test_a_laser_at_the_base_is_passed_on_as_it_is():
    sample = scan(5, 3.0)
    assert seen_from_base(sample, np.eye(4), "base") == replace(sample, header=replace(sample.header, frame_id="base"))


@given(st.floats(-math.pi, math.pi), st.floats(-0.4, 0.4), st.floats(-0.4, 0.4), st.floats(1.0, 15.0))
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
    near = np.flatnonzero(np.isfinite(found.ranges_m))
    assert len(near) == 1
    assert abs(-180 + 2 * near[0] + 1) <= 3
    assert found.ranges_m[near[0]] == pytest.approx(ahead_m, rel=0.02)
    assert found.seen[near[0]]


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
