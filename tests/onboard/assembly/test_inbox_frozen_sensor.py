"""Frozen sensors: an image or scan that stays the same while the base moves is dropped."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.assembly.inbox import UnchangedScans, UnchangedWatch
from onboard.values.messages import BINS, DepthFrame, OdometryMessage, Pose, Scan, Twist
from tests.rigs.recordings.replay_references import office_images

STEP_NS = 100_000_000
LIMIT_M = 0.15


def picture(seed: int) -> np.ndarray:
    """Return a depth image (480, 848) uint16 [mm] with noise in it."""
    return np.random.default_rng(seed).integers(300, 9000, (480, 848)).astype(np.uint16)


def frame(number: int, depth: np.ndarray, camera: str = "front") -> DepthFrame:
    return DepthFrame(camera, number, 0, depth)


def moving(v_mps: float = 0.0, w_radps: float = 0.0) -> Iterator[OdometryMessage]:
    """Yield messages a tenth of a second apart."""
    number = 0
    while True:
        number += 1
        yield OdometryMessage(0, number * STEP_NS, None, Twist(v_mps, w_radps))


#   name, speeds, pictures of successive frames (None: no new frame), believed at each step
STEPS = [
    ("a live camera", (1.0, 0.0), [1, 2, 3, 4, 5], [True] * 5),
    ("the same picture", (1.0, 0.0), [1, 1, 1, 1], [True, True, False, False]),
    ("the same picture, backward", (-1.0, 0.0), [1, 1, 1, 1], [True, True, False, False]),
    ("the same picture in a turn", (0.0, 1.0), [1, 1, 1, 1], [True, True, False, False]),
    ("a live one again", (1.0, 0.0), [1, 1, 1, 2, 3], [True, True, False, True, True]),
    ("the same picture of who stands", (0.0, 0.0), [1] * 6, [True] * 6),
    ("no new frame is no picture", (1.0, 0.0), [1, None, None, None, 2], [True] * 5),
    ("a slow camera that is stuck", (1.0, 0.0), [1, None, None, 1, 1], [True, True, True, False, False]),
    ("two pictures in turn", (1.0, 0.0), [1, 2, 1, 2, 1], [True, True, True, False, False]),
    ("four in turn", (1.0, 0.0), [1, 2, 3, 4, 1, 2, 3], [True] * 5 + [False] * 2),
    ("one that was long ago", (1.0, 0.0), [1, 2, 3, 4, 5, 1, 6], [True] * 7),
    ("slowly", (0.4, 0.0), [1] * 6, [True, True, True, True, False, False]),
    ("odometry that is no number", (float("nan"), 0.0), [1] * 6, [True] * 6),
]


@pytest.mark.parametrize(("name", "speeds", "pictures", "believed"), STEPS, ids=[row[0] for row in STEPS])
def test_frozen_cameras_are_dropped(
    name: str, speeds: tuple[float, float], pictures: list[int | None], believed: list[bool]
) -> None:
    watch, base, number, shown = UnchangedWatch(LIMIT_M), moving(*speeds), 0, picture(0)
    found = []
    for seed in pictures:
        if seed is not None:
            number, shown = number + 1, picture(seed)
        found.append("front" in watch.believed({"front": frame(number, shown)}, [next(base)]))
        assert bool(watch.reason("front")) is not found[-1]
    assert found == believed


def test_a_base_without_twist_moves_by_its_pose() -> None:
    watch, believed = UnchangedWatch(LIMIT_M), []
    for number in range(4):
        odometry = OdometryMessage(0, number * STEP_NS, Pose(0.1 * number, 0.0, 0.0), Twist(0.0, 0.0))
        believed.append(bool(watch.believed({"front": frame(number, picture(1))}, [odometry])))
    assert believed == [True, True, False, False]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["x_m", "y_m", "yaw_rad", "v_mps", "w_radps"])
def test_invalid_odometry_is_ignored(field: str, odd: float) -> None:
    """The tick goes on with any odometry; finite values of the same message count."""
    watch, values = UnchangedWatch(LIMIT_M), {field: odd}
    pose = Pose(**{name: values.get(name, 0.0) for name in ("x_m", "y_m", "yaw_rad")})
    twist = Twist(**{name: values.get(name, 0.0) for name in ("v_mps", "w_radps")})
    for number in range(6):
        odometry = OdometryMessage(0, number * STEP_NS, pose, twist)
        assert watch.believed({"front": frame(number, picture(1))}, [odometry])


def test_limit_zero_drops_nothing() -> None:
    watch, base = UnchangedWatch(0.0), moving(1.0)
    for number in range(9):
        assert watch.believed({"front": frame(number, picture(1))}, [next(base)])


def test_a_base_that_was_silent_has_not_driven_for_an_hour() -> None:
    """The base counts as moving for half a second at the new speed."""
    watch = UnchangedWatch(1.0)
    for number, arrival_ns in enumerate((0, 3600 * 10**9)):
        odometry = OdometryMessage(0, arrival_ns, None, Twist(1.0, 0.0))
        assert watch.believed({"front": frame(number, picture(1))}, [odometry])


@given(row=st.integers(0, 479), column=st.integers(0, 847))
def test_one_pixel_in_a_compared_row_is_a_change(row: int, column: int) -> None:
    watch, base, shown = UnchangedWatch(LIMIT_M), moving(1.0), picture(1)
    for number in range(6):
        shown[row, column] = 300 + number
        left = watch.believed({"front": frame(number, shown)}, [next(base)])
    assert bool(left) is (row % 8 == 0)


def test_one_frozen_camera_does_not_affect_the_others() -> None:
    watch, base = UnchangedWatch(LIMIT_M), moving(1.0)
    for number in range(5):
        frames = {"front": frame(number, picture(1)), "left": frame(number, picture(number), "left")}
        left = watch.believed(frames, [next(base)])
    assert list(left) == ["left"]


def test_a_real_camera_shows_no_picture_twice() -> None:
    """Forty frames of a RealSense camera that hardly moves: live, whatever distance the odometry reports."""
    watch, base = UnchangedWatch(LIMIT_M), moving(3.0)
    pictures = list(office_images())
    assert len(pictures) == 40
    for number, depth in enumerate(pictures):
        assert watch.believed({"front": frame(number, depth)}, [next(base)])


def scan(stamp_ns: int, range_m: float) -> Scan:
    return Scan(stamp_ns, np.full(BINS, range_m, np.float32), np.ones(BINS, np.bool_))


#   name, speed, range of successive scans, which of them is believed at each step
SCANS = [
    ("a live one", 1.0, [1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3]),
    ("the same one", 1.0, [1.0] * 5, [0, 1, 1, 1, 1]),
    ("a live one again", 1.0, [1.0, 1.0, 1.0, 2.0], [0, 1, 1, 3]),
    ("the same one of who stands", 0.0, [1.0] * 5, [0, 1, 2, 3, 4]),
    ("nothing in sight, again and again", 1.0, [math.inf] * 5, [0, 1, 2, 3, 4]),
    ("nothing in sight any more", 1.0, [1.0, math.inf, math.inf, math.inf], [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("name", "speed", "ranges", "believed"), SCANS, ids=[row[0] for row in SCANS])
def test_a_scan_that_stays_the_same_is_held_back(
    name: str, speed: float, ranges: list[float], believed: list[int]
) -> None:
    """The last live scan stays, turns stale, and the robot stops."""
    watch, base, found = UnchangedScans(LIMIT_M), moving(speed), []
    for number, range_m in enumerate(ranges):
        found.append(watch.believed({"laser": scan(number, range_m)}, [next(base)])["laser"].stamp_ns)
    assert found == believed


def test_one_frozen_scan_does_not_affect_the_others_and_zero_drops_none() -> None:
    for limit_m, held in ((LIMIT_M, 1), (0.0, 4)):
        watch, base = UnchangedScans(limit_m), moving(1.0)
        for number in range(5):
            left = watch.believed({"stuck": scan(number, 1.0), "live": scan(number, 1.0 + number)}, [next(base)])
        assert {name: one.stamp_ns for name, one in left.items()} == {"stuck": held, "live": 4}
