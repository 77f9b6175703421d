"""The policy's scan and the limits' scan in the runtime, and the buffer of the last clouds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from onboard.policy.contract import ACTIONS
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, STOP, Scan, Twist
from tests.rigs.runtime_bench import FORWARD, LEFT, NEAR_MM, Bench, Puppet, commands

AHEAD = ACTIONS[FORWARD]
FRONTAL = ["front_left", "front", "front_right"]


def test_by_default_both_are_one_and_the_same() -> None:
    tick = Bench().tick()
    assert tick.limits_scan is tick.scan
    assert np.isinf(tick.scan.ranges_m).all()
    assert 0 < (~tick.scan.seen).sum() < 60


def test_the_limits_look_at_their_own_cameras_and_the_policy_at_its_own() -> None:
    policy = Puppet(FORWARD)
    scans = {"scan": {"cameras": ["rear"]}, "limits_scan": {"cameras": FRONTAL}}
    bench = Bench(policy, **scans, limits={"remember_s": 0.0}).driving()
    assert bench.tick().command == AHEAD, "that the policy does not look ahead is its own affair"
    bench.wall("front", NEAR_MM)
    tick = bench.seconds(0.5)[-1]
    assert (tick.command.v_mps, tick.reason) == (0.0, "zone_stop")
    assert np.isinf(policy.seen[-1].scan.ranges_m).all()
    assert tick.limits_scan.ranges_m.min() < 0.35
    bench.wall("front", 0)
    bench.wall("rear", 500)
    tick = bench.seconds(0.5)[-1]
    assert tick.command == AHEAD
    assert policy.seen[-1].scan.ranges_m.min() < 0.8
    assert np.isinf(tick.limits_scan.ranges_m).all()


def test_a_camera_of_the_limits_that_is_gone_stops_although_the_policy_sees() -> None:
    bench = Bench(limits_scan={"cameras": ["front"]}).driving()
    del bench.images["front"]
    ticks = bench.seconds(1.0)
    assert ticks[0].command.v_mps == 0.0
    assert (ticks[-1].command, ticks[-1].reason) == (STOP, "stale_scan")


def test_the_recovery_looks_behind_with_the_cameras_of_the_limits() -> None:
    bench = Bench(scan={"cameras": FRONTAL}, limits_scan={}).driving()
    bench.stuck = True
    assert any(tick.recovery for tick in bench.seconds(6.0))


def ready_made(topic: str, stamp_ns: int, ahead_m: float = np.inf) -> dict[str, Scan]:
    ranges = np.full(BINS, np.inf, np.float32)
    ranges[88:92] = ahead_m
    return {topic: Scan(stamp_ns, ranges, np.ones(BINS, bool))}


def test_a_scan_from_a_topic_is_taken_as_it_came() -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy, scan={"topic": "twin/scan"}, limits_scan={})
    bench.alter = lambda inputs: replace(inputs, scans=ready_made("twin/scan", inputs.now_ns, ahead_m=0.3))
    tick = bench.driving().tick()
    assert tick.scan is tick.inputs.scans["twin/scan"]
    assert policy.seen[-1].scan.ranges_m[90] == np.float32(0.3)
    assert tick.command == AHEAD, "what the policy sees does not hold the robot"
    assert np.isinf(tick.limits_scan.ranges_m).all()


def test_the_limits_scan_from_a_topic_holds_the_robot() -> None:
    bench = Bench(limits_scan={"topic": "/lidar"})
    bench.alter = lambda inputs: replace(inputs, scans=ready_made("/lidar", inputs.now_ns, ahead_m=0.3))
    assert bench.driving().seconds(0.2)[-1].reason == "zone_stop"


#   what                      scans of a tick at `now`
SILENT = [
    ("never came", lambda now_ns: {}),
    ("another topic", lambda now_ns: ready_made("other", now_ns)),
    ("came long ago", lambda now_ns: ready_made("twin/scan", NS_PER_S)),
]


@pytest.mark.parametrize(("what", "scans"), SILENT, ids=[row[0] for row in SILENT])
@pytest.mark.parametrize(("table", "reason"), [("scan", "stale_policy_scan"), ("limits_scan", "stale_scan")])
def test_a_ready_made_scan_that_is_silent_stops_and_in_the_end_ends_the_drive(what, scans, table, reason) -> None:
    other = "limits_scan" if table == "scan" else "scan"
    bench = Bench(**{table: {"topic": "twin/scan"}, other: {}})
    bench.alter = lambda inputs: replace(inputs, scans=scans(inputs.now_ns))
    ticks = bench.driving().seconds(6.0)
    assert {tick.command for tick in ticks} == {STOP}
    assert reason in {tick.reason for tick in ticks}
    assert ticks[-1].state.startswith("stopped: input lost for 5 s: scan (/twin/scan) ")
    assert reason in bench.runtime.counters.faults


def test_an_operator_drives_without_the_policys_scan() -> None:
    bench = Bench(scan={"topic": "twin/scan"}, limits_scan={}).driving()
    bench.operate(Twist(0.2, 0.0))
    tick = bench.tick()
    assert (tick.command, tick.reason) == (Twist(0.2, 0.0), "teleop")


def test_a_speed_limit_slows_the_drive_until_it_is_taken_back_and_a_refused_one_is_told() -> None:
    bench = Bench().driving()
    words = {"limit": 0.3}
    bench.alter = lambda inputs: replace(inputs, speed_limit_mps=words["limit"])
    tick = bench.tick()
    assert (tick.command, tick.reason) == (Twist(0.3, 0.0), "speed_limit")
    words["limit"] = math.nan
    ticks = bench.ticks(3)
    assert {tick.command.v_mps for tick in ticks} == {0.3}
    assert bench.runtime.counters.faults["speed_limit_refused"] == 1
    words["limit"] = 0.0
    assert bench.tick().command == AHEAD


@pytest.mark.parametrize("history", [1, 5])
def test_the_buffer_keeps_a_wall_in_view_that_the_cameras_no_longer_see(history: int) -> None:
    bench = Bench(Puppet(LEFT), scan={"history": history})
    bench.ticks(3)
    bench.wall("front", 1000)
    bench.tick()
    bench.wall("front", 0)
    kept = [bool(np.isfinite(tick.scan.ranges_m).any()) for tick in bench.ticks(6)]
    assert kept == [True] * (history - 1) + [False] * (7 - history)


def test_what_the_buffer_keeps_is_carried_along_with_the_motion() -> None:
    bench = Bench(scan={"history": 30}).driving()
    bench.wall("front", 2000)
    first = bench.tick()
    bench.wall("front", 0)
    later = bench.ticks(15)[-1]
    way_m = later.odometry.pose.x_m - first.odometry.pose.x_m
    assert way_m > 0.2
    nearer = first.scan.ranges_m[89:91] - later.scan.ranges_m[89:91]
    assert nearer == pytest.approx(way_m, abs=0.02)
    assert commands([later]) == [AHEAD]
