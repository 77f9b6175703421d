"""Ready-made scans over the wire."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onboard.assembly.robot import lasers_of, no_return_of
from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import ros_scan
from onboard.drivers.dds.ros_types import LaserScan
from onboard.drivers.dds.topics import scan_source
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError
from onboard.values.messages import BINS, Scan
from tests.rigs.network.loopback import SECTION, Sender

TOPIC = "twin/scan"
STAMP_NS = 1_700_000_000 * 10**9
MS = 1_000_000


@pytest.fixture
def wires():
    both = Wire(SECTION), Wire(SECTION)
    yield both
    for wire in both:
        wire.close()


def scan(range_m: float) -> Scan:
    return Scan(0, np.full(BINS, range_m, np.float32), np.arange(BINS) % 3 > 0)


def message(range_m: float, frame: str = "base_link", after_s: float = 0.0) -> LaserScan:
    return ros_scan(STAMP_NS + round(after_s * NS_PER_S), frame, scan(range_m), 10.0)


def test_the_newest_scan_stays_until_the_next_and_is_stamped_by_the_tick_that_took_it(wires):
    inputs, sender = DdsInputs(wires[0], {TOPIC: None}), Sender(*wires)
    assert inputs.take(1).scans == {}
    sender.send(scan_source(TOPIC), message(2.0), message(3.0, after_s=0.1))
    taken = inputs.take(2).scans[TOPIC]
    assert taken.stamp_ns == 2
    assert np.array_equal(taken.seen, scan(3.0).seen)
    assert set(taken.ranges_m[taken.seen]) == {3.0}
    assert inputs.take(3).scans[TOPIC] is taken


def test_the_scan_of_a_laser_whose_pose_is_known_may_be_in_any_frame(wires):
    """The laser sits 0.2 m ahead of the base's centre and looks back."""
    lasers = lasers_of(Config(scan={"topic": TOPIC, "laser": (0.2, 0.0, 180.0)}))
    inputs, sender = DdsInputs(wires[0], lasers), Sender(*wires)
    ahead_of_laser = np.full(BINS, np.inf, np.float32)
    ahead_of_laser[BINS // 2] = 2.0
    laser = Scan(0, ahead_of_laser, np.ones(BINS, np.bool_))
    sender.send(scan_source(TOPIC), ros_scan(STAMP_NS, "laser", laser, 10.0))
    taken = inputs.take(2).scans[TOPIC]
    (near,) = np.flatnonzero(np.isfinite(taken.ranges_m))
    assert near in (0, BINS - 1)
    assert taken.ranges_m[near] == pytest.approx(1.8, abs=0.01)
    assert np.count_nonzero(taken.seen) > 0.9 * BINS
    sender.send(scan_source(TOPIC), message(3.0, after_s=10.0))  # in the base frame, when the other one has gone
    assert set(inputs.take(10 * NS_PER_S).scans[TOPIC].ranges_m) == {3.0, np.inf}


def test_a_laser_has_one_pose_and_a_topic():
    scan_of, other = {"topic": TOPIC, "laser": (0.2, 0.0, 180.0)}, {"topic": TOPIC, "laser": (0.3, 0.0, 180.0)}
    assert lasers_of(Config(scan=scan_of, limits_scan={"topic": TOPIC})).keys() == {TOPIC}
    assert lasers_of(Config(scan=scan_of, limits_scan={"topic": TOPIC}))[TOPIC] is not None
    with pytest.raises(ConfigError, match=r"limits_scan\.laser: .* and scan\.laser .* are two poses of twin/scan"):
        lasers_of(Config(scan=scan_of, limits_scan=other))
    with pytest.raises(ConfigError, match=r"scan\.laser: .* has no effect without scan\.topic: set both keys"):
        lasers_of(Config(scan={"laser": (0.2, 0.0, 180.0)}))


#   what             message                                                    refused
BAD = [
    ("empty", replace(message(4.0, after_s=0.1), ranges=[]), "ranges"),
    ("increment", replace(message(4.0, after_s=0.1), angle_increment=math.nan), "increment"),
    ("frozen", message(4.0), "stamp"),
    ("older", message(4.0, after_s=-10.0), "stamp"),
]


@pytest.mark.parametrize(("what", "bad", "named"), BAD, ids=[row[0] for row in BAD])
def test_a_scan_that_is_none_is_counted_and_the_one_before_ages(wires, what, bad, named):
    inputs, sender = DdsInputs(wires[0], {TOPIC: None}), Sender(*wires)
    sender.send(scan_source(TOPIC), message(2.0))
    inputs.take(1)
    sender.send(scan_source(TOPIC), bad)
    assert inputs.take(2).scans[TOPIC].stamp_ns == 1
    assert inputs.dropped()["refused /twin/scan"] == 1
    sender.send(scan_source(TOPIC), message(2.5, "/base_link", 0.2))
    assert inputs.take(3).scans[TOPIC].stamp_ns == 3


@pytest.mark.parametrize("frame", ["laser", ""])
def test_a_scan_in_another_frame_is_refused_with_the_reason(wires, frame):
    inputs, sender = DdsInputs(wires[0], {TOPIC: None}), Sender(*wires)
    sender.send(scan_source(TOPIC), message(4.0, frame))
    assert inputs.take(1).scans == {}
    assert inputs.dropped()["refused /twin/scan"] == 1
    (fault,) = inputs.faults()
    assert (fault.row, fault.standing) == ("scan", True)
    assert f"it is in frame {frame!r}, not 'base_link'" in fault.reason
    assert fault.reason.startswith("/twin/scan: scan refused: ")
    sender.send(scan_source(TOPIC), message(2.5, "/base_link", 0.2))
    assert inputs.take(10 * NS_PER_S).scans[TOPIC].stamp_ns == 10 * NS_PER_S
    assert inputs.faults() == []


def test_a_sender_whose_clock_was_set_back_is_heard_again(wires):
    inputs, sender = DdsInputs(wires[0], {TOPIC: None}), Sender(*wires)
    for tick, (after_s, taken) in enumerate([(0.0, 0), (-10.1, 1), (-10.1, 1), (-10.0, 3)]):
        sender.send(scan_source(TOPIC), message(2.0, after_s=after_s))
        assert inputs.take(tick).scans[TOPIC].stamp_ns == taken
    assert inputs.dropped()["refused /twin/scan"] == 1


#   stamp [s], arrival [s], range: the second was under way for half a second longer than the first and the third
UNDER_WAY = [(0.0, 1.0, 1.0), (0.5, 2.0, 2.0), (1.5, 2.5, 3.0)]


@pytest.mark.parametrize(("judge_late", "ages_ms"), [(True, [0, 0, 100, 300, 280, 0]), (False, [0] * 6)])
def test_a_scan_that_comes_late_at_an_even_pace_is_older_by_that(wires, judge_late, ages_ms):
    """As through a network that has filled its queues: by its arrival it would be new."""
    receiver = Wire(SECTION.model_copy(update={"judge_late": judge_late}))
    inputs, sender, found = DdsInputs(receiver, {TOPIC: None}), Sender(receiver, wires[1]), []
    for number, late_ms in enumerate((20, 20, 120, 320, 300, 20)):
        sender.send(scan_source(TOPIC), message(2.0, after_s=number / 10))
        now_ns = (number * 100 + late_ms) * MS
        taken = inputs.take(now_ns).scans[TOPIC]
        assert taken.arrival_ns == now_ns
        found.append(round((now_ns - taken.stamp_ns) / MS))
    receiver.close()
    assert found == ages_ms


@pytest.mark.parametrize(("judge_late", "believed"), [(True, [1.0, 1.0, 3.0]), (False, [1.0, 2.0, 3.0])])
def test_a_scan_that_was_long_under_way_is_refused_where_clocks_are_judged(wires, judge_late, believed):
    receiver = Wire(SECTION.model_copy(update={"judge_late": judge_late}))
    inputs, sender, found = DdsInputs(receiver, {TOPIC: None}), Sender(receiver, wires[1]), []
    for stamp_s, now_s, range_m in UNDER_WAY:
        sender.send(scan_source(TOPIC), message(range_m, after_s=stamp_s))
        found.append(float(inputs.take(round(now_s * NS_PER_S)).scans[TOPIC].ranges_m.min()))
    assert inputs.dropped()["refused /twin/scan"] == (1 if judge_late else 0)
    receiver.close()
    assert found == believed


def part(first_deg: float, range_m: float, after_s: float, count: int = 60) -> LaserScan:
    """Return one message of a laser that turns in several; 0.0 means no return."""
    first, step = math.radians(first_deg + 0.5), math.radians(1.0)
    sent = message(0.0, after_s=after_s)
    angles = {"angle_min": first, "angle_max": first + (count - 1) * step, "angle_increment": step}
    return replace(sent, **angles, range_min=0.1, range_max=10.0, ranges=[range_m] * count)


def test_all_parts_of_a_turn_are_taken_and_the_row_names_what_is_blind(wires):
    inputs, sender = DdsInputs(wires[0], {TOPIC: None}), Sender(*wires)
    assert inputs.blind() == (0, "all bins are seen")
    turn = [part(-180.0 + 60.0 * n, 2.0 + n, 0.01 * n) for n in range(6)]
    sender.send(scan_source(TOPIC), *turn[:3])
    inputs.take(10 * MS)
    level, reason = inputs.blind()
    assert level == 1
    assert "90 of 180 bins are blind: a message covers 60 deg" in reason
    assert inputs.faults() == [], "a laser that looks to one side only may be meant"
    assert reason.startswith("/twin/scan: 90 of 180 bins are blind: ")
    sender.send(scan_source(TOPIC), *turn[3:])
    taken = inputs.take(60 * MS).scans[TOPIC]
    assert taken.seen.all()
    assert set(taken.ranges_m) == {2.0, 3.0, 4.0, 5.0, 6.0, 7.0}
    assert taken.stamp_ns <= 10 * MS
    assert inputs.blind() == (0, "all bins are seen")


def test_what_the_laser_sends_for_no_return_is_free_by_the_configuration(wires):
    config = Config(scan={"topic": TOPIC, "no_return": ["zero"]}, limits_scan={"topic": TOPIC})
    assert no_return_of(config) == {TOPIC: ["zero"]}
    without, key = (
        DdsInputs(wires[0], {TOPIC: None}),
        DdsInputs(wires[0], {TOPIC: None}, no_return=no_return_of(config)),
    )
    Sender(*wires).send(scan_source(TOPIC), part(-180.0, 0.0, 0.0, 360))
    assert not without.take(1).scans[TOPIC].seen.any()
    assert 'set scan.no_return = ["zero"]' in without.blind()[1]
    assert [fault.reason for fault in without.faults()] == [without.blind()[1]]
    assert key.take(1).scans[TOPIC].seen.all()
    assert key.faults() == []
    Sender(*wires).send(scan_source(TOPIC), part(-180.0, 2.0, 1.0, 360))
    without.take(NS_PER_S)
    assert without.faults() == [], "some distances again"
