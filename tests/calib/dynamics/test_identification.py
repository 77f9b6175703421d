"""Known parameters are found again, in simulated logs of several kinds; on real logs the fit beats simpler ones."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import TransferFunction, step

from calib.dynamics.identification import held_out, identify
from calib.dynamics.motion_log import MotionLog, read_logs
from calib.dynamics.output_error_fit import model_speeds, refined_fit
from calib.dynamics.paper_fit import paper_fit, rise_time
from calib.dynamics.plausibility import dead_band
from calib.dynamics.response_model import P, axis_logs, roll_out
from onboard.config.plant_model import Plant, step_axis
from tests.rigs.recordings.motion_logs import driven_plant, held_steps, plant, simulated

HUSKY = Path(__file__).parents[2] / "data" / "husky-steps" / "steps.csv"
F, DELAY, ZETA = 0.05, 0.05, 0.07
"""Tolerances: shares of f and of the delay, and zeta. A delay is known to 5 ms at best."""

PAPER_STEP = 1.0 / 30.0
#    linear: f_up, zeta_up, f_down, zeta_down, top, rate   angular                     delays       step
BASES = [
    ((6.0, 0.7, 8.0, 0.9, 1.0, 2.5), (8.0, 0.6, 5.0, 1.0, 2.5, 12.0), (0.2, 0.3), 0.001),
    ((3.0, 1.1, 9.0, 0.6, 0.8, 30.0), (10.0, 1.2, 4.0, 0.5, 1.5, 30.0), (0.0, 0.5), 0.01),
    ((9.0, 0.5, 5.0, 1.2, 1.0, 4.0), (2.0, 0.8, 3.0, 0.9, 3.0, 30.0), (0.4, 0.1), 0.001),
]


def assert_found(logs: list[MotionLog], base: Plant, delays_s: tuple[float, float]) -> None:
    for axis, table, delay_s in (("v", base.linear, delays_s[0]), ("w", base.angular, delays_s[1])):
        fit = refined_fit(logs, axis).fit()
        for name in ("up", "down"):
            assert fit[f"f_{name}"] == pytest.approx(getattr(table, f"f_{name}"), rel=F), (axis, fit)
            assert fit[f"zeta_{name}"] == pytest.approx(getattr(table, f"zeta_{name}"), abs=ZETA), (axis, fit)
        assert fit["delay_s"] == pytest.approx(delay_s, rel=DELAY, abs=0.011), (axis, fit)


@pytest.mark.parametrize(
    ("linear", "angular", "delays_s", "step_s"),
    [BASES[0], *(pytest.param(*base, marks=pytest.mark.long) for base in BASES[1:])],
)
def test_known_parameters_are_found_in_noisy_logs(linear, angular, delays_s, step_s):
    base = plant(linear, angular)
    assert_found(simulated(base, delays_s, step_s), base, delays_s)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(20))
def test_random_bases_are_found(seed):
    rng = np.random.default_rng(seed)
    step_s = (0.001, 0.01)[seed % 2]
    linear, angular = (
        (
            *np.array([*rng.uniform((2.0, 0.5), (10.0, 1.2)), *rng.uniform((2.0, 0.5), (10.0, 1.2))]),
            top,
            rng.choice(rates),
        )
        for top, rates in ((1.1, (2.5, 30.0)), (2.2, (5.0, 60.0)))
    )
    delays_s = tuple(rng.uniform(0.0, 0.5, 2))
    base = plant(linear, angular)
    assert_found(simulated(base, delays_s, step_s, seed=seed, logs=8, seconds=60.0), base, delays_s)


def test_the_simulated_base_is_found_and_its_plant_drives_as_it_does():
    base = plant((6.0, 0.7, 8.0, 0.9, 1.0, 1.5), (8.0, 0.6, 5.0, 1.0, 2.5, 12.0), 0.199)
    base = base.model_copy(update={"linear": base.linear.model_copy(update={"deceleration_max": 0.8})})
    found = identify(driven_plant(base, noise=0.02))
    for axis, truth in ((found.plant.linear, base.linear), (found.plant.angular, base.angular)):
        assert (axis.f_up, axis.f_down) == pytest.approx((truth.f_up, truth.f_down), rel=F)
        assert (axis.zeta_up, axis.zeta_down) == pytest.approx((truth.zeta_up, truth.zeta_down), abs=ZETA)
    limits = found.plant.linear.acceleration_max, found.plant.linear.deceleration_max
    assert limits == (pytest.approx(1.5, rel=0.02), pytest.approx(0.8, rel=0.02))
    assert found.plant.angular.deceleration_max is None  # never reached
    assert found.plant.base.command_delay_s == pytest.approx(0.2, rel=DELAY)
    assert found.accepted
    assert found.rmse["v"] == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("faster", [1.0, 6.0])  # a step of 1/30 s is too long for the faster one
def test_the_roll_out_is_the_plant_step_by_step(faster):
    rng = np.random.default_rng(1)
    command, t_s = rng.uniform(-1.0, 1.0, 300), np.arange(300) * PAPER_STEP
    table = plant((6.0 * faster, 0.7, 8.0 * faster, 0.9, 0.5, 2.5), (8.0, 0.6, 5.0, 1.0, 2.5, 12.0)).linear
    parameters = np.array([6.0 * faster, 0.7, 8.0 * faster, 0.9, 0.1, 0.5, -0.5, 2.5, 2.5])
    model = np.empty(300)
    roll_out(t_s, command, 0.0, parameters, PAPER_STEP, model)
    speed = rate = 0.0
    for row in range(300):
        assert model[row] == pytest.approx(speed, abs=1e-6)
        speed, rate = step_axis(command[row - 3] if row >= 3 else 0.0, speed, rate, table.as_array(), PAPER_STEP)


def ramped(command: np.ndarray, period_s: float, slope: float, lag_s: float) -> np.ndarray:
    """Return the speeds of a base whose driver ramps the command before a quick first-order loop."""
    speeds, target, speed, step_s = np.empty_like(command), 0.0, 0.0, period_s / 10.0
    for row, wanted in enumerate(command):
        speeds[row] = speed
        for _ in range(10):
            target += min(max(wanted - target, -slope * step_s), slope * step_s)
            speed += (target - speed) * -math.expm1(-step_s / lag_s)
    return speeds


def test_a_quick_loop_behind_a_ramp_is_accepted_and_its_plant_settles():
    rng, period_s, logs = np.random.default_rng(1), 0.025, []
    for number in range(2):
        v_cmd, w_cmd = (held_steps(rng, 1000, period_s, low, high) for low, high in ((-0.2, 0.7), (-1.9, 1.9)))
        speeds = ramped(v_cmd, period_s, 1.2, 0.03), ramped(w_cmd, period_s, 4.8, 0.03)
        noisy = [speed + 0.005 * rng.standard_normal(1000) for speed in speeds]
        path = np.zeros((1000, 3))
        path[1:, 2] = np.cumsum(speeds[1][:-1]) * period_s
        path[1:, :2] = np.cumsum(speeds[0][:-1, None] * np.c_[np.cos(path[:-1, 2]), np.sin(path[:-1, 2])], 0) * period_s
        logs.append(MotionLog(f"log{number}", np.arange(1000) * period_s, v_cmd, w_cmd, *noisy, path))
    found = identify(logs)
    assert found.accepted, found.notes
    assert any("faster than a tick" in note for note in found.notes)
    assert found.rmse["v"] < 0.007
    speed = rate = 0.0
    table, rolled = found.plant.linear.as_array(), []
    for wanted in [0.6] * 40 + [0.0] * 40:
        speed, rate = step_axis(wanted, speed, rate, table, PAPER_STEP)
        rolled.append(speed)
    truth = ramped(np.repeat([0.6, 0.0], 40), PAPER_STEP, 1.2, 0.03)
    assert np.abs(np.array(rolled[:-1]) - truth[1:]).max() < 0.05
    assert rolled[39] == pytest.approx(0.6, abs=1e-3)
    assert rolled[79] == pytest.approx(0.0, abs=1e-3)


def test_held_feedback_does_not_delay_the_fit():
    base = plant(*BASES[0][:2])
    held = []
    for log in simulated(base, (0.2, 0.3), 0.001, period_s=0.05, logs=8, seconds=60.0):
        old = np.arange(len(log.t_s)) // 2 * 2
        held.append(dataclasses.replace(log, v=log.v[old], w=log.w[old]))
    fit = refined_fit(held, "v")
    assert fit.parameters[P.DELAY_S] == pytest.approx(0.2, abs=0.01)
    assert fit.parameters[P.F_UP] == pytest.approx(6.0, rel=0.1)


def test_a_dead_band_is_found_and_does_not_bend_the_fit():
    truth = np.array([6.0, 0.7, 8.0, 0.9, 0.2, 1.0, -1.0, 2.5, 2.5])
    logs = []
    for number, log in enumerate(simulated(plant(*BASES[0][:2]), (0.2, 0.3), 0.001)):
        moving = np.where(np.abs(log.v_cmd) > 0.1, log.v_cmd, 0.0)
        speed = model_speeds(axis_logs([dataclasses.replace(log, v_cmd=moving, v=0.0 * log.v)], "v"), truth, 0.0025)
        commands = np.where(moving == 0.0, 0.02 + 0.015 * number, moving)
        logs.append(dataclasses.replace(log, v_cmd=commands, v=speed))
    found = dead_band(logs, "v")
    assert 0.06 <= found < 0.1
    assert refined_fit(logs, "v", found).parameters[P.F_UP] == pytest.approx(6.0, rel=F)


@pytest.mark.long
def test_intervals_hold_the_truth_and_shrink_with_data():
    base = plant(*BASES[0][:2])
    short, long = (refined_fit(simulated(base, (0.2, 0.3), 0.001, logs=logs, noise=0.1), "w") for logs in (2, 16))
    assert np.ptp(long.interval[P.F_UP]) < 0.7 * np.ptp(short.interval[P.F_UP])
    low, high = short.interval[P.F_UP]
    assert low - 0.3 < 8.0 < high + 0.3


# ---- The paper's plain fit


def test_a_delay_misleads_the_papers_fit_but_not_the_refined():
    base = plant(*BASES[0][:2])
    fit = paper_fit(simulated(base, (0.2, 0.3), 0.001), "v")
    assert fit["f_up"] is None or abs(fit["f_up"] / 6.0 - 1.0) > 0.2


@pytest.mark.parametrize("zeta", [0.3, 0.7, 1.0, 1.6])
def test_the_rise_time_is_that_of_the_transfer_function(zeta):
    t, y = step(TransferFunction([1.0], [1.0, 2.0 * zeta, 1.0]), T=np.linspace(0.0, 20.0, 20001))
    expected = t[np.argmax(y >= 0.9)] - t[np.argmax(y >= 0.1)]
    assert rise_time(zeta) == pytest.approx(expected, abs=2e-3)


# ---- The real Husky


@pytest.mark.long
def test_on_real_steps_the_fit_is_a_third_better_than_the_paper_and_a_first_order_lag():
    errors = held_out(read_logs([HUSKY]).logs, 5)
    for other in ("paper", "first order with delay"):
        for key in errors["refined"]:
            assert errors["refined"][key] < 0.7 * errors[other][key], (other, key)


def test_real_steps_are_told_to_have_a_wrong_scale():
    found = identify(read_logs([HUSKY]).logs[::4])
    assert not found.accepted
    assert found.refined["linear"].gain == pytest.approx(1.7, abs=0.1)
    assert 0.15 < found.refined["linear"].parameters[P.DELAY_S] < 0.35
    json.dumps(found.as_json(), allow_nan=False)
    assert all(math.isfinite(value) for value in found.rmse.values())
