"""Cameras as the runtime sees them: real librealsense, real processes, real recordings."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from onboard.config.config import CamerasSection
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.realsense import cameras
from onboard.drivers.realsense.cameras import camera_sources, open_cameras
from onboard.drivers.realsense.device import Source
from onboard.drivers.realsense.supervisor import CameraProcess, CaptureCamera, CaptureColorCamera, Patience
from onboard.values import images
from onboard.values.errors import ConfigError, InputError
from onboard.values.images import policy_image
from onboard.values.messages import DepthFrame
from tests.onboard.drivers.realsense.test_device import OFFICE, with_a_cut_image
from tests.rigs.devices.software_camera import Scene, make_recording
from tests.rigs.machine.waiting import alive, until

pytest.importorskip("pyrealsense2", exc_type=ImportError)

FAKE = Path(__file__).parents[4] / "tests/rigs/devices/fake_camera.py"
PATIENCE = Patience(stale_s=0.3, stall_s=5.0, backoff_s=(0.01, 0.1))
NO_HURRY = replace(PATIENCE, stale_s=60.0)
RATE_HZ = 20.0
"""Slow enough for a busy machine to see most frames."""


def mount(name: str, width: int = 640, height: int = 480, serial: str = "") -> Mount:
    return Mount(name, serial, width, height, 384.0, 384.0, 320.0, 240.0, 0.001, np.eye(4), (0.0, 0.0, 0.0, 1.0))


def mounts(*depth: Mount, color: Mount | None = None) -> Mounts:
    colors = {} if color is None else {color.name: color}
    return Mounts(Path("mounts.toml"), {one.name: one for one in depth}, colors)


@pytest.fixture
def opened() -> Iterator[list[CaptureCamera | CaptureColorCamera]]:
    cameras: list[CaptureCamera | CaptureColorCamera] = []
    yield cameras
    for camera in cameras:
        camera.close()


def collect(camera: CaptureCamera, count: int) -> list[DepthFrame]:
    """Return `count` frames, one of each number, as `latest` gave them; a busy machine misses some between."""
    frames: list[DepthFrame] = []

    def enough() -> bool:
        frame = camera.latest(time.monotonic_ns())
        if frame is not None and (not frames or frame is not frames[-1]):
            frames.append(frame)
        return len(frames) >= count

    until(enough)
    return frames


def test_depth_comes_through_recorder_playback_and_memory_bit_for_bit(tmp_path: Path, opened: list) -> None:
    scene = Scene(count=8)
    path = make_recording(tmp_path / "walk.db3", scene)
    source = Source("front", "depth", "", str(path), 64, 48, 0, 0.001, rate_hz=RATE_HZ)
    camera = CaptureCamera(CameraProcess(source, NO_HURRY))
    opened.append(camera)
    camera.process.watch()
    frames = collect(camera, scene.count // 2)
    for frame in frames:
        assert np.array_equal(frame.depth, scene.image(frame.number - 1))
    for earlier, later in pairwise(frames):
        assert earlier.number < later.number
        assert earlier.stamp_ns < later.stamp_ns
    assert frames[-1].stamp_ns <= time.monotonic_ns()
    until(lambda: camera.latest(time.monotonic_ns()) is None)
    until(lambda: camera.health().reason == "recording ended after 8 frames")
    assert not camera.health().working


def test_a_looped_recording_goes_on_with_ascending_numbers(tmp_path: Path, opened: list) -> None:
    scene = Scene(count=3)
    path = make_recording(tmp_path / "walk.db3", scene)
    source = Source("front", "depth", "", str(path), 64, 48, loop=True, rate_hz=RATE_HZ)
    camera = CaptureCamera(CameraProcess(source, NO_HURRY))
    opened.append(camera)
    camera.process.watch()
    for frame in collect(camera, 3 * scene.count):
        assert np.array_equal(frame.depth, scene.image((frame.number - 1) % scene.count))


def test_the_real_recording_comes_back_after_a_kill(opened: list, monkeypatch: pytest.MonkeyPatch) -> None:
    section = CamerasSection(
        source="realsense",
        color="none",
        recordings={"front": OFFICE},
    )
    monkeypatch.setattr(cameras, "RESTART_BACKOFF_S", (0.05, 0.1))
    monkeypatch.setattr(cameras, "STALL_RESTART_S", 20.0)
    (camera,), color = open_cameras(mounts(mount("front")), section)
    opened.append(camera)
    assert color is None
    frames = collect(camera, 10)
    assert all(frame.depth.shape == (480, 640) and np.mean(frame.depth > 0) > 0.5 for frame in frames)
    health = camera.health()
    assert (health.camera, health.working, health.reason, health.restarts) == ("front", True, "", 0)
    until(lambda: camera.health().detail.get("fx") == 384.0)
    pid = camera.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    until(lambda: camera.latest(time.monotonic_ns()) is None)
    assert not camera.health().working
    assert camera.health().reason
    seen = camera.health().frames
    until(lambda: camera.health().frames > seen)
    assert collect(camera, 2)[1].number > frames[-1].number
    assert camera.health().restarts >= 1
    pid = camera.process.pid
    assert pid is not None
    camera.close()
    camera.close()
    assert not alive(pid)
    assert camera.latest(time.monotonic_ns()) is None
    assert (camera.health().working, camera.health().reason) == (False, "closed")


@pytest.mark.parametrize("loop", [False, True], ids=["once", "looped"])
def test_a_recording_damaged_inside_is_told_and_not_tried_again(tmp_path: Path, loop: bool, opened: list) -> None:
    path = tmp_path / "damaged.db3"
    path.write_bytes(OFFICE.read_bytes())
    with_a_cut_image(path)
    source = Source("front", "depth", "", str(path), 640, 480, loop=loop)
    camera = CaptureCamera(CameraProcess(source, PATIENCE))
    opened.append(camera)
    camera.process.watch()
    until(lambda: "recording is damaged: depth frames stop at" in camera.health().reason)
    assert camera.health().restarts == 0
    assert camera.latest(time.monotonic_ns()) is None


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (640, 480)])
def test_colour_arrives_at_the_policys_size(width: int, height: int, tmp_path: Path, opened: list) -> None:
    scene = Scene(stream="color", width=width, height=height, count=2)
    path = make_recording(tmp_path / "colour.db3", scene)
    section = CamerasSection(source="none", color="realsense", recordings={"color": path}, stale_ms=60_000)
    depth, camera = open_cameras(mounts(mount("front"), color=mount("color")), section)
    assert camera is not None
    opened.append(camera)
    assert depth == []
    until(lambda: camera.latest(time.monotonic_ns()) is not None)
    frame = camera.latest(time.monotonic_ns())
    assert frame is not None
    assert np.array_equal(frame.image, policy_image(scene.image(frame.number - 1)))
    assert camera.health().working


def fake(mode: str, stale_s: float = 60.0) -> CaptureCamera:
    source = Source("front", serial="1", width=8, height=6)
    process = CameraProcess(source, replace(PATIENCE, stale_s=stale_s), [sys.executable, str(FAKE), mode])
    return CaptureCamera(process)


def test_a_covered_lens_is_blind(opened: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MIN_VALID_FRACTION", 0.1)
    camera = fake("covered")
    opened.append(camera)
    camera.process.supervise(0)
    until(lambda: camera.health().frames > 0)
    assert camera.latest(0) is None
    health = camera.health()
    assert (health.working, health.reason) == (False, "covered: 6.2 % valid pixels, limit 10 %")


#   name             mounts                                              section                         message
REFUSED = [
    (
        "nothing to open",
        mounts(mount("front")),
        {"source": "realsense"},
        "mounts.toml: camera front: has no serial, and cameras.recordings has no file for it",
    ),
    (
        "recording of no camera",
        mounts(mount("front", serial="1")),
        {"source": "realsense", "recordings": {"back": OFFICE}},
        "cameras.recordings: unknown camera back, mounts.toml has front",
    ),
    (
        "one serial twice",
        mounts(mount("front", serial="7"), mount("rear", serial="7")),
        {"source": "realsense"},
        "mounts.toml: cameras front and rear have the same serial 7",
    ),
    (
        "colour from a depth camera",
        mounts(mount("front", serial="7")),
        {"source": "realsense", "color": "realsense", "color_serial": "7"},
        "mounts.toml: cameras front and color have the same serial 7",
    ),
    (
        "no colour camera",
        mounts(mount("front", serial="7")),
        {"source": "none", "color": "realsense"},
        "mounts.toml: camera color: has no serial",
    ),
]


@pytest.mark.parametrize(("name", "mounted", "section", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_configuration_that_names_no_camera_is_refused(
    name: str, mounted: Mounts, section: dict, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        camera_sources(mounted, CamerasSection(**{"color": "none", **section}))
    assert str(error.value).startswith(message)


def test_a_configuration_becomes_sources() -> None:
    section = CamerasSection(
        source="realsense",
        color="realsense",
        color_serial="9",
        fps=15,
        recordings={"rear": OFFICE},
    )
    found = camera_sources(mounts(mount("front", serial="7"), mount("rear")), section)
    assert found == [
        Source("front", "depth", "7", "", 640, 480, 15, 0.001, loop=True),
        Source("rear", "depth", "", str(OFFICE), 640, 480, 15, 0.001, loop=True),
        Source("color", "color", "9", "", 1280, 720, 15, 0.0, loop=True),
    ]


def test_a_recording_that_does_not_fit_stops_the_start() -> None:
    section = CamerasSection(source="realsense", color="none", recordings={"front": OFFICE})
    with pytest.raises(InputError, match="depth images are 640x480, the mount of front says 80x60"):
        open_cameras(mounts(mount("front", 80, 60)), section)
