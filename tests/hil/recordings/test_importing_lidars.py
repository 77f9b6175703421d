"""Bags with several lidars, a point cloud or an IMU: the scan is that of the room, by a definition of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from hil.recordings.bags.drive import import_bag
from hil.recordings.bags.plan import ImportOptions
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import header, ros_cloud, ros_odometry
from onboard.state import TickRecord
from onboard.values.errors import InputError
from onboard.values.frames import Frames, matrix, place_of
from onboard.values.messages import Pose, Twist
from tests.rigs.recordings.bag_rig import START_NS, Message, transform, write_ros1, write_ros2

ANGLES = np.radians(np.arange(-180.0, 180.0, 0.05) + 0.025)
WALL = (3.0 + np.sin(ANGLES + 0.3)) * np.array([np.cos(ANGLES), np.sin(ANGLES)])
"""A room without a symmetry, seen from the base: (2, n) [m]."""
BINS_M = np.hypot(*WALL).reshape(180, -1).min(axis=1)
"""The definition: the nearest point of the wall in each bin."""
TREE = ros.TFMessage(
    [
        transform("base", "front", (0.2, 0.05, 0.3), (0.0, 0.0, 0.0, 1.0)),
        transform("base", "mast", (-0.1, 0.0, 0.3), (0.0, 0.0, 1.0, 0.0)),
        transform("mast", "rear", (0.1, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)),  # upside down
        transform("base", "tilted", (0.0, 0.0, 0.3), (0.0, math.sin(0.1), 0.0, math.cos(0.1))),
    ]
)
FRAMES = Frames()
FRAMES.hear(TREE.transforms)
RAYS = np.radians(np.arange(-110.0, 110.0, 0.5))


def in_frame(frame: str, height_m: float) -> np.ndarray:
    """Return the wall at a height, (3, n) in a sensor's frame."""
    pose = FRAMES.between("base", frame)
    assert pose is not None
    points = np.vstack([WALL, np.full((1, WALL.shape[1]), height_m)])
    found: np.ndarray = pose[:3, :3].T @ (points - pose[:3, 3:])
    return found


def laser(at_ns: int, frame: str) -> ros.LaserScan:
    """Return a lidar that sees 220 deg of the wall."""
    x, y, _ = in_frame(frame, 0.3)
    bearing = np.arctan2(y, x)
    order = np.argsort(bearing)
    ranges = np.interp(RAYS, bearing[order], np.hypot(x, y)[order])
    return ros.LaserScan(
        header(at_ns, frame), float(RAYS[0]), float(RAYS[-1]), math.radians(0.5), 0.0, 0.1, 0.1, 20.0, ranges.tolist()
    )


def cloud(at_ns: int, frame: str) -> ros.PointCloud2:
    """Return an organised cloud of the wall, the floor before it, and points that are no return."""
    wall, floor = in_frame(frame, 0.6), 0.9 * in_frame(frame, -0.01)
    points = np.stack([wall, floor, np.full_like(wall, np.nan)]).transpose(0, 2, 1)
    sample = ros_cloud(at_ns, frame, points.reshape(-1, 3).astype(np.float32))
    sample.height, sample.width = points.shape[:2]
    sample.row_step = sample.width * sample.point_step
    return sample


def imu(at_ns: int, frame: str) -> ros.Imu:
    return ros.Imu(header(at_ns, frame), angular_velocity=ros.Vector3(0.0, 0.0, 0.25))


Writer = Callable[[Path, Iterable[Message]], Path]
MAKERS = {"/front": laser, "/rear": laser, "/tilted": laser, "/mast/points": cloud, "/rear/imu": imu}


def bag(folder: Path, *topics: str, write: Writer = write_ros2) -> Path:
    """Write a bag of a robot that stands, with these topics at 10 Hz."""
    messages: list[Message] = [("/tf_static", START_NS, TREE)]
    for number in range(12):
        at_ns = START_NS + number * 100_000_000
        messages.append(("/odom", at_ns, ros_odometry(at_ns, "odom", "base", Pose(0.0, 0.0, 0.0), Twist(0.0, 0.0))))
        messages += [(name, at_ns, MAKERS[name](at_ns, name.split("/")[1])) for name in topics]
    return write(folder / "bag", messages)


def imported(path: Path, options: ImportOptions) -> list[TickRecord]:
    """Return the ticks of an import."""
    result = import_bag([path], path.parent / "drive.mcap", options)
    with open_recording(result.file) as recording:
        return list(ticks_of(recording))


@pytest.mark.parametrize("write", [write_ros2, write_ros1], ids=lambda write: write.__name__)
@pytest.mark.parametrize(
    ("topics", "lidars"),
    [
        (("/front", "/rear"), ("/front", "/rear")),
        (("/mast/points",), ()),
        (("/front", "/mast/points"), ("/mast/points",)),
    ],
    ids=["two lasers, one upside down", "a cloud", "a laser and a cloud"],
)
def test_the_scan_is_the_rooms(topics: Sequence[str], lidars: Sequence[str], write: Writer, tmp_path: Path) -> None:
    ticks = imported(bag(tmp_path, *topics, write=write), ImportOptions({}, lidars=lidars, policy="reactive"))
    scan = ticks[-1].scan
    assert scan.seen.all()
    np.testing.assert_allclose(scan.ranges_m, BINS_M, atol=0.02)


def test_a_configuration_places_its_lidars_and_its_imu(tmp_path: Path) -> None:
    config = tmp_path / "robot.toml"
    places = {frame: FRAMES.between("base", frame) for frame in ("front", "rear")}
    lines = [f'"/{frame}" = {list(place_of(pose))}' for frame, pose in places.items() if pose is not None]
    config.write_text("\n".join(['[odometry]\nimu = "/rear/imu"', "[scan.lasers]", *lines]))
    path = bag(tmp_path, "/front", "/rear", "/rear/imu")
    ticks = imported(path, ImportOptions({}, config=config, policy="reactive"))
    np.testing.assert_allclose(ticks[-1].scan.ranges_m, BINS_M, atol=0.02)
    rates = [sample.yaw_radps for tick in ticks for sample in tick.inputs.imu]
    assert len(rates) == 12
    assert rates == pytest.approx([-0.25] * 12), "it hangs upside down"


@pytest.mark.parametrize(
    ("lidars", "line"),
    [
        (("/front", "/tilted"), "--lidar: lasers: /tilted is tilted by 11.5 deg, limit 5 deg"),
        (("/odom",), "--lidar /odom: is a nav_msgs/msg/Odometry, must be sensor_msgs/msg/LaserScan or"),
        (
            (),
            "several topics can be the laser: name one with --laser, or fuse them, each with --lidar: /front, /tilted",
        ),
    ],
)
def test_lidars_that_cannot_be_fused_are_one_line(lidars: Sequence[str], line: str, tmp_path: Path) -> None:
    path = bag(tmp_path, "/front", "/tilted")
    with pytest.raises(InputError) as raised:
        import_bag([path], tmp_path / "drive.mcap", ImportOptions({}, lidars=lidars))
    assert str(raised.value).startswith(line)


def test_the_place_of_a_transform_is_that_of_a_urdf() -> None:
    pose = matrix(transform("a", "b", (1.0, 2.0, 3.0), (0.0, math.sin(0.25), 0.0, math.cos(0.25))).transform)
    assert pose is not None
    assert place_of(pose) == pytest.approx((1.0, 2.0, 3.0, 0.0, math.degrees(0.5), 0.0))
