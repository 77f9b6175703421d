"""A fix taken in by compiled code against the filter itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.drive.fast.ekf_kernel import correct_fast
from hil.drive.fast.tick_state import TickState, records_of, state_of
from onboard.config.config import OdometrySection
from onboard.navigation.ekf import STATES, LocalizationState, correct
from onboard.navigation.odometry import OdometryState, Sample
from onboard.values.messages import STOP, Fix, Motion, Pose

SECTION = OdometrySection()
VARIANCE = np.square(np.array(SECTION.localization_sd))
HERE = Pose(12.0, -3.0, 3.1)
ROUNDING = 1e-12

spreads = st.lists(st.floats(-0.3, 0.3), min_size=STATES * STATES, max_size=STATES * STATES)


def filter_of(spread: list[float]) -> LocalizationState:
    """Return a filter at HERE with a covariance of any shape."""
    root = np.array(spread).reshape(STATES, STATES)
    covariance = root @ root.T + 1e-4 * np.eye(STATES)
    return LocalizationState(HERE, (0.02, 0.01), 0.5 * (covariance + covariance.T), Pose(1.0, 2.0, 0.3), 4.0)


def by_definition(before: LocalizationState, pose: Pose) -> LocalizationState:
    motion = Motion(before.odom_from_base, STOP)
    wheels = OdometryState(
        motion.pose, stamp_ns=9, arrival_ns=9, moving_s=before.moving_s, history=(Sample(9, motion, before.moving_s),)
    )
    return correct(before, Fix(9, 9, pose), wheels, SECTION)


def compiled(before: LocalizationState, pose: Pose) -> tuple[bool, TickState, np.ndarray]:
    assert before.covariance is not None
    records = records_of(
        TickState(
            filter_x_m=HERE.x_m, filter_y_m=HERE.y_m, filter_yaw=HERE.yaw_rad, scale=before.systematic[0],
            creep=before.systematic[1],
        )
    )  # fmt: skip
    covariance = before.covariance.copy()
    believed = bool(correct_fast(records, covariance, pose.x_m, pose.y_m, pose.yaw_rad, VARIANCE))
    return believed, state_of(records), covariance


@given(spread=spreads, dx=st.floats(-0.5, 0.5), dy=st.floats(-0.5, 0.5), turn=st.floats(-0.4, 0.4))
@settings(max_examples=200, deadline=None)
def test_it_does_what_the_filter_does(spread, dx, dy, turn):
    before = filter_of(spread)
    pose = Pose(HERE.x_m + dx, HERE.y_m + dy, math.remainder(HERE.yaw_rad + turn, 2.0 * math.pi))
    after = by_definition(before, pose)
    believed, state, covariance = compiled(before, pose)
    assert believed == (after.rejected == 0)
    assert after.map_from_base is not None
    place = (after.map_from_base.x_m, after.map_from_base.y_m, after.map_from_base.yaw_rad)
    assert (state.filter_x_m, state.filter_y_m, state.filter_yaw) == pytest.approx(place, abs=ROUNDING)
    assert (state.scale, state.creep) == pytest.approx(after.systematic, abs=ROUNDING)
    np.testing.assert_allclose(covariance, after.covariance, atol=ROUNDING)


def test_an_outlier_changes_nothing():
    before = replace(filter_of([0.0] * STATES * STATES))
    believed, state, covariance = compiled(before, Pose(HERE.x_m + 1.0, HERE.y_m, HERE.yaw_rad))
    assert not believed
    assert (state.filter_x_m, state.filter_y_m, state.filter_yaw) == (HERE.x_m, HERE.y_m, HERE.yaw_rad)
    np.testing.assert_array_equal(covariance, before.covariance)
