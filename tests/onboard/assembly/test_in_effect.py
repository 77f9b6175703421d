"""Five lines say what drives; a protection that is off is named, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from onboard.assembly.assembly import check_files
from onboard.assembly.in_effect import ahead_mps, in_effect
from onboard.config.config import Config
from onboard.values.errors import ConfigError

LONG = [[0.6, 0.25], [-0.6, 0.25], [-0.6, -0.25], [0.6, -0.25]]

#   table, key, value, line, words that the value adds to it
CHANGES: list[tuple[str, str, Any, str, str]] = [
    ("cameras", "color", "none", "off", "colour"),
    ("scan", "drop_m", 0.0, "off", "stairs"),
    ("limits", "remember_s", 0.0, "off", "memory of obstacles"),
    ("cameras", "unchanged_m", 0.0, "off", "frozen cameras"),
    ("record", "enabled", False, "off", "recording"),
    ("cameras", "source", "none", "off", "the robot sees nothing"),
    ("policy", "model", "onboard-s", "policy", "onboard-s on onnxruntime"),
    ("limits", "v_max_mps", 0.6, "limits", "-0.3 to 0.6 m/s"),
    ("robot", "footprint_radius_m", 0.4, "limits", "circle of 0.4 m"),
    ("dds", "stamped_cmd_vel", True, "wire", "as TwistStamped"),
    ("dds", "namespace", "robot1", "wire", "/robot1/goal_pose"),
    ("dds", "domain", 7, "wire", "domain 7 on lo"),
    ("goal", "arrival_confidence", 0.8, "limits", "goals within 0.2 m with confidence 0.8"),
    ("odometry", "input", "serial", "wire", "base on /dev/base"),
    ("cameras", "sources", {"rear": "realsense"}, "cameras", "rear (realsense)"),
    ("scan", "topic", "lidar", "cameras", "ready-made scan on /lidar, in the base frame"),
    (
        "scan",
        "topic",
        "lidar",
        "cameras",
        "; nothing below or above the lidar's plane is seen, and the robot can hit it",
    ),
    ("scan", "cameras", ["rear"], "cameras", "rear (dds);"),
    ("scan", "cameras", ["rear"], "limits", "ahead not at all"),
    (
        "scan",
        "cameras",
        ["front_left", "front_right"],
        "limits",
        "ahead at most 0.3 m/s, over ground that it turned to",
    ),
    ("scan", "cameras", ["front", "front_left"], "limits", "ahead at most 0.3 m/s"),
    (
        "robot",
        "footprint_m",
        LONG,
        "limits",
        "turns in place at most 0.46 rad/s, and a corner can hit what no camera has seen",
    ),
]


@pytest.mark.parametrize(("table", "key", "value", "line", "words"), CHANGES)
def test_a_change_is_told(table: str, key: str, value: Any, line: str, words: str) -> None:
    before, after = (in_effect(config)[line] for config in (Config(), Config.model_validate({table: {key: value}})))
    assert before != after
    assert words in after


#   table, key, value, protection that is no longer off
ON: list[tuple[str, str, Any, str]] = [
    ("dds", "e_stop_required", True, "required e-stop"),
    ("dds", "security", "keys/onboard", "DDS Security"),
    ("zones", "keep_out", "zones.yaml", "zones"),
    ("zones", "speed", "zones.yaml", "zones"),
]


@pytest.mark.parametrize(("table", "key", "value", "protection"), ON)
def test_what_is_on_is_not_told_to_be_off(table: str, key: str, value: Any, protection: str) -> None:
    assert protection in in_effect(Config())["off"]
    assert protection not in in_effect(Config.model_validate({table: {key: value}}))["off"]


#   section scan, speed that it allows ahead of 1 m/s
AHEAD = [
    ({}, 1.0),
    ({"cameras": ["rear"]}, 0.0),
    ({"cameras": ["front", "front_left"]}, 0.3),
    ({"cameras": ["front_left", "front_right"]}, 0.3),
    ({"topic": "lidar"}, 1.0),
]


@pytest.mark.parametrize(("scan", "speed_mps"), AHEAD)
def test_the_speed_ahead_is_what_the_cameras_allow(scan: dict[str, Any], speed_mps: float) -> None:
    assert ahead_mps(Config.model_validate({"scan": scan})) == pytest.approx(speed_mps)


def test_an_imu_is_named_and_its_topic_is_checked() -> None:
    config = Config.model_validate({"odometry": {"imu": "imu/data"}, "dds": {"namespace": "/robot1"}})
    assert "the IMU on /robot1/imu/data" in in_effect(config)["cameras"]
    with pytest.raises(ConfigError, match=r"odometry\.imu: 'no topic!' is not a ROS topic name"):
        check_files(Config.model_validate({"odometry": {"imu": "no topic!"}}))
    with pytest.raises(ConfigError, match=r"imu_rpy_deg has no effect without odometry\.imu"):
        check_files(Config.model_validate({"odometry": {"imu_rpy_deg": [180.0, 0.0, 0.0]}}))
