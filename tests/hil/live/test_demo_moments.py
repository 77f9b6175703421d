"""The scans in the picture of a demo lie where the robot saw them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from hil.live.demo_result import moments_of
from onboard.values.clock import NS_PER_S

LIVED_NS = 50 * NS_PER_S


def scan(range_m: float) -> SimpleNamespace:
    """Return a scan that sees a wall ahead and nothing else."""
    ranges = [math.inf, math.nan, range_m, 30.0]
    return SimpleNamespace(ranges=ranges, angle_min=-math.pi, angle_increment=math.pi / 2, range_max=30.0)


def test_a_wall_stays_where_it_is() -> None:
    """The robot drives at 1 m/s to a wall at x = 20, and the scans were captured 8 s to 2 s before the trace ends."""
    trace = np.array([[t, float(t), 3.0, 0.0, 1.0, 0.0] for t in range(11)])
    scans = [(LIVED_NS - back * NS_PER_S, scan(20.0 - (10 - back))) for back in (8, 7, 6, 5, 4, 3, 2)]
    moments = moments_of(scans, trace, LIVED_NS)
    assert [moment.time_s for moment in moments] == [1.0, 3.0, 5.0]
    assert [moment.pose.x_m for moment in moments] == [3.0, 5.0, 7.0]
    for moment in moments:
        assert moment.points == pytest.approx(np.array([[20.0, 3.0]]))


def test_a_drive_that_did_not_begin_has_none() -> None:
    assert moments_of([], np.zeros((1, 6)), LIVED_NS) == []
