"""What the noise and holes of real depth images do to a scan that is cast, without the images.

A fused bin is the least range of its pixels. Their noise is even in 1/depth (depth_noise.py), so it brings a bin nearer
on average and scatters it less than one pixel; a bin is empty when all its pixels are holes. Both were sized by fusing
rendered frames with and without that noise (tests/test_scan_noise.py does it again). Not modelled: what shadows and
rims hide beside near things, what is nearer than a camera sees at all, and that neighbouring bins err alike.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hil.depth_noise import load_depth_noise

NEARER, SCATTER = 0.9, 0.65
"""Mean and standard deviation of a bin's error in 1/range, in standard deviations of one pixel's."""
EMPTY = 0.008
"""Share of bins that see nothing; 0.005 to 0.011 in four maps."""
STREAM = 7
"""Beside a drive's seed, so that its other noise is another."""

Ranges = npt.NDArray[np.float32]


def noisy_scan(ranges_m: Ranges, seed: int, tick: int) -> Ranges:
    """Return (180,) ranges as real cameras would let them be fused; the same for the same seed and tick [m].

    What is inf stays so.
    """
    numbers, rng = load_depth_noise().numbers, np.random.default_rng((seed, STREAM, tick))
    error, lost = rng.standard_normal(len(ranges_m)), rng.random(len(ranges_m)) < EMPTY
    seen = np.isfinite(ranges_m) & (ranges_m > 0.0)
    true_m = ranges_m[seen].astype(np.float64)
    sd_per_m = np.interp(true_m, numbers.depth_m, numbers.sd_per_m)
    per_m = 1.0 / true_m + sd_per_m * (NEARER + SCATTER * error[seen])
    noisy = ranges_m.copy()
    noisy[seen] = 1.0 / np.maximum(per_m, np.finfo(np.float32).tiny)
    noisy[lost] = np.inf
    return noisy
