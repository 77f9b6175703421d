"""Several lidars as one scan: poses, motion within a turn, silence, point clouds, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from onboard.assembly.inbox import dds_inputs_of
from onboard.assembly.robot import lasers_of
from onboard.config.config import LIDARS, Config
from onboard.drivers.dds.discovery import other_type
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import header, ros_cloud, ros_odometry
from onboard.drivers.dds.ros_types import LaserScan, PointCloud2, PointField
from onboard.drivers.dds.topics import scan_source
from onboard.perception.laser_scan import Rays, scan_of_rays
from onboard.values.errors import ConfigError
from onboard.values.messages import BIN_RAD, BINS, STOP, Pose, Twist
from tests.rigs.network.loopback import Sender

STAMP_NS = 1_700_000_000 * 10**9
MS = 1_000_000
FRONT, REAR, CLOUD = "/front/scan", "/rear/scan", "/points"
UPRIGHT, INVERTED = (0.2, 0.0, 0.3, 0.0, 0.0, 0.0), (-0.2, 0.0, 0.3, 180.0, 0.0, 180.0)
POST_M = np.array([0.0, 2.0])
"""A post to the left of the robot."""


def config(**scan) -> Config:
    return Config(scan=scan)


def inputs_of(wires, robot: Config) -> DdsInputs:
    return dds_inputs_of(robot, wires[0])


def half_turn(range_m: float, at_ns: int, post: float = math.inf, clockwise: bool = False) -> LaserScan:
    """Return 181 rays ahead of a laser, one of them at 45 deg to its left on a post."""
    ranges = [range_m] * 181
    ranges[135] = min(range_m, post)
    step = math.radians(1.0)
    if clockwise:
        return LaserScan(
            header(at_ns, "laser"), math.pi / 2, -math.pi / 2, -step, 0.0, 0.1, 0.05, 20.0, ranges[::-1], []
        )
    return LaserScan(header(at_ns, "laser"), -math.pi / 2, math.pi / 2, step, 0.0, 0.1, 0.05, 20.0, ranges, [])


@pytest.mark.parametrize("clockwise", [False, True])
def test_two_partial_lidars_one_of_them_upside_down_are_one_scan(wires, clockwise):
    inputs, sender = inputs_of(wires, config(lasers={FRONT: UPRIGHT, REAR: INVERTED})), Sender(*wires)
    sender.send(scan_source(FRONT), half_turn(5.0, STAMP_NS, 1.0, clockwise))
    first = inputs.take(1).scans
    assert list(first) == [LIDARS]
    assert not first[LIDARS].seen[:30].any()
    sender.send(scan_source(REAR), half_turn(6.0, STAMP_NS, 1.0, clockwise))
    scan = inputs.take(100 * MS).scans[LIDARS]
    assert (scan.stamp_ns, scan.arrival_ns) == (1, 100 * MS)
    near = np.flatnonzero(scan.ranges_m < 2.0)
    # ahead: 45 deg to the left. The rear one looks back, upside down: its left is the robot's left again
    places = [(0.2 + math.sqrt(0.5), math.sqrt(0.5)), (-0.2 - math.sqrt(0.5), math.sqrt(0.5))]
    expected = sorted(int((math.atan2(y, x) + math.pi) / BIN_RAD) for x, y in places)
    assert near.tolist() == expected
    assert scan.ranges_m[near] == pytest.approx([math.hypot(*places[0])] * 2, abs=1e-5)


def test_a_lidar_that_falls_silent_leaves_blind_bins(wires):
    inputs, sender = inputs_of(wires, config(lasers={FRONT: UPRIGHT, REAR: INVERTED})), Sender(*wires)
    sender.send(scan_source(FRONT), half_turn(5.0, STAMP_NS))
    sender.send(scan_source(REAR), half_turn(6.0, STAMP_NS))
    both = inputs.take(1).scans[LIDARS]
    assert both.seen[5] and both.seen[BINS // 2]  # noqa: PT018 - the two directions
    sender.send(scan_source(FRONT), half_turn(5.0, STAMP_NS + 310 * MS))
    one = inputs.take(310 * MS).scans[LIDARS]
    assert (one.stamp_ns, bool(one.seen[5]), bool(one.seen[BINS // 2])) == (310 * MS, False, True)
    assert inputs.take(900 * MS).scans[LIDARS].stamp_ns == 310 * MS


def plain_corrected(rays: Rays, twist: Twist) -> np.ndarray:
    """The definition, ray by ray: (180,) ranges from where the base is at the last ray."""
    nearest = np.full(BINS, np.inf, np.float32)
    count = len(rays.ranges_m)
    for number, range_m in enumerate(rays.ranges_m.tolist()):
        if math.isinf(range_m):
            continue
        angle = rays.angle_min_rad + number * rays.increment_rad
        age = (count - 1 - number) * rays.step_s
        turn = twist.w_radps * age
        chord = twist.v_mps * age * np.sinc(0.5 * turn / math.pi)
        x = range_m * np.cos(angle) - chord * np.cos(0.5 * turn)
        y = range_m * np.sin(angle) - chord * np.sin(0.5 * turn)
        x, y = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
        at = int(np.floor((np.arctan2(y, x) + math.pi) / BIN_RAD)) % BINS
        nearest[at] = min(nearest[at], np.float32(np.hypot(x, y)))
    return nearest


TWISTS = [Twist(1.0, 0.0), Twist(0.0, 2.0), Twist(0.6, -1.5), Twist(-0.3, 0.4)]


@pytest.mark.parametrize("twist", TWISTS)
def test_motion_within_a_turn_equals_the_definition(twist):
    ranges = np.random.default_rng(0).uniform(0.5, 9.0, 1440).astype(np.float32)
    rays = Rays(-math.pi, math.pi, 2 * math.pi / 1440, 0.05, 20.0, ranges, 0.1 / 1440)
    expected = plain_corrected(rays, twist)
    ends = plain_corrected(replace(rays, ranges_m=np.where(np.arange(1440) % 1439 == 0, ranges, np.inf)), twist)
    expected[np.isinf(expected)] = ends.min()  # a seam that opens has the smaller range of both sides
    np.testing.assert_array_equal(scan_of_rays(rays, 0, twist=twist).ranges_m, expected)
    assert scan_of_rays(rays, 0, twist=twist).seen.all()


@pytest.mark.parametrize("twist", TWISTS)
def test_a_wall_is_where_it_is_at_the_last_ray(twist):
    """The laser sees a wall 3 m ahead of the place where the base will be, while it drives there."""
    count, step_s, rays_m = 720, 0.1 / 720, []
    for number in range(count):
        angle, age = -math.pi + number * 2 * math.pi / count, (count - 1 - number) * step_s
        turn = twist.w_radps * age
        chord = twist.v_mps * age * np.sinc(0.5 * turn / math.pi)
        # the base at capture, seen from the base at the last ray
        x = -(chord * math.cos(0.5 * turn) * math.cos(turn) + chord * math.sin(0.5 * turn) * math.sin(turn))
        bearing = angle - turn
        rays_m.append((3.0 - x) / math.cos(bearing) if math.cos(bearing) > 0.2 else math.inf)
    rays = Rays(-math.pi, math.pi, 2 * math.pi / count, 0.05, 20.0, np.array(rays_m, np.float32), step_s)
    scan = scan_of_rays(rays, 0, twist=twist)
    ahead = slice(BINS // 2 - 20, BINS // 2 + 20)
    bearings = (np.arange(BINS)[ahead] + 0.5) * BIN_RAD - math.pi
    assert scan.ranges_m[ahead] * np.cos(bearings) == pytest.approx(3.0, abs=0.06)
    if twist.v_mps * 0.1 > 0.06 or abs(twist.w_radps) > 1.0:
        still = scan_of_rays(rays, 0, twist=STOP).ranges_m[ahead] * np.cos(bearings)
        assert np.abs(still - 3.0).max() > np.abs(scan.ranges_m[ahead] * np.cos(bearings) - 3.0).max()


def test_the_wheels_correct_the_scan(wires):
    inputs, sender = inputs_of(wires, config(lasers={FRONT: (0.0, 0.0, 0.3, 0.0, 0.0, 0.0)})), Sender(*wires)
    sender.send("odom", ros_odometry(STAMP_NS, "odom", "base_link", Pose(0.0, 0.0, 0.0), Twist(1.0, 0.0)))
    sample = half_turn(4.0, STAMP_NS)
    sample.time_increment = 0.1 / 181
    sender.send(scan_source(FRONT), sample)
    scan = inputs.take(1).scans[LIDARS]
    assert scan.ranges_m[BINS // 2] == pytest.approx(3.95, abs=0.01)  # half of the turn ago, at 1 m/s


def test_a_cloud_and_a_laser_are_one_scan(wires):
    inputs, sender = inputs_of(wires, config(lasers={FRONT: UPRIGHT}, clouds=[CLOUD])), Sender(*wires)
    sender.send(scan_source(FRONT), half_turn(5.0, STAMP_NS))
    cloud = ros_cloud(
        STAMP_NS, "base_link", np.array([[-1.0, 0.01, 0.3], [1.5, 0.01, 2.0], [1.0, 0.01, 0.5]], np.float32)
    )
    sender.send(scan_source(CLOUD, cloud=True), cloud)
    scan = inputs.take(1).scans[LIDARS]
    assert scan.ranges_m[[BINS - 1, BINS // 2]] == pytest.approx([1.0, 1.0], abs=1e-3)


def test_a_cloud_says_how_many_bins_it_leaves_blind(wires):
    """A point of all zeros, as organised clouds have it, is no return."""
    inputs, sender = inputs_of(wires, config(clouds=[CLOUD])), Sender(*wires)
    for number, points in enumerate(([[0.0, 0.0, 0.0]], [[1.0, 0.01, 0.5], [0.0, 0.0, 0.0]])):
        cloud = ros_cloud(STAMP_NS + number * 100 * MS, "base_link", np.array(points, np.float32))
        sender.send(scan_source(CLOUD, cloud=True), cloud)
        seen = inputs.take(1 + number * 100 * MS).scans[LIDARS].seen
        assert seen.sum() == number
        _, said = inputs.blind()
        assert f"{BINS - number} of {BINS} bins are blind: no point of the cloud is in them" in said
        assert len(inputs.faults()) == 1 - number, "only where it sees nothing at all"


def of_fields(*fields: PointField, width: int = 1, data: bytes = bytes(12)) -> PointCloud2:
    return PointCloud2(header(STAMP_NS, "base_link"), 1, width, list(fields), False, 12, 12 * width, data, True)


XYZ = [PointField(name, 4 * number, 7, 1) for number, name in enumerate("xyz")]

#   cloud                                                  what the row scan says
BAD_CLOUDS = [
    (of_fields(), "a cloud needs x, y and z of FLOAT32 or FLOAT64, its fields are none"),
    (of_fields(*XYZ[:2], PointField("intensity", 8, 7, 1)), "its fields are x, y, intensity"),
    (of_fields(*XYZ[:2], PointField("z", 8, 4, 1)), "its fields are x, y, z"),
    (of_fields(*XYZ[:2], PointField("z", 9, 7, 1)), "12 bytes are not 1x1 points of 12"),
    (of_fields(*XYZ, width=2), "12 bytes are not 2x1 points of 12"),
    (of_fields(*XYZ, width=10_000_000), "the cloud has 10,000,000 points, limit 500,000: thin it out"),
]


@pytest.mark.parametrize(("cloud", "said"), BAD_CLOUDS, ids=[row[1] for row in BAD_CLOUDS])
def test_a_bad_cloud_is_refused_in_a_line(wires, cloud, said):
    inputs, sender = inputs_of(wires, config(clouds=[CLOUD])), Sender(*wires)
    sender.send(scan_source(CLOUD, cloud=True), cloud)
    assert inputs.take(1).scans == {}
    (fault,) = inputs.faults()
    assert said in fault.reason
    assert CLOUD in fault.reason


def test_the_row_says_why_the_newest_cloud_is_refused(wires):
    inputs, sender = inputs_of(wires, config(clouds=[CLOUD])), Sender(*wires)
    for cloud, said in (BAD_CLOUDS[0], BAD_CLOUDS[-1]):
        sender.send(scan_source(CLOUD, cloud=True), cloud)
        inputs.take(1)
        assert said in inputs.faults()[0].reason


def test_livoxs_own_message_is_named_with_what_to_set():
    row = scan_source(CLOUD, cloud=True)
    _, remedy = other_type("driver", "livox_ros_driver2/msg/CustomMsg", row.kind, row, writes=True)
    assert remedy.startswith("set xfer_format = 0")


#   keys                                                    the line
BAD_KEYS = [
    ({"lasers": {FRONT: (0.0, 0.0, 0.3, 0.0, 6.0, 0.0)}}, "/front/scan is tilted by 6.0 deg, limit 5 deg"),
    ({"lasers": {FRONT: (0.0, 0.0, 0.3, 174.0, 0.0, 0.0)}}, "/front/scan is tilted by 6.0 deg"),
    ({"topic": "/scan", "lasers": {FRONT: UPRIGHT}}, "write the pose of /scan into lasers"),
    ({"laser": (0.0, 0.0, 0.0), "lasers": {FRONT: UPRIGHT}}, "write the pose of the laser into lasers"),
]


@pytest.mark.parametrize(("keys", "line"), BAD_KEYS, ids=[row[1] for row in BAD_KEYS])
def test_bad_keys_are_refused(keys, line):
    with pytest.raises(ValidationError, match=line):
        config(**keys)


def test_a_laser_on_the_floor_is_refused():
    with pytest.raises(ConfigError, match=r"/front/scan is 0 m above the floor, not within scan.z_min_m 0.05"):
        lasers_of(config(lasers={FRONT: (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)}))


def test_the_floor_that_a_tilted_laser_meets_is_free(wires):
    inputs, sender = inputs_of(wires, config(lasers={FRONT: (0.0, 0.0, 0.2, 0.0, 4.0, 0.0)})), Sender(*wires)
    sender.send(scan_source(FRONT), half_turn(0.2 / math.sin(math.radians(4.0)), STAMP_NS))
    scan = inputs.take(1).scans[LIDARS]
    assert scan.seen[BINS // 2]
    assert scan.ranges_m[BINS // 2] == math.inf


def test_a_configuration_of_lidars_comes_back_from_its_recording():
    robot = config(lasers={FRONT: UPRIGHT}, clouds=[CLOUD])
    assert Config.model_validate(robot.model_dump(mode="json")) == robot
    assert "lasers" not in Config().scan.model_dump()
