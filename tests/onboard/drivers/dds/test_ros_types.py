"""Bytes of the messages: against rosbags' own serializer, back again, and cut off."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from onboard.drivers.dds import ros_types as ros
from onboard.values.errors import InputError

STORE = get_typestore(Stores.ROS2_HUMBLE)
STORE.register(
    get_types_from_msg("std_msgs/Header header\nbool percentage\nfloat64 speed_limit\n", "nav2_msgs/msg/SpeedLimit")
)
HEADER = ros.Header(ros.Time(1700000000, 123456789), "odom")
POSE = ros.Pose(ros.Point(1.5, -2.5, 0.25), ros.Quaternion(0.1, 0.2, 0.3, 0.4))
TRANSFORM = ros.TransformStamped(HEADER, "base_link", ros.Transform(ros.Vector3(1.0, 2.0, 3.0), POSE.orientation))
COVARIANCE = [float(i) for i in range(36)]

SAMPLES = [
    ros.Bool(True),
    ros.Bool(False),
    ros.Empty(),
    ros.String(""),
    ros.String("a"),
    ros.String("stopped: e_stop"),
    ros.String("Grüße"),
    ros.Twist(ros.Vector3(x=0.3), ros.Vector3(z=-1.0)),
    ros.TwistStamped(HEADER, ros.Twist(ros.Vector3(x=0.3), ros.Vector3(z=-1.0))),
    ros.PoseStamped(HEADER, POSE),
    ros.Path(HEADER, [ros.PoseStamped(HEADER, POSE), ros.PoseStamped(ros.Header(), POSE)]),
    ros.PoseWithCovarianceStamped(HEADER, ros.PoseWithCovariance(POSE, COVARIANCE)),
    ros.Odometry(
        HEADER,
        "base_link",
        ros.PoseWithCovariance(POSE, COVARIANCE),
        ros.TwistWithCovariance(ros.Twist(ros.Vector3(x=0.5)), COVARIANCE),
    ),
    ros.TFMessage([]),
    ros.TFMessage([TRANSFORM]),
    ros.TFMessage([TRANSFORM, TRANSFORM, TRANSFORM]),
    ros.LaserScan(HEADER, -3.0, 3.0, 0.125, 0.0, 0.5, 0.0, 10.0, [1.0, float("inf"), 2.5], []),
    ros.LaserScan(HEADER, ranges=[0.5], intensities=[1.0, 2.0]),
    ros.PointCloud2(HEADER, 1, 2, [ros.PointField("x", 4, 7, 1), ros.PointField("y")], False, 12, 24, b"1" * 24),
    ros.PointCloud2(),
    ros.PointCloud2(
        HEADER,
        1,
        2,
        [*(ros.PointField(name, 4 * at, 7, 1) for at, name in enumerate("xyz")), ros.PointField("t", 12, 6, 1)],
        False,
        16,
        32,
        b"1" * 32,
    ),
    ros.SpeedLimit(HEADER, True, 50.0),
    ros.BatteryState(HEADER, 12.5, 20.0, percentage=0.5, present=True, cell_voltage=[1.5, 2.5], location="base"),
    ros.Image(HEADER, 2, 3, "16UC1", 0, 6, bytes(range(12))),
    ros.Image(HEADER, 1, 1, "rgb8", 1, 3, b"\x01\x02\x03"),
    ros.Image(),
    ros.CompressedImage(HEADER, "rgb8; jpeg compressed bgr8", b"\xff\xd8\xff"),
    ros.CameraInfo(HEADER, 60, 80, "plumb_bob", [0.1] * 5, COVARIANCE[:9], COVARIANCE[9:18], COVARIANCE[:12], 1, 2),
    ros.CameraInfo(HEADER, d=[], roi=ros.RegionOfInterest(1, 2, 3, 4, True)),
    ros.Imu(HEADER, POSE.orientation, COVARIANCE[:9], ros.Vector3(0.1, 0.2, 0.3), COVARIANCE[9:18], ros.Vector3(z=9.8)),
    ros.OccupancyGrid(HEADER, ros.MapMetaData(ros.Time(1, 2), 0.0625, 3, 2, POSE), b"\x00\x64\xff\x00\x00\x64"),
    ros.PolygonStamped(HEADER, ros.Polygon([ros.Point32(0.25, -0.5), ros.Point32(z=1.0)])),
    ros.MarkerArray([]),
    ros.MarkerArray(
        [
            ros.Marker(HEADER, "goal", 3, 4, points=[ros.Point(1.0)], colors=[ros.ColorRGBA(a=0.5)], text="kitchen"),
            ros.Marker(),
        ]
    ),
    ros.DiagnosticArray(HEADER, []),
    ros.DiagnosticArray(
        HEADER,
        [
            ros.DiagnosticStatus(2, "camera front", "covered", "robot", [ros.KeyValue("frames", "12")]),
            ros.DiagnosticStatus(0, "scan", "", "robot", []),
        ],
    ),
]


def fields(sample) -> dict:
    """Return a sample as nested dictionaries."""
    return {field.name: plain(getattr(sample, field.name)) for field in dataclasses.fields(sample)}


def plain(value):
    """Return one field's value without our types."""
    if dataclasses.is_dataclass(value):
        return fields(value)
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value


def label(sample) -> str:
    return type(sample).__name__


def test_every_message_type_is_sampled():
    assert {type(sample) for sample in SAMPLES} == set(ros.MESSAGES)


@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_reserialised_by_rosbags_the_bytes_are_equal(sample):
    name, ours = ros.ros_name(type(sample)), ros.to_cdr(sample)
    theirs = bytes(STORE.serialize_cdr(STORE.deserialize_cdr(ours, name), name))
    assert theirs == ours


@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_big_endian_bytes_are_understood(sample):
    name = ros.ros_name(type(sample))
    big = bytes(STORE.serialize_cdr(STORE.deserialize_cdr(ros.to_cdr(sample), name), name, little_endian=False))
    assert big[:2] == b"\x00\x00"
    assert ros.from_cdr(type(sample), big) == sample


@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_cut_off_bytes_are_refused_and_the_type_named(sample):
    whole = ros.to_cdr(sample)
    for length in range(min(len(whole), 200)):
        with pytest.raises(InputError, match=f"{length} bytes are not a {ros.ros_name(type(sample))}"):
            ros.from_cdr(type(sample), whole[:length])


@given(kind=st.sampled_from(ros.MESSAGES), body=st.binary(max_size=400))
def test_noise_is_a_message_or_refused(kind, body):
    try:
        sample = ros.from_cdr(kind, b"\x00\x01\x00\x00" + body)
    except InputError:
        return
    assert isinstance(sample, kind)


@pytest.mark.parametrize("kind", ros.MESSAGES)
def test_type_names_are_those_of_rmw(kind):
    package, _, name = ros.ros_name(kind).split("/")
    assert kind.__idl__.idl_transformed_typename == f"{package}::msg::dds_::{name}_"
