"""The compiled roll-out and the whole dynamic window against their plain definitions, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.policy.contract import ACTIONS
from onboard.policy.dwa.cost_to_go import make_prices, solve
from onboard.policy.dwa.dynamic_window import Course, DynamicWindow
from onboard.policy.dwa.trajectories import STATE, roll_out, roll_out_definition
from onboard.values.messages import Motion, Pose, Twist
from tests.rigs import plain_window

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
COMMANDS = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
STARTS = np.zeros((len(ACTIONS), STATE))
POINTS = np.random.default_rng(5).uniform(-3.0, 3.0, (150, 2))
POINTS = POINTS[np.hypot(*POINTS.T) > 1.6]
HELD, RADIUS_M, CELL_M = 17, 0.25, 0.2
TICKS = 45
DT_S = 1.0 / 30.0
REPEATS = 7


def best_s(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the shortest time of a few runs [s], and what the work returned; the first run compiles."""
    result = work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare(
    name: str, fast: Callable[[], np.ndarray], plain: Callable[[], np.ndarray], tolerance: float = 1e-9
) -> None:
    fast_s, fast_result = best_s(fast)
    plain_s, plain_result = best_s(plain)
    line = f"{name}: compiled {fast_s * 1e3:.3f} ms, plain {plain_s * 1e3:.2f} ms, ratio {plain_s / fast_s:.0f}"
    print(line)
    np.testing.assert_allclose(fast_result, plain_result, atol=tolerance)
    assert fast_s < plain_s


def test_roll_out_beats_its_definition():
    linear, angular = PLANT.linear.as_array(), PLANT.angular.as_array()
    speeds = np.s_[..., 3:]
    compare(
        "roll out 28 actions, 45 ticks",
        lambda: roll_out(STARTS, COMMANDS, linear, angular, TICKS, DT_S)[speeds],
        lambda: roll_out_definition(STARTS, COMMANDS, PLANT, TICKS, DT_S)[speeds],
    )


@pytest.mark.long
def test_the_dynamic_window_beats_its_definition():
    window, prices = DynamicWindow(PLANT), make_prices(RADIUS_M, CELL_M)
    nearness = np.full((62, 62), prices.far, np.int16)
    nearness[[0, -1]] = nearness[:, [0, -1]] = prices.closed
    goal, motion = (3.0, 1.0), Motion(Pose(0.0, 0.0, 0.0), Twist(0.5, 0.2))
    field = solve(nearness, prices, (-6.2, -6.2), CELL_M, goal)
    present = np.array([0.0, 0.0, 0.0, 0.5, 0.2, 0.0, 0.0])
    known = POINTS[:0]

    def fast() -> np.ndarray:
        fan = window.look_ahead(motion, Course(), HELD, POINTS, known)
        return window.decide(fan, field, goal, motion, Course())[0].logits

    def plain() -> np.ndarray:
        return plain_window.scores(PLANT, present, HELD, POINTS, known, field, goal, RADIUS_M, window._brake_s)

    compare(f"dynamic window, 28 actions and 784 sequels, {len(POINTS)} points", fast, plain, 0.05)
