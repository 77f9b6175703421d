"""What the planned path waits for: what took free ground and may walk on. The dynamic window sees it at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.policy.dwa.sightings import EMPTY, EVERY_S, LEAST, STAY_S, SightedMap, blocking, sighted
from onboard.values.messages import BINS, Pose, Scan

RADIUS_M, PERIOD_S = 0.25, 1.0 / 3.0
HOME = Pose(0.0, 0.0, 0.0)
AHEAD = BINS // 2
WALLS_M = 5.0
STAY, FIRST = round(STAY_S / PERIOD_S), math.ceil(EVERY_S / PERIOD_S) * LEAST + 1


def scan_with(range_m: float = WALLS_M) -> Scan:
    """Return a scan of a round room, in whose middle the robot stands, with one return ahead."""
    ranges_m = np.full(BINS, WALLS_M, np.float32)
    ranges_m[AHEAD] = range_m
    return Scan(0, ranges_m, np.ones(BINS, np.bool_))


def after(known: SightedMap, range_m: float = WALLS_M, times: int = 1) -> SightedMap:
    """Return the map after scans with a return ahead."""
    for _ in range(times):
        known = sighted(known, HOME, scan_with(range_m), RADIUS_M, PERIOD_S)
    return known


def blocks(known: SightedMap, range_m: float) -> bool:
    """Return whether something at a range ahead blocks the path."""
    return bool((np.abs(blocking(known).centres() - (range_m, 0.0)) < 0.15).all(axis=1).any())


def is_remembered(known: SightedMap, range_m: float) -> bool:
    """Return whether the dynamic window hears of something at a range ahead."""
    return bool((np.abs(known.centres() - (range_m, 0.0)) < 0.15).all(axis=1).any())


ROOM = after(EMPTY, times=FIRST)


@pytest.mark.parametrize("range_m", [1.0, 3.0])
def test_what_was_never_seen_free_blocks_at_once(range_m):
    assert blocks(after(EMPTY, range_m), range_m)
    assert blocks(after(after(EMPTY), range_m), range_m), "one scan looked through it: that may be noise"


@pytest.mark.parametrize("range_m", [1.0, 3.0])
def test_what_took_free_ground_blocks_only_after_it_has_stayed(range_m):
    came = after(ROOM, range_m, STAY)
    assert not blocks(came, range_m)
    assert is_remembered(came, range_m)
    assert blocks(after(came, range_m), range_m)


def test_what_left_and_comes_again_near_by_waits_as_long_as_before():
    came = after(after(after(ROOM, 1.0, STAY)), 1.0, STAY - 1)
    assert not blocks(came, 1.0)


def test_old_cells_stay_in_memory_for_two_minutes_whatever_they_wait_for():
    blind = Scan(0, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))
    known = after(ROOM, 1.0)
    for _ in range(355):
        known = sighted(known, HOME, blind, RADIUS_M, PERIOD_S)
    assert is_remembered(known, 1.0)
    for _ in range(8):
        known = sighted(known, HOME, blind, RADIUS_M, PERIOD_S)
    assert not is_remembered(known, 1.0)
