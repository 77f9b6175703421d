"""The scans of the runtime: one for the policy and one for the limits, and the buffer of the last clouds."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_bench import FORWARD, LEFT, NEAR_MM, Bench, Puppet, commands

from onboard.contract import ACTIONS
from onboard.messages import STOP

AHEAD = ACTIONS[FORWARD]
FRONTAL = ["front_left", "front", "front_right"]


def test_by_default_both_are_one_and_the_same() -> None:
    tick = Bench().tick()
    assert tick.limits_scan is tick.scan
    assert np.isinf(tick.scan.ranges_m).all()
    assert 0 < (~tick.scan.seen).sum() < 60


def test_the_limits_look_at_their_own_cameras_and_the_policy_at_its_own() -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy, scan={"cameras": ["rear"]}, limits_scan={"cameras": FRONTAL}).driving()
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


def test_a_height_band_of_their_own() -> None:
    """A bar that hangs low is in the way of the limits' higher band, not in that of the policy's."""
    bench = Bench(scan={"z_max_m": 0.31}, limits_scan={"z_max_m": 1.2})
    image = np.zeros((60, 80), np.uint16)
    image[:, :30] = 600  # the upper part of a camera that stands on its side
    bench.images["front"] = image
    tick = bench.tick()
    lower, higher = tick.scan.ranges_m, tick.limits_scan.ranges_m
    assert np.isfinite(higher).sum() > np.isfinite(lower).sum()


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
