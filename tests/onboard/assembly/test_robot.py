"""A configuration is refused if the robot cannot stop within the range of memory, cliff search or masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onboard.assembly.assembly import check_files, open_cameras
from onboard.assembly.robot import check_reach
from onboard.config.config import DEFAULT_ROBOT, CamerasSection, Config, PolicySection, ScanSection, ZonesSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.perception import cliff, obstacle_memory
from onboard.safety import keepout_zones
from onboard.values.errors import ConfigError

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
FORGETS = {"remember_s": 0.0}
MASKS = ZonesSection(keep_out=Path("mask.yaml"))


def config(drop_m: float = 0.0, zones: ZonesSection | None = None, radius_m: float = 0.25, **limits: Any) -> Config:
    robot, scan = {"footprint_radius_m": radius_m}, {"drop_m": drop_m}
    return Config.model_validate({"robot": robot, "scan": scan, "limits": limits, "zones": zones or ZonesSection()})


#   By the formula of `collision.braking_m`, plus 0.3 m of footprint and margin.
#   name                             robot                                                       refused for
ROBOTS = [
    ("the default one",              config(drop_m=0.08),                                        None),
    ("just slow enough",             config(v_max_mps=2.10),                                     None),
    ("faster than it remembers",     config(v_max_mps=2.11),                                     "obstacle memory"),
    ("as fast, remembering nothing", config(v_max_mps=2.11, **FORGETS),                          None),
    ("faster than it sees floor",    config(v_max_mps=2.11, drop_m=0.08, **FORGETS),             "missing floor"),
    ("faster than it knows the map", config(v_max_mps=2.70, radius_m=1.1, zones=MASKS, **FORGETS), "map's masks"),
    ("just slow enough for the map", config(v_max_mps=2.70, radius_m=1.0, zones=MASKS, **FORGETS), None),
    ("a base that brakes slowly",    config(v_max_mps=1.50, acceleration_mps2=1.0),              "obstacle memory"),
    ("a wide robot",                 config(v_max_mps=1.50, radius_m=1.0),                       "obstacle memory"),
    ("a robot wider than that",      config(v_max_mps=0.50, radius_m=2.0),                       "up to 0.00 m/s"),
]  # fmt: skip


@pytest.mark.parametrize(("robot", "words"), [row[1:] for row in ROBOTS], ids=[row[0] for row in ROBOTS])
def test_a_robot_must_stop_within_what_it_knows(robot: Config, words: str | None) -> None:
    if words is None:
        check_reach(robot, PLANT)
        return
    with pytest.raises(ConfigError, match=words) as caught:
        check_reach(robot, PLANT)
    assert str(caught.value).startswith(f"limits.v_max_mps {robot.limits.v_max_mps:g}: stopping takes ")


@pytest.mark.parametrize(("cameras", "blind_deg"), [(("front", "rear"), 108), (("front", "front_left", "rear"), 54)])
def test_a_fallback_beside_few_cameras_is_refused(cameras: tuple[str, ...], blind_deg: int) -> None:
    section = PolicySection(model="onboard-s", fallback="reactive")
    few = Config(policy=section, scan=ScanSection(cameras=list(cameras)))
    said = f"^policy.fallback: the cameras leave {blind_deg} of the front 180 deg blind, more than 20: reactive would "
    with pytest.raises(ConfigError, match=said):
        check_files(few)
    check_files(few.model_copy(update={"policy": section.model_copy(update={"fallback": "none"})}))
    check_files(Config(policy=section, scan=ScanSection(cameras=["front_left", "front", "front_right"])))
    with pytest.raises(ConfigError, match="leave 180 of the front"):
        check_files(Config(policy=section, cameras=CamerasSection(source="none", color="none")))
    check_files(Config(policy=section, scan=ScanSection(topic="lidar"), limits_scan=ScanSection()))


def test_the_speed_that_is_named_is_taken() -> None:
    for most_mps in (2.09, 2.10):
        check_reach(config(v_max_mps=most_mps, drop_m=0.08), PLANT)
    assert obstacle_memory.REACH_M == cliff.REACH_M < keepout_zones.REACH_M


def test_a_source_without_a_driver_is_refused() -> None:
    config = Config()
    cameras = config.cameras.model_copy(update={"source": "acme", "color": "none"})
    with pytest.raises(ConfigError, match="no driver opens front_left, whose source is acme"):
        open_cameras(config.model_copy(update={"cameras": cameras}), load_mounts(config.robot.mounts), pytest.fail)
    cameras = cameras.model_copy(update={"source": "none", "color": "acme"})
    with pytest.raises(ConfigError, match="no driver opens the colour camera, whose source is acme"):
        open_cameras(config.model_copy(update={"cameras": cameras}), load_mounts(config.robot.mounts), pytest.fail)
