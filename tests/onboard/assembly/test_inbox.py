"""The inbox of a robot combines DDS, cameras and a serial base."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from onboard.assembly.inbox import DeviceInbox
from onboard.values.clock import NS_PER_S
from onboard.values.errors import DriverError
from onboard.values.messages import (
    BINS,
    STOP,
    CameraHealth,
    ColorFrame,
    DepthFrame,
    Fix,
    GoalRequest,
    Inputs,
    OdometryMessage,
    Pose,
    Scan,
    Twist,
)

NOW_NS = 7
WHEELS = (OdometryMessage(1, NOW_NS, None, Twist(0.1, 0.0)),)
OWN = (OdometryMessage(2, NOW_NS, None, Twist(0.2, 0.0)),)


class Wire:
    def __init__(self, **fields: object) -> None:
        self.inputs = Inputs(0, odometry=WHEELS, **fields)  # type: ignore[arg-type]
        self.closed = 0

    def take(self, now_ns: int) -> Inputs:
        return replace(self.inputs, now_ns=now_ns)

    def close(self) -> None:
        self.closed += 1


class Camera:
    """A depth camera or a colour camera."""

    def __init__(self, name: str, working: bool = True, frame: DepthFrame | ColorFrame | None = None) -> None:
        self.name = name
        self.working = working
        self.frame = frame or DepthFrame(name, 1, NOW_NS, np.zeros((2, 2), np.uint16))
        self.closed = 0

    def latest(self, now_ns: int) -> DepthFrame | ColorFrame | None:
        assert now_ns == NOW_NS
        return self.frame if self.working else None

    def health(self) -> CameraHealth:
        return CameraHealth(self.name, self.working, "" if self.working else "unplugged", 1, 0)

    def close(self) -> None:
        self.closed += 1


class Stuck(Camera):
    def close(self) -> None:
        super().close()
        raise DriverError(f"{self.name} does not let go")


@dataclass
class Report:
    odometry: tuple[OdometryMessage, ...] = OWN
    obstacle: bool | None = None
    stop: bool | None = None
    battery: float | None = None


class Base:
    def __init__(self, report: Report) -> None:
        self.report = report

    def take(self, now_ns: int) -> Report:
        assert now_ns == NOW_NS
        return self.report


COLOR = Camera("color", frame=ColorFrame(1, NOW_NS, np.zeros((144, 256, 3), np.uint8)))


def inbox(wire: Wire, cameras: Iterable[Camera] = (), color: Camera | None = None, base: Base | None = None):
    return DeviceInbox(wire, list(cameras), color, base)  # type: ignore[arg-type]


def test_frames_of_working_cameras_come_with_what_the_wire_said() -> None:
    left, down = Camera("left"), Camera("down", working=False)
    inputs = inbox(Wire(cancel=True), (left, down), COLOR).take(NOW_NS)
    assert (inputs.now_ns, inputs.cancel, inputs.odometry) == (NOW_NS, True, WHEELS)
    assert inputs.depth == {"left": left.frame}
    assert inputs.color is COLOR.frame


def test_a_base_on_its_own_cable_is_the_source_of_odometry() -> None:
    assert inbox(Wire(), base=Base(Report())).take(NOW_NS).odometry == OWN
    assert inbox(Wire(), base=Base(Report(odometry=()))).take(NOW_NS).odometry == ()


class Watch:
    """Stands for `PublisherWatch`: says whether an input has a second publisher."""

    def __init__(self) -> None:
        self.second = False
        self.refused: list[GoalRequest] = []

    def poll(self, now_ns: int) -> bool:
        return self.second

    def refuse(self, goals: Iterable[GoalRequest], now_ns: int) -> None:
        self.refused += goals


GOAL = GoalRequest(1, NOW_NS, "odom", Pose(3.0, 0.0, 0.0))


def scan_of(range_m: float) -> Scan:
    return Scan(NOW_NS, np.full(BINS, range_m, np.float32), np.ones(BINS, np.bool_))


def test_with_a_second_publisher_of_any_input_images_and_new_scans_and_goals_are_withheld() -> None:
    """The odometry goes on, so that the pose is right where the robot stops; a cancel passes."""
    wire, watch = Wire(scans={"laser": scan_of(1.0)}), Watch()
    devices = DeviceInbox(wire, [Camera("front")], None, watch=watch)  # type: ignore[arg-type]
    free = devices.take(NOW_NS)
    assert set(free.depth) == {"front"}
    wire.inputs = replace(wire.inputs, scans={"laser": scan_of(2.0)}, goals=(GOAL,), cancel=True)
    watch.second = True
    held = devices.take(NOW_NS)
    assert (held.depth, held.goals, held.odometry, held.cancel) == ({}, (), WHEELS, True)
    assert held.scans["laser"] is free.scans["laser"]
    assert watch.refused == [GOAL]
    watch.second = False
    again = devices.take(NOW_NS)
    assert (set(again.depth), again.goals) == ({"front"}, (GOAL,))
    assert again.scans["laser"].ranges_m[0] == 2.0
    assert watch.refused == [GOAL]


def test_a_fix_waits_for_the_first_odometry() -> None:
    """A localisation at rest sent its pose once, perhaps before the base's driver runs."""
    wire = Wire()
    devices, fixes = inbox(wire), [Fix(n, NOW_NS, Pose(float(n), 0.0, 0.0)) for n in range(3)]
    came = []
    for odometry, now in (((), fixes[:2]), ((), ()), (WHEELS, ()), (WHEELS, ()), ((), fixes[2:])):
        wire.inputs = replace(wire.inputs, odometry=odometry, fixes=tuple(now))
        came.append(devices.take(NOW_NS).fixes)
    assert came == [(), (), (fixes[1],), (), (fixes[2],)]


#   wire    base    together
WORDS = [
    (None, None, None),
    (None, False, False),
    (None, True, True),
    (False, None, False),
    (True, None, True),
    (True, False, True),
    (False, True, True),
    (False, False, False),
]


@pytest.mark.parametrize(("wire", "base", "together"), WORDS)
def test_stop_and_obstacle_of_wire_and_base_are_one_word(
    wire: bool | None, base: bool | None, together: bool | None
) -> None:
    stop = inbox(Wire(e_stop=wire), base=Base(Report(stop=base))).take(NOW_NS)
    obstacle = inbox(Wire(obstacle=wire), base=Base(Report(obstacle=base))).take(NOW_NS)
    assert (stop.e_stop, stop.obstacle) == (together, None)
    assert (obstacle.e_stop, obstacle.obstacle) == (None, together)


#   wire   base  together
CHARGES = [(None, None, None), (0.5, None, 0.5), (None, 0.4, 0.4), (0.5, 0.4, 0.4), (0.3, 0.4, 0.3)]


@pytest.mark.parametrize(("wire", "base", "together"), CHARGES)
def test_the_lower_battery_counts(wire: float | None, base: float | None, together: float | None) -> None:
    assert inbox(Wire(battery=wire), base=Base(Report(battery=base))).take(NOW_NS).battery == together


def test_the_health_of_every_camera_is_told_down_or_not() -> None:
    states = inbox(Wire(), (Camera("left"), Camera("down", working=False)), COLOR).cameras()
    assert [(camera.camera, camera.working) for camera in states] == [("left", True), ("down", False), ("color", True)]


def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    wire, stuck, last = Wire(), Stuck("stuck"), Camera("last")
    with pytest.raises(DriverError, match="stuck does not let go"):
        inbox(wire, (stuck, last)).close()
    assert (wire.closed, stuck.closed, last.closed) == (1, 1, 1)


def test_a_camera_whose_picture_stays_the_same_is_blind_until_it_changes() -> None:
    """The inbox judges by the wheels of the serial base, not by the camera's own health."""
    camera, base = Camera("front"), Base(Report())
    devices = DeviceInbox(Wire(), [camera], None, base, unchanged_m=0.15)  # type: ignore[arg-type]
    believed = []
    for number in range(5):
        base.report = Report(odometry=(OdometryMessage(0, number * 10**9, None, Twist(0.08, 0.0)),))
        camera.frame = replace(camera.frame, number=number)
        believed.append("front" in devices.take(NOW_NS).depth)
    (health,) = devices.cameras()
    assert believed == [True, True, True, True, False]
    assert (health.working, health.reason) == (
        False,
        "the image stayed identical while the robot drove 0.16 m (limit 0.15 m)",
    )
    camera.frame = replace(camera.frame, number=9, depth=np.ones((2, 2), np.uint16))
    assert "front" in devices.take(NOW_NS).depth
    assert devices.cameras()[0].working


def test_a_scan_that_stays_the_same_is_held_back_so_that_it_ages() -> None:
    wire, base = Wire(), Base(Report())
    devices = DeviceInbox(wire, [], None, base, unchanged_m=0.15)  # type: ignore[arg-type]
    ranges_m, stamps_ns = np.ones(BINS, np.float32), []
    for number in range(5):
        base.report = Report(odometry=(OdometryMessage(0, number * 10**9, None, Twist(0.08, 0.0)),))
        wire.inputs = replace(wire.inputs, scans={"laser": Scan(number, ranges_m, np.ones(BINS, np.bool_))})
        stamps_ns.append(devices.take(NOW_NS).scans["laser"].stamp_ns)
    assert stamps_ns == [0, 1, 2, 3, 3]


def turned(yaw_rad: float) -> OdometryMessage:
    return OdometryMessage(0, 0, Pose(0.0, 0.0, yaw_rad), STOP)


REST, NOISE = OdometryMessage(0, 0, Pose(5.0, 0.0, 0.0), STOP), OdometryMessage(0, 0, None, Twist(0.0, 0.002))
DRIVE = OdometryMessage(0, 0, None, Twist(0.2, 0.0))
LONG, SHORT = 20, 5
#   odometry of each second, seconds until the fix is delivered, whether it passes
HELD = [
    ("at rest", [REST], LONG, True),
    ("noise of a gyro", [NOISE], LONG, True),
    ("drove by its twist", [DRIVE], LONG, False),
    ("drove a moment ago: the odometry of then is remembered", [DRIVE], SHORT, True),
    ("turned by its pose, the twist is always zero", [turned(0.0), turned(0.1)], LONG, False),
    ("not a number", [OdometryMessage(0, 0, None, Twist(float("nan"), 0.0))], LONG, False),
]


@pytest.mark.parametrize(("what", "odometry", "seconds", "passes"), HELD, ids=[row[0] for row in HELD])
def test_a_fix_that_was_withheld_is_dropped_if_the_wheels_moved_long_after_it(what, odometry, seconds, passes) -> None:
    wire, began_s = Wire(), 1_000_000
    devices, fix = inbox(wire), Fix(1, began_s * NS_PER_S, Pose(1.0, 0.0, 0.0))
    for second in range(seconds + 1):
        came = odometry[second % len(odometry)] if 0 < second < 10 else replace(REST, pose=None)
        wire.inputs = replace(wire.inputs, odometry=(came,), fixes=(fix,) if second == seconds else ())
        taken = devices.take((began_s + second) * NS_PER_S).fixes
    assert taken == ((fix,) if passes else ())
