"""Contact without sliding: rejected steps, counted contacts, and no overlap with a wall."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.physics.collision_world import GROUND_CLEARANCE_M, Body, SimState, Simulation, blocked_cells
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.simulated_base import base_at
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import body_row, room, with_box

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
BODY = Body(radius_m=0.25, height_m=1.0)
SIDE_M = 4.0
ROOM = room(SIDE_M, SIDE_M)
SIMULATION = Simulation(ROOM, PLANT, BODY)
STEP_M = 1.0 / 30.0
"""Upper limit of the distance of one step."""


def drive(
    simulation: Simulation, state: SimState, command: Twist, seconds: float, bodies: Bodies = NO_BODIES
) -> SimState:
    for _ in range(round(30 * seconds)):
        state = simulation.step(simulation.command(state, command), bodies=bodies)
    return state


def person(x_m: float, y_m: float, low_m: float = 0.0, high_m: float = 1.7) -> Bodies:
    return body_row((x_m, y_m), 0.25, high_m, 0, low_m)[np.newaxis]


def test_a_drive_into_a_wall_stops_within_a_step_and_counts_once():
    after = drive(SIMULATION, SIMULATION.start(Pose(2.0, 2.0, 0.0)), Twist(1.0, 0.0), 5.0)
    assert after.contacts == 1
    assert SIDE_M - BODY.radius_m - STEP_M <= after.pose.x_m <= SIDE_M - BODY.radius_m
    assert after.pose.y_m == pytest.approx(2.0)
    assert after.path_m == pytest.approx(after.pose.x_m - 2.0)


def test_it_does_not_slide_along_a_wall():
    after = drive(SIMULATION, SIMULATION.start(Pose(3.5, 2.0, 0.3)), Twist(0.6, 0.0), 0.5)
    touched = drive(SIMULATION, after, Twist(0.6, 0.0), 2.0)
    much_later = drive(SIMULATION, touched, Twist(0.6, 0.0), 5.0)
    assert touched.contacts == 1
    assert math.hypot(much_later.pose.x_m - touched.pose.x_m, much_later.pose.y_m - touched.pose.y_m) < STEP_M


def test_a_second_contact_counts_after_the_body_has_come_free():
    state = drive(SIMULATION, SIMULATION.start(Pose(3.0, 2.0, 0.0)), Twist(1.0, 0.0), 3.0)
    state = drive(SIMULATION, state, Twist(-0.2, 0.0), 2.0)
    assert (state.contacts, state.touched_at) == (1, None)
    state = drive(SIMULATION, state, Twist(0.6, 0.0), 3.0)
    assert state.contacts == 2


# name, box's heights, contact expected
HEIGHTS = [
    ("on the floor", (0.0, 0.3), 1),
    ("hanging at the body's height", (0.8, 0.9), 1),
    ("just reaching down to the body", (1.0, 2.0), 1),
    ("above the body", (1.05, 2.0), 0),
    ("a sill to pass over", (0.0, 0.019), 0),
    ("a little more than a sill", (0.0, 0.03), 1),
]


@pytest.mark.parametrize(("name", "z_m", "contacts"), HEIGHTS)
def test_a_contact_needs_overlapping_heights(name, z_m, contacts):
    simulation = Simulation(with_box(ROOM, (2.5, 2.6), (1.0, 3.0), z_m), PLANT, BODY)
    after = drive(simulation, simulation.start(Pose(1.0, 2.0, 0.0)), Twist(1.0, 0.0), 2.0)
    assert after.contacts == contacts
    assert (after.pose.x_m < 2.5) == bool(contacts)


@given(x=st.floats(0.0, SIDE_M), y=st.floats(0.0, SIDE_M), box=st.tuples(st.integers(20, 55), st.integers(20, 55)))
@settings(max_examples=200, deadline=None)
def test_overlap_is_exact_for_squares(x, y, box):
    """The definition: distance from the centre to the nearest point of every solid cell."""
    left, bottom = box[0] * 0.05, box[1] * 0.05
    simulation = Simulation(with_box(ROOM, (left, left + 0.15), (bottom, bottom + 0.1), (0.0, 1.0)), PLANT, BODY)
    to_walls = min(x, y, SIDE_M - x, SIDE_M - y)
    to_box = math.hypot(max(left - x, 0.0, x - left - 0.15), max(bottom - y, 0.0, y - bottom - 0.1))
    nearest = min(to_walls, to_box)
    if abs(nearest - BODY.radius_m) > 1e-6:
        assert simulation.overlaps(Pose(x, y, 0.0)) == (nearest < BODY.radius_m)


@given(st.lists(st.integers(0, len(ACTIONS) - 1), min_size=1, max_size=15), st.floats(-3.0, 3.0))
@settings(max_examples=50, deadline=None)
def test_a_body_never_gets_into_a_wall(actions, yaw):
    state = SIMULATION.start(Pose(3.0, 3.0, yaw))
    for action in actions:
        state = drive(SIMULATION, state, ACTIONS[action], 1 / 3)
        assert not SIMULATION.overlaps(state.pose)
    assert state.time_ns == len(actions) * 10 * 33_333_333


def test_a_start_inside_a_wall_is_refused():
    with pytest.raises(InputError, match=r"start \(0.10, 2.00\).*radius 0.25"):
        SIMULATION.start(Pose(0.1, 2.0, 0.0))
    with pytest.raises(InputError):
        SIMULATION.start(Pose(100.0, 2.0, 0.0))


# name, heights of the body, contacts expected
BODY_HEIGHTS = [
    ("a person", (0.0, 1.7), 1),
    ("a robot lower than the body", (0.0, 0.5), 1),
    ("what flies above the body", (1.1, 1.7), 0),
    ("what lies flat on the floor", (0.0, 0.01), 0),
]


@pytest.mark.parametrize(("name", "z_m", "contacts"), BODY_HEIGHTS)
def test_driving_into_a_body_is_a_contact_where_heights_overlap(name, z_m, contacts):
    state = drive(SIMULATION, SIMULATION.start(Pose(1.0, 2.0, 0.0)), Twist(1.0, 0.0), 2.0, person(2.4, 2.0, *z_m))
    assert (state.contacts, state.bumps) == (contacts, 0)
    reached_m = 2.4 - 0.25 - BODY.radius_m if contacts else SIDE_M - BODY.radius_m
    assert state.pose.x_m <= reached_m
    assert state.pose.x_m > reached_m - STEP_M or not contacts


def test_a_body_that_walks_into_the_robot_is_one_bump():
    state = SIMULATION.start(Pose(2.0, 2.0, 0.0))
    for x_m in [*np.linspace(3.0, 2.2, 30), *np.linspace(2.2, 3.0, 30), *np.linspace(3.0, 2.2, 30)]:
        state = drive(SIMULATION, state, Twist(0.0, 0.5), 1 / 30, person(float(x_m), 2.0))
    assert (state.contacts, state.bumps, state.bumping) == (0, 2, True)


def test_a_robot_at_rest_makes_no_contact_with_a_body_that_walks_into_it():
    state = drive(SIMULATION, SIMULATION.start(Pose(1.0, 2.0, 0.0)), Twist(0.005, 0.0), 0.5)
    state = drive(SIMULATION, state, Twist(0.005, 0.0), 1.0, person(state.pose.x_m + 0.45, 2.0))
    assert (state.contacts, state.bumps) == (0, 1)


def test_the_robot_may_leave_an_overlapping_body_but_not_go_deeper():
    inside = drive(SIMULATION, SIMULATION.start(Pose(2.0, 2.0, 0.0)), Twist(0.0, 0.0), 0.1, person(2.4, 2.0))
    away = drive(SIMULATION, inside, Twist(-0.3, 0.0), 1.0, person(2.4, 2.0))
    assert (away.contacts, away.bumps, away.bumping) == (0, 1, False)
    deeper = drive(SIMULATION, inside, Twist(0.3, 0.0), 1.0, person(2.4, 2.0))
    assert (deeper.contacts, deeper.pose.x_m) == (1, 2.0)


@given(
    st.lists(st.tuples(st.floats(0.3, 3.7), st.floats(0.3, 3.7)), max_size=4),
    st.lists(st.integers(0, len(ACTIONS) - 1), min_size=1, max_size=10),
)
@settings(max_examples=50, deadline=None)
def test_the_robot_never_drives_into_standing_bodies(people, actions):
    bodies = np.concatenate([NO_BODIES, *(person(x_m, y_m) for x_m, y_m in people)])
    state = SIMULATION.start(Pose(2.0, 2.0, 0.0))
    clear_at_start = SIMULATION.clearance_m(state, bodies) > 0.0
    for action in actions:
        state = drive(SIMULATION, state, ACTIONS[action], 1 / 3, bodies)
        if clear_at_start:
            assert not state.bumping


@given(
    at=st.tuples(st.floats(0.3, 3.7), st.floats(0.3, 3.7)),
    box=st.tuples(st.integers(20, 55), st.integers(20, 55)),
    people=st.lists(st.tuples(st.floats(0.0, 4.0), st.floats(0.0, 4.0)), max_size=3),
    at_most_m=st.floats(0.01, 3.0),
)
@settings(max_examples=200, deadline=None)
def test_clearance_is_exact(at, box, people, at_most_m):
    """The definition: distance from the centre to the nearest solid point, less the radius."""
    left, bottom = box[0] * 0.05, box[1] * 0.05
    simulation = Simulation(with_box(ROOM, (left, left + 0.15), (bottom, bottom + 0.1), (0.0, 1.0)), PLANT, BODY)
    bodies = np.concatenate([NO_BODIES, *(person(x_m, y_m) for x_m, y_m in people)])
    x, y = at
    near = [x, y, SIDE_M - x, SIDE_M - y]
    near.append(math.hypot(max(left - x, 0.0, x - left - 0.15), max(bottom - y, 0.0, y - bottom - 0.1)))
    near += [math.hypot(px - x, py - y) - 0.25 for px, py in people]
    state = replace(SIMULATION.start(Pose(2.0, 2.0, 0.0)), base=base_at(Pose(x, y, 0.0)))
    expected = max(min(near) - BODY.radius_m, 0.0)
    assert simulation.clearance_m(state, bodies) == pytest.approx(expected, abs=1e-9)
    assert simulation.clearance_m(state, bodies, at_most_m) == pytest.approx(min(expected, at_most_m), abs=1e-9)


def test_blocked_cells_equal_the_definition():
    world = with_box(with_box(ROOM, (1.0, 1.5), (1.0, 1.5), (0.0, 0.02)), (2.0, 2.5), (1.0, 1.5), (1.0, 2.0))
    np.testing.assert_array_equal(blocked_cells(world, BODY), world.overlapping(GROUND_CLEARANCE_M, BODY.height_m))
