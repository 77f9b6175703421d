"""What the doctor says of cameras: by tables, on a real recording, over real DDS, and by what a runtime says."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.commands.doctor import camera_probe, cameras, wire_probe
from onboard.commands.doctor.cameras import CameraMeasurement, device_of_row
from onboard.commands.doctor.finding import Level, Problem
from onboard.commands.doctor.wire_probe import Row, RuntimeStatus
from onboard.config.config import CamerasSection, Config
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import Claim
from onboard.drivers.dds.ros_convert import ros_diagnostics, ros_image
from onboard.drivers.realsense.device import Device, Source
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.messages import CameraHealth, DepthFrame
from tests.rigs.devices.software_camera import SERIAL, Scene, make_recording
from tests.rigs.network.loopback import SECTION

GREEN, AMBER, RED = Level.GREEN, Level.AMBER, Level.RED
NATIVE = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/video4linux/video0"
D435 = Device("123", "D435", "5.16.0.1", "3.2", "5.16.0.1", NATIVE)
WELL = CameraMeasurement("front", "realsense", 30.0, 30.0, 0.0, "", 90, 0, D435)

#   name                     camera                                                              level   words
CAMERAS = [
    ("well", WELL, GREEN, "30.0 of 30 images/s, D435 123, USB 3.2, firmware 5.16.0.1, native backend"),
    ("no image", replace(WELL, frames=0, rate_hz=0.0, blind=1.0, reason="not connected"), RED, "not connected"),
    ("covered", replace(WELL, blind=1.0, reason="covered: 1 % valid"), RED, "blind 100% of the time: covered"),
    ("blind now and then", replace(WELL, blind=0.1, reason="no image"), AMBER, "blind 10% of the time: no image"),
    ("late once", replace(WELL, blind=0.02, reason="no image"), GREEN, ""),
    ("a little slow", replace(WELL, rate_hz=26.9), AMBER, "26.9 images/s, too few"),
    ("just fast enough", replace(WELL, rate_hz=27.0), GREEN, ""),
    ("far too slow", replace(WELL, rate_hz=14.9), RED, "14.9 images/s, too few"),
    ("restarted", replace(WELL, restarts=2), AMBER, "restarted 2 times"),
    ("USB 2", replace(WELL, device=replace(D435, usb_type="2.1")), AMBER, "connected over USB 2.1"),
    ("old firmware", replace(WELL, device=replace(D435, firmware="5.12")), AMBER, "recommends 5.16.0.1"),
    ("another lens", replace(WELL, lens=(Problem(RED, "its lens reports fx", "set it"),)), RED, "its lens"),
    ("rate not known", replace(WELL, rate_hz=None), GREEN, "D435"),
    ("over DDS", CameraMeasurement("front", "dds", 3.0, 3.0, 0.0, "", 9, 0), GREEN, "3.0 of 3 images/s"),
]


@pytest.mark.parametrize(("one", "level", "words"), [row[1:] for row in CAMERAS], ids=[row[0] for row in CAMERAS])
def test_one_camera(one: CameraMeasurement, level: Level, words: str) -> None:
    found = cameras.camera(one)
    assert found.level is level
    assert words in found.found
    assert bool(found.remedy) == (level is not GREEN)


def bus(*ports: str, firmware: str = "5.16.0.1") -> list[Device]:
    return [replace(D435, serial=str(number), port=port) for number, port in enumerate(ports)]


#   name                            on the bus                                                   parts with a fault
BUSES = [
    ("four native", bus(*[NATIVE] * 4), []),
    ("two on librealsense's own", bus("2-1", "2-2"), []),
    ("three on librealsense's own", bus("2-1", "2-2", "2-3"), ["backend"]),
    ("a stranger", [*bus(NATIVE), replace(D435, serial="999")], ["bus"]),
    ("two firmwares", [bus(NATIVE)[0], replace(bus(NATIVE, NATIVE)[1], firmware="5.12")], ["firmware"]),
]


@pytest.mark.parametrize(("devices", "parts"), [row[1:] for row in BUSES], ids=[row[0] for row in BUSES])
def test_the_bus(devices: list[Device], parts: list[str]) -> None:
    sources = [Source("front", serial=str(number)) for number in range(4)]
    found = cameras.on_the_bus(sources, devices)
    assert [one.part for one in found] == parts
    assert all(one.level is AMBER for one in found)


def mounts_of(*names: str, width: int = 64, height: int = 48, focal: float = 32.0) -> Mounts:
    centre = ((width - 1) / 2, (height - 1) / 2)
    one = Mount("", "", width, height, focal, focal, *centre, 0.001, np.eye(4), (0.0, 0.0, 0.0, 1.0))
    return Mounts(Path("mounts.toml"), {name: replace(one, name=name) for name in names}, {})


def test_a_recording_in_the_place_of_a_device_is_measured(tmp_path: Path) -> None:
    """The real librealsense in a process of its own, playing for ever; another focal length in the mounts shows."""
    pytest.importorskip("pyrealsense2", exc_type=ImportError)
    file = make_recording(tmp_path / "walk.db3", Scene(count=20, period_ms=50.0))
    section = CamerasSection(source="realsense", recordings={"front": file}, stale_ms=20_000, color="none")
    config = Config(cameras=section, dds=SECTION)
    (one,) = camera_probe.measure_by_opening(config, mounts_of("front", focal=33.0), 1.5)
    assert one.device is not None
    assert (one.name, one.kind, one.device.serial, one.wanted_hz) == ("front", "realsense", SERIAL, 30.0)
    assert one.blind == 0.0, one.reason
    assert one.rate_hz is not None
    assert 0.0 < one.rate_hz < 30.0
    assert [problem.level for problem in one.lens] == [RED]


def test_images_over_dds_are_counted() -> None:
    """One camera is sent, the other not."""
    config = Config(cameras=CamerasSection(source="dds", color="none", stale_ms=20_000), dds=SECTION)
    sender, ended, image = Wire(SECTION), threading.Event(), np.full((48, 64), 1000, np.uint16)
    writer = sender.writer("front/depth/image")

    def send() -> None:
        while not ended.wait(0.02):
            writer.write(ros_image(wall_ns(), "front", "16UC1", image))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        there, missing = camera_probe.measure_by_opening(config, mounts_of("front", "rear"), 1.0)
    finally:
        ended.set()
        thread.join()
        sender.close()
    assert (there.name, there.blind, there.restarts) == ("front", 0.0, 0)
    assert there.rate_hz is not None
    assert 1.0 < there.rate_hz <= 50.0
    assert (missing.name, missing.frames, missing.blind, missing.reason) == ("rear", 0, 1.0, "no image yet")
    assert cameras.camera(missing).level is RED


def said(second: int, **rows: Row) -> RuntimeStatus:
    return RuntimeStatus(
        second * NS_PER_S,
        {"runtime": Row(0, "idle", {}), **{name.replace("_", " "): row for name, row in rows.items()}},
    )


def test_a_running_runtime_is_asked_and_not_disturbed() -> None:
    reported = {"device": str({"serial": "123", "name": "D435", "firmware": "5.1", "usb_type": "2.1", "port": NATIVE})}
    first = said(10, camera_front=Row(0, "working", {"frames": "100", "restarts": "0"}))
    last = said(12, camera_front=Row(2, "covered", {"frames": "130", "restarts": "1", **reported}))
    config = Config(cameras=CamerasSection(source="realsense"))
    (one,) = camera_probe.measure_by_diagnostics(config, mounts_of("front"), [first, last])
    assert (one.rate_hz, one.frames, one.restarts, one.blind, one.reason) == (15.0, 130, 1, 1.0, "covered")
    assert one.device == Device("123", "D435", "5.1", "2.1", "", NATIVE)


@pytest.mark.parametrize("reported", ["many", "-3", "1e3", "9" * 400, "\u0663", ""])
def test_counts_that_are_none_are_none(reported: str) -> None:
    """Whoever is on the domain may say so; to the doctor that camera has shown nothing."""
    rows = [
        said(second, camera_front=Row(0, "working", {"frames": reported, "restarts": reported})) for second in (1, 2)
    ]
    (one,) = camera_probe.measure_by_diagnostics(Config(), mounts_of("front"), rows)
    assert (one.rate_hz, one.frames, one.restarts) == (None, 0, 0)
    assert cameras.camera(one).level is RED


@pytest.mark.parametrize("values", [{}, {"device": ""}, {"device": "{'serial': "}, {"device": "nonsense"}])
def test_no_device_is_made_of_nonsense(values: dict[str, str]) -> None:
    assert device_of_row(values) is None


#   name                messages                                                                      rate
RATES = [
    ("one message", [said(1, camera_a=Row(0, "", {"frames": "5"}))], None),
    ("the same time twice", [said(1, camera_a=Row(0, "", {"frames": "5"}))] * 2, None),
    ("no such row", [said(1), said(2)], None),
    ("ten a second", [said(n, camera_a=Row(0, "", {"frames": str(10 * n)})) for n in range(1, 4)], 10.0),
]


@pytest.mark.parametrize(("messages", "rate"), [row[1:] for row in RATES], ids=[row[0] for row in RATES])
def test_rates_from_diagnostics(messages: list[RuntimeStatus], rate: float | None) -> None:
    assert wire_probe.rate_hz(messages, "camera a", "frames") == rate


def test_only_this_robots_runtime_is_heard() -> None:
    rows = [("runtime", 2, "stopped: e_stop", {"ticks": 3}), ("recorder", 1, "dropped: 3", {})]
    samples = [
        ros_diagnostics(NS_PER_S, "robot", rows),
        ros_diagnostics(NS_PER_S, "another", rows),
        ros_diagnostics(NS_PER_S, "robot", [("battery", 0, "full", {})]),
    ]
    (one,) = wire_probe.statuses_of("robot", samples)
    found = wire_probe.findings([one], claimed=True)
    assert [(row.part, row.level, row.found) for row in found] == [
        ("runtime", RED, "stopped: e_stop"),
        ("recorder", AMBER, "dropped: 3"),
    ]
    assert all(row.remedy for row in found)


def test_a_runtime_that_holds_the_robot_and_is_silent_is_red() -> None:
    config = Config(dds=SECTION)
    wire = Wire(SECTION)
    assert not wire_probe.is_claimed(wire.domain, config)
    claim = Claim(wire, config.robot.name)
    assert wire_probe.is_claimed(wire.domain, config)
    claim.close()
    wire.close()
    assert wire_probe.findings([], claimed=False) == []
    assert wire_probe.findings([], claimed=True)[0].level is RED


#   how much lower the floor is than the mount says [m], tilt [deg], images with a floor; level, words
FLOORS = [
    (0.0, 0.5, 10, None, ""),
    (0.03, 0.0, 10, AMBER, "0.03 m lower than mounts.toml says, and tilted by 0.0 deg"),
    (0.13, 0.0, 10, RED, "0.13 m lower"),
    (-0.0635, 0.0, 10, RED, "0.06 m higher"),
    (0.0, 3.0, 10, RED, "tilted by 3.0 deg"),
    (0.13, 0.0, 2, None, ""),
]


@pytest.mark.parametrize(("lift_m", "tilt_deg", "images", "level", "words"), FLOORS)
def test_the_floor_that_a_camera_sees(lift_m, tilt_deg, images, level, words) -> None:
    found = cameras.floor_seen([(0.0, math.radians(tilt_deg), lift_m)] * images)
    assert [one.level for one in found] == ([] if level is None else [level])
    assert all(words in one.found for one in found)


def test_the_floor_is_searched_in_the_images_of_a_camera() -> None:
    """A camera 0.4 m above the floor, whose mount says 0.3 m."""
    mount = replace(mounts_of("front").depth["front"], base_from_camera=LOOKS_DOWN)
    v, u = np.indices((48, 64))
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)]).reshape(3, -1)
    down = LOOKS_DOWN[2, :3] @ rays
    image = np.where(down < -0.1, -0.4 / np.minimum(down, -0.1) / 0.001, 0.0).reshape(48, 64).astype(np.uint16)
    numbers = iter(range(1, 100))

    class Camera:
        name = "front"

        def latest(self, now_ns: int) -> DepthFrame:
            return DepthFrame("front", next(numbers), now_ns, image)

        def health(self) -> CameraHealth:
            return CameraHealth("front", True, "", 1, 0)

    watched = camera_probe._CameraWatch(Camera(), "dds", mount)
    for _ in range(30):
        assert not watched.poll()
    assert len(watched.floors) == camera_probe.MOST_FLOORS
    (problem,) = cameras.floor_seen(watched.floors)
    assert "0.10 m lower" in problem.found


LOOKS_DOWN = np.array([[0, -0.5, 0.866, 0.2], [-1, 0, 0, 0], [0, -0.866, -0.5, 0.3], [0, 0, 0, 1.0]])
