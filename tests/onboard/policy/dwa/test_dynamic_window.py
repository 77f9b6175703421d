"""The dynamic window: its kernels against the plain definition, and its state between decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import MotionState, load_plant, step
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION
from onboard.policy.dwa import dynamic_window
from onboard.policy.dwa.cost_to_go import CostField, make_prices, solve
from onboard.policy.dwa.dynamic_window import LEFT, RIGHT, STAND, UNSAFE, Course, DynamicWindow, course_of
from onboard.values.geometry import apply, inverse
from onboard.values.messages import STOP, Motion, Pose, Twist
from tests.rigs import plain_window

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
WINDOW = DynamicWindow(PLANT)
RADIUS_M, CELL_M = 0.25, 0.2
BRAKE_S = WINDOW._brake_s
NOTHING = np.empty((0, 2))
HERE = Motion(Pose(0.0, 0.0, 0.0), STOP)


def free_field(goal: tuple[float, float]) -> CostField:
    """Return the cost to go over open ground."""
    prices = make_prices(RADIUS_M, CELL_M)
    nearness = np.full((60, 60), prices.far, np.int16)
    nearness[[0, -1]] = nearness[:, [0, -1]] = prices.closed
    return solve(nearness, prices, (-6.0, -6.0), CELL_M, goal)


def decide(goal: tuple[float, float], motion: Motion = HERE, course: Course | None = None, held: int = NO_ACTION):
    course = course or Course()
    fan = WINDOW.look_ahead(motion, course, held, NOTHING, NOTHING)
    return WINDOW.decide(fan, free_field(goal), goal, motion, course)


SIDES = [(LEFT, RIGHT, 0.1, LEFT), (LEFT, RIGHT, 0.5, RIGHT), (RIGHT, LEFT, 0.1, RIGHT), (STOP_ACTION, LEFT, 0.1, LEFT)]


@pytest.mark.parametrize(("before", "best", "better_s", "chosen"), SIDES)
def test_a_turn_in_place_keeps_its_side_unless_the_other_is_much_better(before, best, better_s, chosen):
    scores = np.full(len(ACTIONS), UNSAFE, np.float32)
    scores[[LEFT, RIGHT]] = -5.0
    scores[best] += better_s
    assert dynamic_window._kept_turn(scores, before) == chosen
    assert dynamic_window._kept_turn(scores, NO_ACTION) == best


@pytest.mark.parametrize(
    "course", [Course(), Course(True, (0.1, 0.2, 0.3, 0.4)), Course(False, turns=7), Course(True, turns=9)]
)
def test_a_course_survives_the_memory(course):
    back = course_of(np.array(course.numbers(), np.float32))
    assert (back.arrived, back.turns) == (course.arrived, course.turns)
    assert back.predicted == pytest.approx(course.predicted)


FROM = Pose(0.3, -0.2, 0.4)


def in_the_way(place: tuple[float, float]) -> bool:
    """Return whether even a stop comes near the place: the grid is not exact at such small distances."""
    x, y = apply(inverse(FROM), place)
    return abs(y) < 0.5 and -0.35 < x < 1.0


places = st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5))
points = st.lists(places.filter(lambda place: not in_the_way(place)), max_size=6)


@given(
    seen=points,
    known=points,
    v_mps=st.floats(0.0, 1.0),
    w_radps=st.floats(-0.5, 0.5),
    bearing=st.floats(-3.1, 3.1),
    held=st.integers(0, len(ACTIONS) - 1),
)
@settings(max_examples=25, deadline=None)
def test_scores_are_those_of_the_definition(seen, known, v_mps, w_radps, bearing, held):
    goal = (3.0 * math.cos(bearing), 3.0 * math.sin(bearing))
    motion, field = Motion(FROM, Twist(v_mps, w_radps)), free_field(goal)
    seen, known = np.array(seen).reshape(-1, 2), np.array(known).reshape(-1, 2)
    fan = WINDOW.look_ahead(motion, Course(), held, seen, known)
    decision, _ = WINDOW.decide(fan, field, goal, motion, Course())
    present = np.array([FROM.x_m, FROM.y_m, FROM.yaw_rad, v_mps, w_radps, 0.0, 0.0])
    plain = plain_window.scores(PLANT, present, held, seen, known, field, goal, RADIUS_M, BRAKE_S)
    worst = UNSAFE / 2
    alike = (decision.logits < worst) == (plain < worst)
    # Distances from a grid err by millimetres, so that few actions at the very edge of safety differ.
    assert alike.sum() >= len(ACTIONS) - 4
    both = (decision.logits > worst) & (plain > worst)
    assert (np.abs(decision.logits - plain)[both] < 0.06).mean() >= 0.8 if both.any() else True


def test_without_obstacles_the_scores_are_those_of_the_definition_to_the_digit():
    goal, motion = (2.0, 1.0), Motion(Pose(0.0, 0.0, 0.0), Twist(0.4, -0.5))
    decision, _ = decide(goal, motion, held=17)
    present = np.array([0.0, 0.0, 0.0, 0.4, -0.5, 0.0, 0.0])
    plain = plain_window.scores(PLANT, present, 17, NOTHING, NOTHING, free_field(goal), goal, RADIUS_M, BRAKE_S)
    np.testing.assert_allclose(decision.logits, plain, atol=1e-4)


def test_at_the_goal_standing_is_best_by_far_and_stays_so():
    decision, course = decide((0.05, 0.0))
    assert (decision.action, course.arrived) == (STOP_ACTION, True)
    assert decision.logits[STOP_ACTION] == STAND
    assert (np.delete(decision.logits, STOP_ACTION) <= 0.0).all()
    assert decide((0.13, 0.0), course=course)[0].action == STOP_ACTION
    assert decide((0.3, 0.0), course=course)[0].action != STOP_ACTION


@pytest.mark.parametrize("twist", [Twist(0.0, 0.0), Twist(0.6, 1.0)])
def test_predicted_speeds_are_the_motion_models_at_the_next_decision(twist):
    state = MotionState(Pose(0.0, 0.0, 0.0), twist)
    decision, course = decide((3.0, 2.0), Motion(state.pose, twist), held=STOP_ACTION)
    for tick in range(plain_window.TICKS):
        held = STOP if tick < plain_window.DELAY else ACTIONS[decision.action]
        state = step(state, held, PLANT, plain_window.DT_S)
    expected = (state.twist.v_mps, state.twist.w_radps, state.dv_mps2, state.dw_radps2)
    assert course.predicted == pytest.approx(expected, abs=1e-9)


def test_predicted_accelerations_are_used_only_while_the_speeds_match():
    motion = Motion(Pose(0.0, 0.0, 0.0), Twist(0.5, 0.0))
    speeding, same = Course(predicted=(0.5, 0.0, 1.0, 0.0)), Course(predicted=(0.5, 0.0, 0.0, 0.0))
    wrong = Course(predicted=(0.1, 0.0, 1.0, 0.0))

    def way_m(course: Course) -> float:
        return float(WINDOW.look_ahead(motion, course, 17, NOTHING, NOTHING).places_m[0, 0])

    assert way_m(speeding) > way_m(same)
    assert way_m(wrong) == way_m(same)


def test_no_sequel_ends_beyond_the_reach_within_which_obstacles_are_looked_at():
    motion = Motion(Pose(0.0, 0.0, 0.0), Twist(PLANT.linear.speed_max, 0.0))
    fan = WINDOW.look_ahead(motion, Course(), len(ACTIONS) - 4, NOTHING, NOTHING)
    assert np.hypot(*fan.places_m.T).max() < WINDOW.look_m - RADIUS_M


def test_a_robot_at_the_tolerance_stops_although_noisy_fixes_put_it_out_of_it_now_and_then() -> None:
    """A post before it, no action brings it nearer than a turn in place: it turned until the drive's time was over."""
    course, held, post, stops = Course(), NO_ACTION, np.array([[0.33, 0.0], [0.33, 0.1], [0.33, -0.1]]), []
    for number in range(2 * dynamic_window.MOST_TURNS):
        away_m = WINDOW.tolerance_m + (0.01 if number % 2 else -0.01)
        fan = WINDOW.look_ahead(HERE, course, held, post, NOTHING)
        decision, course = WINDOW.decide(fan, free_field((away_m, 0.0)), (away_m, 0.0), HERE, course)
        held = decision.action
        stops += [number] if held == STOP_ACTION else []
        assert ACTIONS[held].v_mps == 0.0
        assert held != STOP_ACTION or away_m < WINDOW.tolerance_m
    assert stops
    assert stops[0] >= dynamic_window.MOST_TURNS
