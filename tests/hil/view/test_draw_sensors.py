"""Scans as points and sectors, against the angles that ROS gives them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.view.draw_sensors import blind_sectors, circle, scan_points
from onboard.drivers.dds.ros_convert import ros_scan
from onboard.values.messages import BINS, Scan

NAN, INF = math.nan, math.inf


def scan_of(ranges: dict[int, float], other: float = INF):
    values = np.full(BINS, other, np.float32)
    for index, range_m in ranges.items():
        values[index] = range_m
    seen = ~np.isnan(values)
    return ros_scan(0, "base_link", Scan(0, np.where(seen, values, INF).astype(np.float32), seen), 10.0)


#   bin   its middle [deg]
BEARINGS = [(0, -179.0), (89, -1.0), (90, 1.0), (134, 89.0), (179, 179.0)]


@pytest.mark.parametrize(("index", "degrees"), BEARINGS)
def test_a_point_lies_where_its_bin_looks(index, degrees):
    angle = math.radians(degrees)
    expected = [[2.0 * math.cos(angle), 2.0 * math.sin(angle), 0.3]]
    assert scan_points(scan_of({index: 2.0}), 0.3) == pytest.approx(np.array(expected), abs=1e-5)


def test_neither_nothing_nor_blindness_is_a_point():
    assert len(scan_points(scan_of({3: NAN, 4: 1.0, 5: NAN}), 0.3)) == 1


#   name               blind bins             sectors as (from, to) [deg]
BLINDNESS = [
    ("none",           [],                    []),
    ("one bin",        [90],                  [(0.0, 2.0)]),
    ("neighbours",     [90, 91, 92],          [(0.0, 6.0)]),
    ("two sectors",    [45, 135],             [(-90.0, -88.0), (90.0, 92.0)]),
    ("at the seam",    [0, 179],              [(-180.0, -178.0), (178.0, 180.0)]),
    ("everywhere",     range(BINS),           [(-180.0, 180.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bins", "sectors"), BLINDNESS, ids=[row[0] for row in BLINDNESS])
def test_blind_sectors_reach_from_edge_to_edge_of_their_bins(name, bins, sectors):
    lines = blind_sectors(scan_of(dict.fromkeys(bins, NAN)), 0.0, radius_m=1.0)
    found = []
    for line in lines:
        assert line[0] == pytest.approx([0.0, 0.0, 0.0])
        assert line[-1] == pytest.approx([0.0, 0.0, 0.0])
        edges = [math.degrees(math.atan2(line[end, 1], line[end, 0])) for end in (1, -2)]
        found.append(edges)
    turns = [abs(math.remainder(a - b, 360.0)) for pair, wanted in zip(found, sectors, strict=True)
             for a, b in zip(pair, wanted, strict=True)]  # fmt: skip
    assert max(turns, default=0.0) < 1e-3


def test_a_circle_is_closed_and_round():
    corners = circle(0.25, 0.1)
    assert corners[0] == pytest.approx(corners[-1])
    assert np.hypot(corners[:, 0], corners[:, 1]) == pytest.approx(0.25)
    assert (corners[:, 2] == 0.1).all()
