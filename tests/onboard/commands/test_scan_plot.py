"""The picture of a scan: its colours at known places, and that any scan can be drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.commands.scan_plot import EMPTY, FREE, OBSTACLE, draw_scan
from onboard.values.messages import BINS, Scan


def color_at(scan: Scan, azimuth_deg: float, radius_px: float) -> str:
    """Return the colour of the picture at a bearing and distance from its middle."""
    azimuth = math.radians(azimuth_deg)
    at = (round(450 - radius_px * math.sin(azimuth)), round(500 - radius_px * math.cos(azimuth)))
    red, green, blue = draw_scan(scan, 10.0).getpixel(at)
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_the_picture_tells_blind_empty_free_and_obstacle_apart() -> None:
    ranges_m, seen = np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_)
    ranges_m[90:130] = 1.0  # 0 to 80 deg, on the left: 200 pixels
    ranges_m[170] = 2.0  # farthest: on the outermost ring
    seen[20:60] = False  # -140 to -60 deg, on the right
    scan = Scan(0, ranges_m, seen)
    assert color_at(scan, 45, 350) == "#ffffff"  # hidden behind the obstacle
    assert color_at(scan, 45, 204) == OBSTACLE
    assert color_at(scan, 45, 150) == FREE
    assert color_at(scan, 165, 350) == EMPTY
    assert color_at(scan, -45, 350) == EMPTY
    assert color_at(scan, -100, 352) not in {EMPTY, FREE, "#ffffff"}


@pytest.mark.parametrize("range_m", [0.0, 0.01, 3.0, 65.0, math.inf])
def test_any_scan_can_be_drawn(range_m: float) -> None:
    image = draw_scan(Scan(0, np.full(BINS, range_m, np.float32), np.zeros(BINS, np.bool_)), 10.0)
    assert image.getextrema() != ((255, 255),) * 3
