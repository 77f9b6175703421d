"""The distance field against exact distances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.policy.dwa.trajectories import GRID_M, clearance_about, distance_at

FAR_M = 0.55
places = st.tuples(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))


@given(points=st.lists(places, max_size=8), place=places, middle=places)
@settings(max_examples=100, deadline=None)
def test_distances_are_those_to_the_nearest_point(points, place, middle):
    obstacles = np.array(points, dtype=float).reshape(-1, 2)
    clearance = clearance_about(obstacles, *middle, 2.0, FAR_M)
    exact_m = min([math.dist(place, point) for point in points], default=math.inf)
    told_m = distance_at(clearance, *place)
    if exact_m >= FAR_M + GRID_M:
        assert told_m >= FAR_M
    elif exact_m >= FAR_M:
        assert told_m >= exact_m - GRID_M
    else:
        assert told_m == pytest.approx(exact_m, abs=GRID_M)


@given(bearing=st.floats(-math.pi, math.pi), distance_m=st.floats(0.25, FAR_M), offset=places)
@settings(max_examples=100, deadline=None)
def test_beside_one_obstacle_interpolation_errs_by_less_than_two_millimetres(bearing, distance_m, offset):
    x, y = offset
    clearance = clearance_about(np.array([offset]), 0.0, 0.0, 2.0, FAR_M)
    told_m = distance_at(clearance, x + distance_m * math.cos(bearing), y + distance_m * math.sin(bearing))
    assert told_m == pytest.approx(distance_m, abs=0.002)


def test_outside_of_the_square_it_is_that_at_the_edge():
    clearance = clearance_about(np.array([(1.0, 0.0)]), 0.0, 0.0, 1.0, FAR_M)
    edge_m = clearance.corner_x_m + (len(clearance.distance_m) - 1) * GRID_M
    assert distance_at(clearance, 5.0, 0.0) == pytest.approx(distance_at(clearance, edge_m, 0.0), abs=1e-3)
