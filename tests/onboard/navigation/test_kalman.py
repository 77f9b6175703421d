"""The filter's compiled arithmetic against its definition with matrices, and as Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.navigation import kalman
from onboard.navigation.kalman import GATE, STATES

ROUNDING = 1e-12


def drawn(seed: int, size: int) -> tuple[np.ndarray, ...]:
    """Return covariance (n, n), model (3, n), residual (3,) and noise (3, 3)."""
    rng = np.random.default_rng(seed)
    root, of_fix = rng.uniform(-0.3, 0.3, (size, size)), rng.uniform(-0.05, 0.05, (3, 3))
    model = np.eye(3, size)
    model[:, 3:] = rng.uniform(-0.2, 0.2, (3, size - 3))
    noise = of_fix @ of_fix.T + 1e-3 * np.eye(3)
    return root @ root.T + 1e-4 * np.eye(size), model, rng.uniform(-1.5, 1.5, 3), noise


def work_of(size: int) -> np.ndarray:
    return np.full((6 + 2 * size, size), math.nan)


@pytest.mark.parametrize("size", [STATES, STATES + 3])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_a_correction_is_that_of_the_textbook(size: int, seed: int) -> None:
    before, model, residual, noise = drawn(seed, size)
    innovation = model @ before @ model.T + noise
    passes = residual @ np.linalg.solve(innovation, residual) <= GATE
    gain = np.linalg.solve(innovation, model @ before).T
    after, work = before.copy(), work_of(size)
    assert kalman.correct(after, model, residual, noise, work) == passes
    if not passes:
        np.testing.assert_array_equal(after, before)
        return
    np.testing.assert_allclose(work[0], gain @ residual, rtol=0.0, atol=ROUNDING)
    np.testing.assert_allclose(after, before - gain @ innovation @ gain.T, rtol=0.0, atol=ROUNDING)
    np.testing.assert_array_equal(after, after.T)
    as_python = before.copy()
    kalman.correct.py_func(as_python, model, residual, noise, work_of(size))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(as_python, after)


@pytest.mark.parametrize("size", [STATES, STATES + 3])
@given(seed=st.integers(0, 10_000), step=st.tuples(*[st.floats(-0.5, 0.5)] * 3), moving_s=st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_a_prediction_is_that_of_the_textbook(size: int, seed: int, step: tuple[float, ...], moving_s: float) -> None:
    """The derivative of the pose by the state is taken by small differences."""
    before = drawn(seed, size)[0]
    state = np.array([2.0, -1.0, 3.0, 0.02, 0.01])

    def pose_of(changed: np.ndarray) -> np.ndarray:
        return np.array(kalman.predict(before.copy(), *changed.tolist()[:3], *step, *changed.tolist()[3:], moving_s))

    after = before.copy()
    kalman.predict(after, *state.tolist()[:3], *step, *state.tolist()[3:], moving_s)
    carried, by = np.eye(size), 1e-6
    for i in range(STATES):
        off = by * np.eye(STATES)[i]
        carried[:3, i] = np.array([math.remainder(d, math.tau) for d in pose_of(state + off) - pose_of(state - off)])
    carried[:3, :STATES] /= 2.0 * by
    grown = np.diag(after - carried @ before @ carried.T)
    np.testing.assert_allclose((after - carried @ before @ carried.T)[STATES:], 0.0, atol=1e-6)
    assert (grown > -1e-6).all()
    assert grown[2] == pytest.approx(3e-3 * moving_s, abs=1e-6)
    np.testing.assert_array_equal(after, after.T)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_covariance_that_is_none_lets_no_fix_pass(value: float) -> None:
    before, model, residual, noise = drawn(0, STATES)
    before[1, 1] = value
    assert not kalman.correct(before.copy(), model, residual, noise, work_of(STATES))
