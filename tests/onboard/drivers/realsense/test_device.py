"""Depth values, stamps and lenses come through the real librealsense unchanged; bad recordings are one line each."""

from __future__ import annotations

import json
import sqlite3
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onboard.drivers.realsense import device
from onboard.drivers.realsense.device import Source, list_devices, read_depth_frame, read_intrinsics
from onboard.values.errors import DriverError, InputError, MissingExtraError
from tests.rigs.devices.software_camera import SERIAL, Scene, make_recording, run

pytest.importorskip("pyrealsense2", exc_type=ImportError)

DATA = Path(__file__).parents[3] / "data"
OFFICE = DATA / "realsense-recording/office_40f.db3"
OFFICE_SOURCE = Source("front", recording=str(OFFICE), width=640, height=480, depth_scale_m=0.001)
SCENE = Scene(depth_scale_m=0.00025)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_recording(tmp_path_factory.mktemp("software") / "walk.db3", SCENE)


def test_recorded_frames_come_back_bit_for_bit(recording: Path) -> None:
    for index in range(SCENE.count):
        frame = read_depth_frame(recording, index)
        assert np.array_equal(frame.depth, SCENE.image(index))
        assert frame.depth.dtype == np.uint16
        assert (frame.camera, frame.number, frame.stamp_ns) == ("", index + 1, SCENE.stamp_ns(index))


def test_a_live_device_gives_every_frame_bit_for_bit() -> None:
    """The same through a pipeline, as a device with a serial number."""
    info, *frames, ended = map(json.loads, run("live", SCENE))
    fields = {"serial": SERIAL, "name": "Software Camera", "firmware": "1.2.3"}
    assert info["device"] == {**fields, "usb_type": "", "recommended": "", "port": ""}
    expected = [[SCENE.stamp_ns(index), zlib.crc32(SCENE.image(index).tobytes()), True] for index in range(SCENE.count)]
    assert frames == expected
    assert ended is False


def test_the_lens_is_read_from_the_recording(recording: Path) -> None:
    info = read_intrinsics(Source("front", recording=str(recording)))
    assert (info.width, info.height, info.fps) == (SCENE.width, SCENE.height, 30)
    assert (info.fx, info.fy, info.cx, info.cy) == (32.0, 32.0, 31.5, 23.5)
    assert (info.distortion, info.coefficients) == ("none", (0.0,) * 5)
    assert info.depth_scale_m == pytest.approx(0.00025)
    assert info.device.serial == SERIAL


def test_the_real_recording_holds_real_frames() -> None:
    info = read_intrinsics(OFFICE_SOURCE)
    assert (info.width, info.height, info.fx, info.cx, info.cy) == (640, 480, 384.0, 320.0, 240.0)
    first, last = read_depth_frame(OFFICE, 0), read_depth_frame(OFFICE, 39)
    assert last.stamp_ns - first.stamp_ns == 3_900_000_000
    for index, image in [(0, "depth_0.png"), (8, "depth_40.png"), (16, "depth_80.png")]:
        expected = np.asarray(Image.open(DATA / "realsense-office" / image))
        expected = np.where(expected == 65535, 0, expected)  # false depth is no return
        assert np.array_equal(read_depth_frame(OFFICE, index).depth, expected)


#   name               what differs                                       part of the message
DIFFERENT = [
    ("size", {"height": 400}, "depth images are 640x480, the mount of front says 640x400"),
    ("scale", {"depth_scale_m": 0.00025}, "depth scale is 0.001 m, the mount of front says depth_scale_m = 0.00025"),
    ("stream", {"stream": "color"}, "recording has no color stream"),
]


@pytest.mark.parametrize(("name", "change", "message"), DIFFERENT, ids=[row[0] for row in DIFFERENT])
def test_a_recording_that_differs_from_the_mount_is_refused(name: str, change: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_intrinsics(replace(OFFICE_SOURCE, **change))
    assert str(error.value) == f"{OFFICE}: {message}"


#   index  message
BEYOND = [
    (40, "no depth frame 40: has 40 depth frames, 0 to 39"),
    (10**6, "no depth frame 1000000: has 40 depth frames, 0 to 39"),
    (-1, "depth frame -1: the first is 0"),
]


@pytest.mark.parametrize(("index", "message"), BEYOND)
def test_an_index_beyond_the_end_names_how_many_there_are(index: int, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_depth_frame(OFFICE, index)
    assert str(error.value) == f"{OFFICE}: {message}"


def without_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (x)")
        database.commit()


def with_a_page_of_zeros(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.write_bytes(content)


def with_a_cut_image(path: Path) -> None:
    """The sixth depth image loses its end, in a file that is whole for SQLite."""
    images = "SELECT id FROM topics WHERE name LIKE '%/image/data%'"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            f"UPDATE messages SET data = substr(data, 1, 500) WHERE id IN "
            f"(SELECT id FROM messages WHERE topic_id IN ({images}) ORDER BY timestamp LIMIT 1 OFFSET 5)"
        )
        database.commit()


DAMAGED = [
    (without_tables, "recording cannot be played: "),
    (with_a_page_of_zeros, "database disk image is malformed"),
    (with_a_cut_image, "recording is damaged: depth frames stop at 0."),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGED, ids=[row[0].__name__ for row in DAMAGED])
def test_a_damaged_recording_is_refused_in_one_line(damage: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.db3"
    path.write_bytes(OFFICE.read_bytes())
    damage(path)  # type: ignore[operator]
    with pytest.raises(InputError) as error:
        read_depth_frame(path, 30)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_device_that_is_not_there_is_named_with_those_that_are() -> None:
    assert list_devices() == []
    with pytest.raises(DriverError) as error:
        read_intrinsics(Source("front", serial="0123", width=640, height=480, fps=30))
    assert str(error.value) == "camera front, serial 0123: not connected (connected: none)"


#   name       program of the child                                   message
MISBEHAVED = [
    ("hangs", "import signal; signal.pause()", "librealsense did not answer within 0.3 s"),
    ("aborts", "import os; os.write(1, b'terminate called'); os.abort()", "ended with code -6: terminate called"),
    ("is silent", "pass", "ended with code 0: nothing said"),
    ("babbles", "print('{'); print('{}'); print('[1]')", "ended with code 0: [1]"),
]


@pytest.mark.parametrize(("name", "program", "message"), MISBEHAVED, ids=[row[0] for row in MISBEHAVED])
def test_a_library_that_hangs_or_crashes_is_an_error(
    name: str, program: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "CHILD_COMMAND", (sys.executable, "-c", program))
    limit_s = 0.3 if name == "hangs" else 20.0
    with pytest.raises(InputError) as error:
        read_depth_frame(OFFICE, 0, limit_s)
    assert str(error.value).startswith(f"{OFFICE}: ")
    assert message in str(error.value)
    with pytest.raises(DriverError, match="librealsense"):
        list_devices(limit_s)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'onboard\[realsense\]'"):
        read_depth_frame(OFFICE, 0)
