"""A picture of one scan from above: forward is up, one wedge a bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onboard.commands.cli import new_figure
from onboard.values.messages import BIN_DEG, BINS, Scan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_PX, HEIGHT_PX = 900.0, 960.0
LEAST_EXTENT_M = 1.0
OBSTACLE = 0.02
"""Thickness of an obstacle's mark, as a share of the radius."""
#  what a bin holds   colour, hatching
BLIND = ("#aab4bf", "////")
FREE, EMPTY, MARK, ROBOT = ("#d8ecdf", ""), ("#dfecf8", ""), ("#c8321f", ""), "#1f4e79"


def draw_scan(scan: Scan, far_m: float) -> Figure:
    """Return the picture. Its edge is at the farthest range, or at `far_m` when nothing was seen.

    Raises MissingExtraError without matplotlib.
    """
    ranges_m = scan.ranges_m.astype(float)
    hit, blind = np.isfinite(ranges_m), ~scan.seen
    extent_m = max(ranges_m[hit].max(initial=0.0), LEAST_EXTENT_M) if hit.any() else far_m
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    axes = figure.add_subplot(projection="polar", theta_offset=np.pi / 2, ylim=(0.0, (1.0 + OBSTACLE) * extent_m))
    left = np.radians(np.arange(BINS) * BIN_DEG - 180.0)
    for name, bins, from_m, to_m, (color, hatch) in (
        (f"free up to an obstacle ({np.count_nonzero(hit & ~blind)} bins)", hit & ~blind, 0.0, ranges_m, FREE),
        (f"nothing seen ({np.count_nonzero(~hit & ~blind)})", ~hit & ~blind, 0.0, extent_m, EMPTY),
        (f"blind ({np.count_nonzero(blind)})", blind, 0.0, extent_m, BLIND),
        ("obstacle", hit, ranges_m, OBSTACLE * extent_m, MARK),
    ):
        lengths_m, bottoms_m = (np.broadcast_to(one, BINS)[bins] for one in (to_m, from_m))
        axes.bar(left[bins], lengths_m, np.radians(BIN_DEG), bottoms_m, align="edge",
                 color=color, hatch=hatch, label=name)  # fmt: skip
    axes.plot(0.0, 0.0, "^", color=ROBOT, markersize=14)  # it points ahead; a sign, not to scale
    axes.set_xticks(np.radians(range(0, 360, 30)), [f"{(deg + 179) % 360 - 179:+d}°" for deg in range(0, 360, 30)])
    axes.yaxis.set_major_formatter("{x:g} m")
    words = "no obstacle"
    if hit.any():
        nearest = int(ranges_m.argmin())
        words = f"nearest {ranges_m[nearest]:.2f} m at {(nearest + 0.5) * BIN_DEG - 180.0:+.0f}°"
    axes.set_title(f"Fused scan: {words}")
    figure.legend(loc="outside lower center", ncols=4)
    return figure
