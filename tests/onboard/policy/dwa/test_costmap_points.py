"""Obstacle points of a scan: visible obstacles, and possible ones where no camera looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.policy.dwa.costmap import BLIND_M, HIDDEN_M, blind_ahead, obstacle_points
from onboard.values.messages import BINS, Pose, Scan

RADIUS_M, LOOK_M = 0.25, 2.0
NOTHING = np.empty((0, 2))
EVERYWHERE = np.ones(BINS, np.bool_)
HOME = Pose(0.0, 0.0, 0.0)


def scan_of(ranges: dict[int, float], seen: np.ndarray = EVERYWHERE) -> Scan:
    ranges_m = np.full(BINS, np.inf, np.float32)
    for index, range_m in ranges.items():
        ranges_m[index] = range_m
    return Scan(0, ranges_m, seen)


@given(x=st.floats(-50, 50), y=st.floats(-50, 50), yaw=st.floats(-3.1, 3.1), index=st.integers(0, BINS - 1))
def test_visible_obstacles_are_in_the_frame_of_the_pose(x, y, yaw, index):
    seen, unseen = obstacle_points(scan_of({index: 1.5}), Pose(x, y, yaw), NOTHING, LOOK_M, RADIUS_M)
    angle = yaw + BIN_CENTERS_RAD[index]
    np.testing.assert_allclose(seen, [(x + 1.5 * math.cos(angle), y + 1.5 * math.sin(angle))], atol=1e-6)
    assert len(unseen) == 0


def test_far_obstacles_are_dropped():
    seen, _ = obstacle_points(scan_of({3: LOOK_M + 0.1, 9: LOOK_M - 0.1}), HOME, NOTHING, LOOK_M, RADIUS_M)
    assert len(seen) == 1


def test_blind_bins_have_an_obstacle_beside_the_footprint():
    looks = EVERYWHERE.copy()
    looks[[0, 50]] = False
    seen, unseen = obstacle_points(scan_of({}, looks), HOME, NOTHING, LOOK_M, RADIUS_M)
    assert len(seen) == 0
    np.testing.assert_allclose(np.hypot(*unseen.T), RADIUS_M + BLIND_M)
    np.testing.assert_allclose(np.arctan2(unseen[:, 1], unseen[:, 0]), BIN_CENTERS_RAD[[0, 50]])


#   known up to [m]                an obstacle at [m]; None for none
KNOWN = [(np.inf, RADIUS_M + BLIND_M), (0.3, RADIUS_M + BLIND_M), (1.2, 1.2), (LOOK_M + 0.1, None)]


@pytest.mark.parametrize(("known_m", "at_m"), KNOWN)
def test_where_no_camera_looks_the_ground_that_was_seen_free_is_free(known_m, at_m):
    looks = EVERYWHERE.copy()
    looks[50] = False
    _, unseen = obstacle_points(scan_of({50: known_m}, looks), HOME, NOTHING, LOOK_M, RADIUS_M)
    np.testing.assert_allclose(np.hypot(*unseen.T), [] if at_m is None else [at_m], rtol=1e-6)


#   remembered at [m]    where nothing looks   counts
REMEMBERED = [
    (HIDDEN_M - 0.1, False, True),
    (HIDDEN_M + 0.1, False, False),
    (HIDDEN_M + 0.1, True, True),
    (LOOK_M + 0.1, True, False),
]


@pytest.mark.parametrize(("away_m", "blind", "counts"), REMEMBERED)
def test_remembered_places_count_where_they_cannot_be_seen(away_m, blind, counts):
    looks = EVERYWHERE.copy()
    looks[BINS // 2] = not blind
    place = away_m * np.array([math.cos(BIN_CENTERS_RAD[BINS // 2]), math.sin(BIN_CENTERS_RAD[BINS // 2])])
    _, unseen = obstacle_points(scan_of({}, looks), HOME, place[None], LOOK_M, RADIUS_M)
    assert bool((np.abs(unseen - place).max(axis=1) < 1e-9).any()) is counts


#   looks within [deg] of straight ahead   blind
AHEAD = [(0.0, True), (10.0, False), (180.0, False)]


@pytest.mark.parametrize(("within_deg", "blind"), AHEAD)
def test_blind_ahead_is_when_nothing_looks_there(within_deg, blind):
    assert blind_ahead(scan_of({}, np.abs(BIN_CENTERS_RAD) < math.radians(within_deg))) is blind
