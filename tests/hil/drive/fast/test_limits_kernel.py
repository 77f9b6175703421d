"""Where the cells say that nothing may bind a command, no scan cast from there lets the limits change it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hil.drive.fast.course import EDGE_M
from hil.drive.fast.limits_kernel import FastLimits, cells_may_bind, soonest_m
from hil.maps.world_grid import World, world_of_walls
from hil.physics.contact import solid_between
from hil.sensors.direct_scan import direct_scan
from onboard.config.config import LimitsSection, ScanSection
from onboard.config.footprint import Footprint
from onboard.perception.collision import point_travel_m
from onboard.policy.contract import ACTIONS
from onboard.safety.limits import bounds_of
from onboard.values.messages import BINS, Pose, Twist
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT

CELL_M = 0.05
SIDE = 60
SECTION = ScanSection()
SEEN = np.ones(BINS, np.bool_)
BACKING = Twist(-0.2, 0.0)
MOVING = [action for action in (*ACTIONS, BACKING) if action.v_mps != 0.0]
FAST = FastLimits(bounds_of(LimitsSection(), PLANT, Footprint(0.25), 200.0), SEEN)
CARELESS = FastLimits(
    bounds_of(LimitsSection(time_to_contact_s=0.0, stop_margin_m=0.0), PLANT, Footprint(0.25), 200.0), SEEN
)


def may_bind(world: World, pose: Pose, wanted: Twist, fast: FastLimits = FAST) -> bool:
    solid = solid_between(world.low_m, world.high_m, SECTION.z_min_m - EDGE_M, SECTION.z_max_m + EDGE_M)
    offset = -world.map_from_grid.x_m
    place = (pose.x_m + offset, pose.y_m + offset, pose.yaw_rad)
    return bool(cells_may_bind(*place, fast.ways(wanted), world.cell_m, solid, world.gap))


def binds(world: World, pose: Pose, wanted: Twist, fast: FastLimits = FAST) -> bool:
    ranges_m = direct_scan(world, MOUNTS, SECTION, "lidar").ranges(pose)
    return fast.limited(ranges_m, wanted) != wanted


def scattered(cells: list[tuple[int, int]]) -> World:
    wall = np.zeros((SIDE, SIDE), np.bool_)
    for row, column in cells:
        wall[row, column] = True
    return world_of_walls("scattered", CELL_M, Pose(0.0, 0.0, 0.0), wall)


cells = st.lists(st.tuples(st.integers(0, SIDE - 1), st.integers(0, SIDE - 1)), max_size=5)
places = st.builds(Pose, st.floats(1.2, 1.8), st.floats(1.2, 1.8), st.floats(-math.pi, math.pi))


@pytest.mark.parametrize("fast", [FAST, CARELESS], ids=["default", "without time to contact or margin"])
@given(where=cells, pose=places, wanted=st.sampled_from(MOVING))
@example(where=[(27, 26)], pose=Pose(1.5625, 1.4375, 1.4375), wanted=Twist(0.3, 3.0))
@settings(max_examples=250, deadline=None)
def test_where_the_cells_are_free_the_limits_let_pass(fast, where, pose, wanted):
    world = scattered(where)
    if binds(world, pose, wanted, fast):
        assert may_bind(world, pose, wanted, fast)


@given(pose=places, wanted=st.sampled_from(MOVING), bearing=st.floats(-math.pi, math.pi), range_m=st.floats(0.2, 1.4))
@settings(max_examples=250, deadline=None)
def test_one_post_anywhere_near(pose, wanted, bearing, range_m):
    x_m, y_m = pose.x_m + range_m * math.cos(bearing), pose.y_m + range_m * math.sin(bearing)
    row, column = int(y_m / CELL_M), int(x_m / CELL_M)
    world = scattered([(row, column)] if 0 <= row < SIDE and 0 <= column < SIDE else [])
    if binds(world, pose, wanted):
        assert may_bind(world, pose, wanted)


@given(
    at=st.tuples(st.floats(-0.7, 0.7), st.floats(-0.7, 0.7)), twist=st.sampled_from(MOVING),
    radius_m=st.floats(0.1, 0.6),
    off=st.tuples(st.floats(0.001, 0.06), st.floats(0.0, 1.0), st.floats(-math.pi, math.pi)),
)  # fmt: skip
@settings(max_examples=1000, deadline=None)
def test_a_point_near_the_position_is_not_met_sooner(at, twist, radius_m, off):
    off_m, share, bearing = off
    point = at[0] + share * off_m * math.cos(bearing), at[1] + share * off_m * math.sin(bearing)
    met_m = point_travel_m(*point, twist.v_mps, twist.w_radps, radius_m)
    assert soonest_m(*at, twist.v_mps, twist.w_radps, radius_m + off_m, off_m) <= met_m + 1e-5


#  name                    pose                       wanted            may bind
PLACES = [
    ("a wall far ahead", Pose(2.0, 3.0, 0.0), Twist(1.0, 0.0), False),
    ("a wall near ahead", Pose(4.9, 3.0, 0.0), Twist(1.0, 0.0), True),
    ("the same when slow", Pose(4.9, 3.0, 0.0), Twist(0.3, 0.0), False),
    ("the same behind", Pose(4.9, 3.0, math.pi), Twist(1.0, 0.0), False),
    ("backing off from it", Pose(5.7, 3.0, 0.0), BACKING, False),
    ("backing off towards it", Pose(5.6, 3.0, math.pi), BACKING, True),
    ("along a wall", Pose(3.0, 0.6, 0.0), Twist(1.0, 0.0), False),
    ("along a wall, too near", Pose(3.0, 0.45, 0.0), Twist(1.0, 0.0), True),
    ("outside the building", Pose(-1.0, 3.0, 0.0), Twist(0.3, 0.0), True),
]


@pytest.mark.parametrize(("pose", "wanted", "expected"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_in_a_room(pose, wanted, expected):
    assert may_bind(room(6.0, 6.0), pose, wanted) == expected
