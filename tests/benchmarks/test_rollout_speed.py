"""The compiled roll-out and clearances against their plain definitions, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from onboard.config import DEFAULT_ROBOT
from onboard.contract import ACTIONS
from onboard.motion import load_plant
from onboard.rollout import STATE, clearances, clearances_definition, roll_out, roll_out_definition

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
COMMANDS = np.array([[action.v_mps, action.w_radps] for action in ACTIONS])
STARTS = np.zeros((len(ACTIONS), STATE))
POINTS = np.random.default_rng(5).uniform(-3.0, 3.0, (150, 2))
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


def compare(name: str, fast: Callable[[], np.ndarray], plain: Callable[[], np.ndarray]) -> None:
    fast_s, fast_result = best_s(fast)
    plain_s, plain_result = best_s(plain)
    line = f"{name}: compiled {fast_s * 1e3:.3f} ms, plain {plain_s * 1e3:.2f} ms, ratio {plain_s / fast_s:.0f}"
    print(line)
    np.testing.assert_allclose(fast_result, plain_result, atol=1e-9)
    assert fast_s < plain_s


def test_roll_out_beats_its_definition():
    linear, angular = PLANT.linear.as_array(), PLANT.angular.as_array()
    speeds = np.s_[..., 3:]
    compare(
        "roll out 28 actions, 45 ticks",
        lambda: roll_out(STARTS, COMMANDS, linear, angular, TICKS, DT_S)[speeds],
        lambda: roll_out_definition(STARTS, COMMANDS, PLANT, TICKS, DT_S)[speeds],
    )


def test_clearances_beat_their_definition():
    paths = roll_out(STARTS, COMMANDS, PLANT.linear.as_array(), PLANT.angular.as_array(), TICKS, DT_S)
    compare(
        "clearance of 28 paths to 150 points",
        lambda: clearances(paths, POINTS, 1),
        lambda: clearances_definition(paths, POINTS, 1),
    )
