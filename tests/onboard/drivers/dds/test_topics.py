"""Names on the wire, namespaces, remapping, and the domain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from onboard.config.config import DdsSection
from onboard.drivers.dds.ros_types import BY_ROS_NAME
from onboard.drivers.dds.topics import (
    TOPICS,
    check_names,
    check_scan_source,
    dds_topic,
    domain_id,
    ros_topic,
    scan_source,
    type_of,
)
from onboard.values.errors import ConfigError
from onboard.values.topic_name import full_name

#    name                namespace  remap                              on the wire
NAMES = [
    ("cmd_vel", "", {}, "rt/cmd_vel"),
    ("cmd_vel", "robot1", {}, "rt/robot1/cmd_vel"),
    ("cmd_vel", "/a/b/", {}, "rt/a/b/cmd_vel"),
    ("cmd_vel", "robot1", {"cmd_vel": "base/cmd"}, "rt/robot1/base/cmd"),
    ("cmd_vel", "robot1", {"cmd_vel": "/base/cmd"}, "rt/base/cmd"),
    ("state", "", {}, "rt/onboard/state"),
    ("cancel", "robot1", {}, "rt/robot1/onboard/cancel"),
    ("tf", "robot1", {}, "rt/tf"),
    ("tf_static", "robot1", {}, "rt/tf_static"),
    ("tf", "robot1", {"tf": "tf"}, "rt/robot1/tf"),
    ("diagnostics", "robot1", {}, "rt/diagnostics"),
    ("front_left/depth/image", "robot1", {}, "rt/robot1/front_left/depth/image"),
    ("front/depth/camera_info", "", {}, "rt/front/depth/camera_info"),
    ("front/depth/image", "", {"front/depth/image": "/cam0/depth"}, "rt/cam0/depth"),
    ("color/image", "", {}, "rt/color/image"),
]


@pytest.mark.parametrize(("name", "namespace", "remap", "wire"), NAMES)
def test_name_on_the_wire(name, namespace, remap, wire):
    assert dds_topic(DdsSection(namespace=namespace, remap=remap), name) == wire


@pytest.mark.parametrize("target", ["odom", "base/odom", "/odom"])
@pytest.mark.parametrize("namespace", ["", "robot1", "/a/b/"])
def test_all_names_of_a_topic_are_the_same(namespace, target):
    """In messages of the configuration and of the drive, and in the stop after any end, which has a plain table."""
    section = DdsSection(namespace=namespace, remap={"odom": target})
    plain = SimpleNamespace(**vars(section))
    assert section.odometry_topic == ros_topic(section, "odom") == ros_topic(plain, "odom")
    assert section.odometry_topic == full_name(namespace, target) == ros_topic(section, scan_source(target))


#    section                                             what the message names
BAD_NAMES = [
    (DdsSection(remap={"cmdvel": "x"}), "'cmdvel'"),
    (DdsSection(remap={"cmd_vel": "2wheels"}), r"dds\.remap\.cmd_vel: '2wheels'"),
    (DdsSection(remap={"cmd_vel": ""}), r"dds\.remap\.cmd_vel"),
    (DdsSection(remap={"cmd_vel": "a//b"}), "'a//b' is not a ROS topic name: write 'a/b'"),
    (DdsSection(remap={"odom": "rt/odom"}), r"remap\.odom: 'rt/odom' has DDS's prefix 'rt', .*: write '/odom'"),
    (DdsSection(remap={"odom": "/rt/j100/odom/"}), ": write '/j100/odom'"),
    (DdsSection(remap={"odom": " /odom/ "}), "' /odom/ ' is not a ROS topic name: write '/odom'"),
    (DdsSection(remap={"odom": "my odom"}), "'my odom' is not a ROS topic name$"),
    (DdsSection(namespace="my robot"), r"dds\.namespace: 'my robot'"),
    (DdsSection(remap={"front-left/depth/image": "x"}), "'front-left'"),
]


@pytest.mark.parametrize(("section", "named"), BAD_NAMES)
def test_bad_name_is_refused_by_name(section, named):
    with pytest.raises(ConfigError, match=named):
        check_names(section)


#    topic             namespace  remap                   on the wire
SCAN_SOURCES = [
    ("twin/scan", "", {}, "rt/twin/scan"),
    ("twin/scan", "robot1", {}, "rt/robot1/twin/scan"),
    ("/lidar/scan", "robot1", {}, "rt/lidar/scan"),
    ("scan", "", {"scan": "fused_scan"}, "rt/scan"),
]


@pytest.mark.parametrize(("name", "namespace", "remap", "wire"), SCAN_SOURCES)
def test_a_scan_comes_from_any_topic(name, namespace, remap, wire):
    section = DdsSection(namespace=namespace, remap=remap)
    check_scan_source("scan", name)
    assert dds_topic(section, scan_source(name)) == wire


def test_a_scan_from_a_bad_topic_is_refused():
    with pytest.raises(ConfigError, match=r"limits_scan\.topic: 'two words' is not"):
        check_scan_source("limits_scan", "two words")


def test_every_topic_has_a_type():
    assert {row.kind for row in TOPICS} <= BY_ROS_NAME.keys()
    assert {row.stamped_kind for row in TOPICS if row.stamped_kind} <= BY_ROS_NAME.keys()


@pytest.mark.parametrize(("stamped", "kind"), [(False, "Twist"), (True, "TwistStamped")])
def test_command_type_follows_the_configuration(stamped, kind):
    section = DdsSection(stamped_cmd_vel=stamped)
    assert type_of(section, "cmd_vel") == f"geometry_msgs/msg/{kind}"
    assert type_of(section, "cmd_vel_teleop") == "geometry_msgs/msg/Twist"


#    configured  environment               domain
DOMAINS = [
    (None, {}, 0),
    (None, {"ROS_DOMAIN_ID": ""}, 0),
    (None, {"ROS_DOMAIN_ID": "7"}, 7),
    (None, {"ROS_DOMAIN_ID": "232"}, 232),
    (5, {"ROS_DOMAIN_ID": "7"}, 5),
]


@pytest.mark.parametrize(("configured", "environment", "domain"), DOMAINS)
def test_domain(configured, environment, domain):
    assert domain_id(DdsSection(domain=configured), environment) == domain


@pytest.mark.parametrize("value", ["233", "-1", "seven", "1.0", "²"])
def test_bad_domain_is_refused(value):
    with pytest.raises(ConfigError, match=r"ROS_DOMAIN_ID: .* from 0 to 232"):
        domain_id(DdsSection(), {"ROS_DOMAIN_ID": value})
