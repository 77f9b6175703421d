"""Known walls and scans at cuts: where they lie, which are shown, and that none is shown without a pose."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hil.report.trajectory import CELL_PX, cuts_of, walls_of
from onboard.values.messages import BINS
from tests.hil.report.report_rows import spread, timeline

N = 60
POSES = np.tile([1.0, 2.0, np.pi / 2.0], (N, 1))
AHEAD = BINS // 2


def in_cm(points_m: np.ndarray) -> np.ndarray:
    return 100.0 * points_m


def points(path: str) -> np.ndarray:
    return np.array([[float(x), float(y)] for x, y in re.findall(r"M(\S+) (\S+?)h0", path)])


def one_wall(ticks: int = N) -> np.ndarray:
    """Return scans that hit something 1.5 m ahead alone."""
    scans = np.full((ticks, BINS), np.nan, np.float32)
    scans[:, AHEAD] = 1.5
    return scans


def test_a_wall_lies_where_the_scans_hit_it_in_the_frame_of_the_path() -> None:
    (wall,) = points(walls_of(timeline(N, scans=one_wall()), POSES, in_cm))
    assert wall == pytest.approx([100.0, 350.0], abs=3.0 + CELL_PX)


def test_what_only_one_scan_hit_is_no_wall() -> None:
    scans = one_wall()
    scans[1:, AHEAD] = np.inf
    assert walls_of(timeline(N, scans=scans), POSES, in_cm) == ""


def test_the_scan_is_shown_at_the_tick_with_the_largest_cut_of_each_stretch() -> None:
    scans, command = one_wall(), np.ones((N, 2))
    command[30:40], command[35] = 0.5, 0.1
    scans[35, AHEAD] = 0.6
    reason = spread(N, "none", zone_stop=(30, 40), speed_limit=(50, 55))
    session = timeline(N, scans=scans, wanted=np.ones((N, 2)), command=command, reason=reason)
    (cut,) = cuts_of(session, POSES, in_cm)
    (seen,) = points(cut.scan)
    assert seen == pytest.approx([100.0, 260.0], abs=3.0)
    assert cut.heading == "M100.0 200.0L100.0 250.0"
    assert cut.text == "1.17 s: zone_stop: wanted 1.00 m/s, 1.00 rad/s; sent 0.10 m/s, 0.10 rad/s"
