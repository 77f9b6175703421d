"""Kernels that find the holes of depth frames: runs along rows, and connected blobs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import kernel

Values = npt.NDArray[np.float64]


@kernel
def runs_of(frames: Values, edge_per_m: float) -> tuple[Values, Values]:
    """Return (n, 3) all runs of holes between two depths, and (m, 2) the bands.

    run:  length [px], depth on the left [m], depth on the right [m]. An edge without a hole (a step of 1/depth larger
          than `edge_per_m`) is a run of length 0
    band: number of holes before the first depth of a row, and that depth [m]; rows without depth have no band
    """
    bands = np.empty((frames.shape[0] * frames.shape[1], 2))
    count, rows = _find_runs(frames, edge_per_m, np.empty((0, 3)), bands)
    runs = np.empty((count, 3))
    _find_runs(frames, edge_per_m, runs, bands)
    return runs, bands[:rows]


@kernel
def _find_runs(frames: Values, edge_per_m: float, runs: Values, bands: Values) -> tuple[int, int]:
    """Write the runs, up to the size of `runs`, and the bands; return the number of all runs and of bands."""
    count, rows = 0, 0
    for n in range(frames.shape[0]):
        for v in range(frames.shape[1]):
            last = -1
            for u in range(frames.shape[2]):
                depth = frames[n, v, u]
                if depth == 0.0:
                    continue
                if last < 0:
                    bands[rows, 0], bands[rows, 1] = u, depth
                    rows += 1
                elif u - last > 1 or abs(1.0 / depth - 1.0 / frames[n, v, last]) > edge_per_m:
                    if count < len(runs):
                        runs[count, 0], runs[count, 1], runs[count, 2] = u - last - 1, frames[n, v, last], depth
                    count += 1
                last = u
    return count, rows


@kernel
def blob_areas(holes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the areas [px] of 4-connected holes in (n, height, width) bool, except holes at the left border."""
    left = holes.copy()
    areas, stack = [0], [(0, 0)]
    for n in range(holes.shape[0]):
        for v in range(holes.shape[1]):
            for u in range(holes.shape[2]):
                if not left[n, v, u]:
                    continue
                area, at_border = 0, False
                left[n, v, u] = False
                stack.append((v, u))
                while len(stack) > 1:
                    row, column = stack.pop()
                    area += 1
                    at_border |= column == 0
                    for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                        r, c = row + down, column + right
                        if 0 <= r < holes.shape[1] and 0 <= c < holes.shape[2] and left[n, r, c]:
                            left[n, r, c] = False
                            stack.append((r, c))
                if not at_border:
                    areas.append(area)
    return np.array(areas[1:])


@kernel
def fill_holes(frames: Values, edge_per_m: float) -> Values:
    """Return the frames with every hole filled along its row by the background depth.

    At an edge this is the farther depth, between similar depths the mean in 1/depth, at a border the adjacent depth.
    A row without depth stays empty.
    """
    filled: Values = frames.copy()
    for n in range(frames.shape[0]):
        for v in range(frames.shape[1]):
            last = -1
            for u in range(frames.shape[2]):
                depth = frames[n, v, u]
                if depth == 0.0:
                    continue
                if u - last > 1:
                    behind = depth
                    if last >= 0:
                        before = frames[n, v, last]
                        alike = abs(1.0 / depth - 1.0 / before) <= edge_per_m
                        behind = 2.0 / (1.0 / depth + 1.0 / before) if alike else max(depth, before)
                    filled[n, v, last + 1 : u] = behind
                last = u
            if last >= 0:
                filled[n, v, last + 1 :] = frames[n, v, last]
    return filled
