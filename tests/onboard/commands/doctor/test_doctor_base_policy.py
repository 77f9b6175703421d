"""What the doctor says of base and policy: over a real cable and with the engine that ships."""

from __future__ import annotations

import math
import os
import threading
import tty
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from onboard.commands.doctor import cameras, engine, mobile_base
from onboard.commands.doctor.finding import Level
from onboard.config.config import Config, PolicySection
from onboard.config.pretrained import model_path
from onboard.drivers.dds.ros_convert import ros_rays
from onboard.drivers.dds.ros_types import LaserScan
from onboard.drivers.engines.tensorrt_build import refusal_of
from onboard.drivers.engines.tensorrt_engine import cached_engine
from onboard.perception.laser_scan import Rays
from onboard.policy.manifest import load_manifest
from onboard.values.errors import EngineError
from tests.onboard.drivers.test_kobuki_base import frame
from tests.rigs.devices.fake_tensorrt import installed

GREEN, AMBER, RED = Level.GREEN, Level.AMBER, Level.RED

#   name              rate   publishers    level   words
ODOMETRY = [
    ("well", 50.0, ["base"], GREEN, "50.0 odometry messages/s from base"),
    ("nobody", 0.0, [], RED, "has no publisher"),
    ("announced only", 0.0, ["base"], RED, "no message is received"),
    ("stale in between", 4.0, ["base"], RED, "slower than odometry.stale_ms"),
    ("as good as one a tick", 29.9, ["base"], GREEN, ""),
    ("slower than ticks", 20.0, ["base"], AMBER, "less than one message per tick"),
    ("two bases", 50.0, ["a", "b"], RED, "several"),
]


@pytest.mark.parametrize(("rate", "who", "level", "words"), [row[1:] for row in ODOMETRY], ids=[r[0] for r in ODOMETRY])
def test_odometry(rate: float, who: list[str], level: Level, words: str) -> None:
    found = mobile_base.over_dds(Config(), rate, who)
    assert found.level is level
    assert words in found.found


def laser_scan(frame: str, rays: int = 360, step_rad: float = math.tau / 360) -> LaserScan:
    turn = Rays(-math.pi, -math.pi + (rays - 1) * step_rad, step_rad, 0.1, 12.0, np.full(rays, 2.0, np.float32))
    return ros_rays(0, frame, turn)


#   name             laser        Hz    newest scan                    publishers  level  words
LIDARS = [
    ("well", (0, 0, 0), 10.0, laser_scan("laser"), ["driver"], GREEN, "10.0 scans/s from driver, frame laser, 0 bins"),
    ("half a turn", (0, 0, 0), 10.0, laser_scan("laser", 180), ["driver"], GREEN, "bins blind"),
    ("nobody", None, 0.0, None, [], RED, "no publisher"),
    ("announced only", None, 0.0, None, ["driver"], RED, "no scan is received"),
    ("no pose", None, 10.0, laser_scan("laser"), ["driver"], RED, "its frame is laser, not base_link"),
    ("in the base frame", None, 10.0, laser_scan("base_link"), ["driver"], GREEN, "frame base_link"),
    ("slow", (0, 0, 0), 2.1, laser_scan("laser"), ["driver"], AMBER, "2.1 scans/s, 5 are needed"),
    ("too many rays", (0, 0, 0), 10.0, laser_scan("laser", 400), ["driver"], RED, "400 ranges every"),
]


@pytest.mark.parametrize(
    ("pose", "rate", "newest", "who", "level", "words"), [row[1:] for row in LIDARS], ids=[row[0] for row in LIDARS]
)
def test_a_lidar(pose, rate: float, newest: LaserScan, who: list[str], level: Level, words: str) -> None:
    config = Config(scan={"topic": "laser", **({} if pose is None else {"laser": pose})})
    found = cameras.lidar(config, "laser", rate, newest, who)
    assert (found.part, found.level) == ("lidar /laser", level)
    assert words in found.found


@pytest.fixture
def cable() -> Iterator[tuple[int, str]]:
    base_end, robot_end = os.openpty()
    tty.setraw(robot_end)
    yield base_end, os.ttyname(robot_end)
    os.close(base_end)
    os.close(robot_end)


def test_a_serial_base_that_talks(cable: tuple[int, str]) -> None:
    base_end, port = cable
    ended = threading.Event()

    def talk() -> None:
        for number in count():
            if ended.wait(0.02):
                return
            os.write(base_end, frame(ms=20 * number))

    thread = threading.Thread(target=talk)
    thread.start()
    found = mobile_base.over_serial(port, 1.0, taken=False)
    ended.set()
    thread.join()
    assert found.level is GREEN
    assert f"packets/s on {port}" in found.found


def test_a_serial_base_that_does_not(cable: tuple[int, str], tmp_path: Path) -> None:
    assert "sends nothing" in mobile_base.over_serial(cable[1], 0.2, taken=False).found
    assert mobile_base.over_serial(cable[1], 0.2, taken=True).found == f"{cable[1]}, in use by the runtime"
    assert "does not exist" in mobile_base.over_serial(str(tmp_path / "base"), 0.2, taken=False).found
    no_port = tmp_path / "file"
    no_port.touch()
    assert mobile_base.over_serial(str(no_port), 0.2, taken=False).level is RED


def test_the_policy_that_ships_is_run() -> None:
    found = engine.policy(Config(policy=PolicySection(model="onboard-v2")), Path(), driving=False)
    assert found.level in (GREEN, AMBER), found.found
    assert len(found.values["decision_ms"]) == engine.RUNS  # type: ignore[arg-type]
    assert found.values["sha256"] == load_manifest(model_path("onboard-v2")).sha256
    beside = engine.policy(Config(policy=PolicySection(model="onboard-v2")), Path(), driving=True)
    assert "in use by the runtime" in beside.found


def test_a_model_of_another_hash_is_red(tmp_path: Path) -> None:
    model = tmp_path / "mine.onnx"
    model.write_bytes(model_path("onboard-v2").read_bytes()[:-1])
    manifest = model_path("onboard-v2").with_name("onboard-v2.onnx.manifest.json")
    (tmp_path / "mine.onnx.manifest.json").write_bytes(manifest.read_bytes())
    found = engine.policy(Config(policy=PolicySection(model=str(model))), Path(), driving=False)
    assert found.level is RED
    assert "sha256: expected" in found.found


def test_a_policy_without_a_model_needs_no_engine() -> None:
    config = Config(policy=PolicySection(model="reactive"))
    assert engine.policy(config, Path(), driving=False).found == "reactive: no model, no engine"


def test_a_tensorrt_engine_that_is_not_built_is_amber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    config = Config(policy=PolicySection(model="onboard-v2", engine="tensorrt"))
    missing = engine.policy(config, tmp_path, driving=False)
    assert missing.level is AMBER
    assert "onboard-engines build onboard-v2" in missing.remedy
    name, file = cached_engine(load_manifest(model_path("onboard-v2")), tmp_path)
    file.touch()
    assert engine.policy(config, tmp_path, driving=True).found.endswith(name)
    assert engine.policy(config, tmp_path, driving=True).level is GREEN
    refusal_of(file).write_text("chooses as ONNX Runtime in 3 of 60 decisions\n")
    refused = engine.policy(config, tmp_path, driving=True)
    assert refused.level is RED
    assert "3 of 60 decisions" in refused.found


def test_tensorrt_on_a_machine_without_it_is_red() -> None:
    found = engine.policy(Config(policy=PolicySection(model="onboard-v2", engine="tensorrt")), Path(), driving=False)
    assert found.level is RED
    assert EngineError.__name__ not in found.found
