"""Images over DDS: encodings, sizes, freshness, a covered lens."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT, CamerasSection, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.camera_input import (
    DdsColorCamera,
    DdsDepthCamera,
    as_sent,
    changed_lens,
    color_from_ros,
    depth_from_ros,
    lens_topic,
)
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import header, ros_camera_info, ros_image
from onboard.drivers.dds.ros_types import CompressedImage
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from tests.rigs.network.loopback import SECTION, hear

FRONT = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
SMALL = replace(FRONT, width=3, height=2)
UNITS = np.array([[0, 1, 65534], [1000, 256, 2]], np.uint16)
MS = 1_000_000
CAMERAS = CamerasSection(stale_ms=300.0)


def image(encoding, array, **changes):
    """Return an image message; `changes` replace its fields."""
    sample = ros_image(0, "camera", encoding, array)
    for name, value in changes.items():
        setattr(sample, name, value)
    return sample


def padded(array, padding):
    """Return (bytes, step) of an image whose rows are followed by padding."""
    rows = [row.tobytes() + b"\xee" * padding for row in array]
    return b"".join(rows), len(rows[0])


def test_depth_passes_as_it_is():
    for encoding in ("16UC1", "mono16"):
        np.testing.assert_array_equal(depth_from_ros(image(encoding, UNITS), SMALL), UNITS)


def test_big_endian_depth():
    depth = depth_from_ros(image("16UC1", UNITS.astype(">u2"), is_bigendian=1), SMALL)
    np.testing.assert_array_equal(depth, UNITS)
    assert depth.dtype == np.dtype(np.uint16)


@pytest.mark.parametrize("padding", [1, 2, 7])
def test_padded_rows(padding):
    data, step = padded(UNITS, padding)
    np.testing.assert_array_equal(depth_from_ros(image("16UC1", UNITS, data=data, step=step), SMALL), UNITS)


def test_depth_is_the_callers_own():
    assert depth_from_ros(image("16UC1", UNITS), SMALL).flags.writeable


#    metres        units of 1 mm; 0 is no return
METRES = [
    (1.0, 1000),
    (0.0006, 1),
    (65.534, 65534),
    (65.535, 0),
    (66.0, 0),
    (0.0, 0),
    (-1.0, 0),
    (np.nan, 0),
    (np.inf, 0),
    (-np.inf, 0),
]


@pytest.mark.parametrize(("metres", "units"), METRES)
def test_depth_in_metres(metres, units):
    depth = depth_from_ros(image("32FC1", np.full((2, 3), metres, np.float32)), SMALL)
    np.testing.assert_array_equal(depth, np.full((2, 3), units))


#    image                                              what the message names
BAD_DEPTH = [
    (image("16UC1", np.ones((4, 5), np.uint16)), "image is 5x4, mounts say 3x2"),
    (image("16UC1", UNITS, data=b"123"), "3 bytes"),
    (image("16UC1", UNITS, step=5), "rows of 5"),
    (image("rgb8", np.ones((2, 3, 3), np.uint8)), "'rgb8'"),
    (image("16UC1", UNITS, width=2**31, height=2**31), "mounts say 3x2"),
]


@pytest.mark.parametrize(("sample", "named"), BAD_DEPTH)
def test_bad_depth_is_refused(sample, named):
    with pytest.raises(InputError, match=named):
        depth_from_ros(sample, SMALL)


def color(height=144, width=256):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


def larger():
    return np.repeat(np.repeat(color(), 5, axis=0), 5, axis=1)


def padded_color():
    data, step = padded(color(), 3)
    return image("rgb8", color(), data=data, step=step)


COLORS = {
    "as it is": image("rgb8", color()),
    "blue first": image("bgr8", color()[..., ::-1]),
    "averaged": image("rgb8", larger()),
    "padded": padded_color(),
}


@pytest.mark.parametrize("sample", COLORS.values(), ids=COLORS)
def test_color_arrives_in_the_policys_size(sample):
    np.testing.assert_array_equal(color_from_ros(sample), color())


@pytest.mark.parametrize(
    ("sample", "named"),
    [
        (image("mono16", color()[..., 0]), "'mono16'"),
        (image("rgb8", color(), width=0, height=0, data=b""), r"shape \(0, 0, 3\)"),
    ],
)
def test_bad_color_is_refused(sample, named):
    with pytest.raises(InputError, match=named):
        color_from_ros(sample)


def sent(wires, name, sample):
    """Write a sample and return when a reader beside the camera's has it."""
    witness = wires[0].reader(name)
    writer = wires[1].writer(name)
    assert wait_until(lambda: writer.readers() >= 1 and witness.writers() != frozenset(), 5.0)
    writer.write(sample)
    assert hear(witness)
    witness.close()


def good():
    return ros_image(0, "front", "16UC1", np.full((60, 80), 1500, np.uint16))


def test_camera_without_an_image_is_blind(wires):
    camera = DdsDepthCamera(wires[0], FRONT, CAMERAS)
    assert camera.latest(0) is None
    assert (camera.health().working, camera.health().reason) == (False, "no image yet")


def test_camera_gives_the_frame_until_it_is_stale(wires):
    camera = DdsDepthCamera(wires[0], FRONT, CAMERAS)
    sent(wires, "front/depth/image", good())
    frame = camera.latest(1000 * MS)
    assert (frame.camera, frame.number, frame.stamp_ns, frame.depth[0, 0]) == ("front", 1, 1000 * MS, 1500)
    assert camera.health().working
    assert camera.latest(1300 * MS) is frame
    assert camera.latest(1301 * MS) is None
    assert "301 ms, limit 300 ms" in camera.health().reason
    sent(wires, "front/depth/image", good())
    assert camera.latest(1400 * MS).number == 2
    assert camera.health().working


def test_another_lens_than_at_the_start_blinds_a_camera_whose_lens_was_taken(wires):
    """Written numbers stay what they are, whatever `camera_info` says."""
    taken = DdsDepthCamera(wires[0], replace(FRONT, lens_taken=True), CAMERAS)
    written = DdsDepthCamera(wires[0], FRONT, CAMERAS)
    row = lens_topic(SECTION, "front")
    infos = wires[1].writer(row)
    infos.write(ros_camera_info(0, FRONT))
    sent(wires, "front/depth/image", good())
    assert wait_until(lambda: taken.latest(MS) is not None, 2.0)
    infos.write(ros_camera_info(0, replace(FRONT, fx=41.0)))
    sent(wires, "front/depth/image", good())
    assert wait_until(lambda: taken.latest(MS) is None, 2.0)
    assert "fx 41; at the start 80x60, fx 40" in taken.health().reason
    assert wait_until(lambda: written.latest(MS) is not None, 2.0)


@pytest.mark.parametrize("end", ["", "/compressed", "/compressedDepth"])
def test_the_lens_is_next_to_the_raw_topic_whatever_the_codec(end):
    section = DdsSection(remap={"front/depth/image": f"/c/depth/image_rect{end}"})
    assert lens_topic(section, "front").wire == "/c/depth/camera_info"
    changed = changed_lens(ros_camera_info(0, replace(FRONT, fx=41.0)), FRONT, f"/c/depth/image_rect{end}")
    assert "/c/depth/camera_info" in changed


class LaterExecutor:
    """Decodes when `work` is called; `asked` counts."""

    def __init__(self) -> None:
        self.asked, self._queue = 0, []

    def submit(self, decode):
        self.asked += 1
        self._queue.append((decode, Future()))
        return self._queue[-1][1]

    def work(self):
        for decode, future in self._queue:
            try:
                future.set_result(decode())
            except InputError as error:
                future.set_exception(error)
        self._queue = []


def test_a_compressed_image_is_decoded_beside_the_tick_and_of_several_the_newest():
    section = SECTION.model_copy(update={"remap": {"front/depth/image": "/a/compressedDepth"}})
    ours, theirs = Wire(section), Wire(section)
    executor = LaterExecutor()
    camera = DdsDepthCamera(ours, FRONT, CAMERAS, executor)
    for number, value in enumerate((1000, 1001, 1002)):
        image = ros_image(number * MS + 1, "front", "16UC1", np.full((60, 80), value, np.uint16))
        sent((ours, theirs), "front/depth/image", as_sent(image, section, "front/depth/image"))
        assert camera.latest(number * MS) is None
    assert (executor.asked, camera.sent_ns) == (1, 0)
    executor.work()
    frame = camera.latest(3 * MS)
    assert (frame.number, frame.stamp_ns, frame.depth[0, 0], camera.sent_ns) == (1, 0, 1000, 1)
    executor.work()
    frame = camera.latest(4 * MS)
    assert (frame.number, frame.stamp_ns, frame.depth[0, 0], camera.sent_ns) == (3, 2 * MS, 1002, 2 * MS + 1)
    zstd = CompressedImage(header(3 * MS, "front"), "16UC1; compressedDepth zstd", b"1234")
    sent((ours, theirs), "front/depth/image", zstd)
    assert camera.latest(5 * MS) is frame
    executor.work()
    assert camera.latest(6 * MS) is None
    assert "'16UC1; compressedDepth zstd' cannot be read" in camera.health().reason
    theirs.close()
    ours.close()


#    what comes                                         the reason
BLIND = [
    (np.zeros((60, 80), np.uint16), "covered: 0.0 % valid pixels, limit 5 %"),
    (np.ones((48, 64), np.uint16), "image refused: image is 64x48, mounts say 80x60"),
]


@pytest.mark.parametrize(("depth", "reason"), BLIND)
def test_camera_says_why_it_is_blind_and_recovers(wires, depth, reason):
    camera = DdsDepthCamera(wires[0], FRONT, CAMERAS)
    sent(wires, "front/depth/image", good())
    assert camera.latest(0) is not None
    sent(wires, "front/depth/image", ros_image(0, "front", "16UC1", depth))
    assert camera.latest(1 * MS) is None
    assert camera.latest(2 * MS) is None
    assert (camera.health().working, camera.health().reason) == (False, reason)
    sent(wires, "front/depth/image", good())
    assert camera.latest(3 * MS) is not None
    assert camera.health().working


#   after the first [s]        taken
STAMPS = [
    ("later", 0.2, True),
    ("the same again: frozen", 0.0, False),
    ("earlier, as a repeat that came late", -0.5, False),
    ("of a clock that was set back", -10.1, True),
    ("of no clock at all", None, True),
]


@pytest.mark.parametrize(("what", "after_s", "taken"), STAMPS, ids=[row[0] for row in STAMPS])
def test_an_image_that_is_not_stamped_later_is_no_new_one(wires, what, after_s, taken):
    """A camera that hangs and sends its last image on must not pass for one that sees."""
    camera, first_ns = DdsDepthCamera(wires[0], FRONT, CAMERAS), 1000 * NS_PER_S
    pixels = np.full((60, 80), 1500, np.uint16)
    sent(wires, "front/depth/image", ros_image(first_ns, "front", "16UC1", pixels))
    assert camera.latest(0) is not None
    stamp_ns = 0 if after_s is None else first_ns + round(after_s * NS_PER_S)
    sent(wires, "front/depth/image", ros_image(stamp_ns, "front", "16UC1", pixels))
    assert camera.latest(200 * MS).number == (2 if taken else 1)
    assert (camera.latest(400 * MS) is not None) == taken
    assert camera.health().detail["repeated"] == (0 if taken else 1)


def test_color_camera(wires):
    camera = DdsColorCamera(wires[0], CAMERAS)
    assert camera.latest(0) is None
    sent(wires, "color/image", ros_image(0, "color", "rgb8", color()))
    frame = camera.latest(5 * MS)
    np.testing.assert_array_equal(frame.image, color())
    assert (frame.number, frame.stamp_ns, camera.health().working) == (1, 5 * MS, True)
    sent(wires, "color/image", ros_image(0, "color", "mono16", color()[..., 0]))
    assert camera.latest(6 * MS) is None
    assert "'mono16'" in camera.health().reason


@pytest.mark.parametrize(("judge_late", "ages_ms"), [(True, [0, 0, 100, None, None, 0]), (False, [0] * 6)])
def test_pictures_that_come_late_at_an_even_pace_age_by_that(wires, monkeypatch, judge_late, ages_ms):
    """As through a network that has filled its queues: by their arrival they would be new."""
    monkeypatch.setattr(wires[0], "section", wires[0].section.model_copy(update={"judge_late": judge_late}))
    camera, first_ns = DdsDepthCamera(wires[0], FRONT, CAMERAS), 1000 * NS_PER_S
    found = []
    for number, late_ms in enumerate((20, 20, 120, 420, 420, 20)):
        pixels = np.full((60, 80), 1500 + number, np.uint16)
        sent(wires, "front/depth/image", ros_image(first_ns + number * 100 * MS, "front", "16UC1", pixels))
        now_ns = (number * 100 + late_ms) * MS
        frame = camera.latest(now_ns)
        found.append(None if frame is None else round((now_ns - frame.stamp_ns) / MS))
        if frame is None:
            assert camera.health().reason == "no image for 400 ms, limit 300 ms, which came 400 ms late"
    assert found == ages_ms
