"""The kernels of the batched world for a GPU: the same functions, compiled by numba-cuda."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from engines.train.batched import lane_kernels as kernels

vars(np).setdefault("row_stack", np.vstack)  # numba-cuda up to 0.30 still names it
cuda: Any = importlib.import_module("numba.cuda")


def start(count: Any, goals: Any, lanes: Any, rules: Any, site: Any, views: Any) -> None:
    """Begin the first drive of each lane."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.start(lane, goals, lanes, rules, site, views)


def decide(count: Any, actions: Any, goals: Any, lanes: Any, rules: Any, site: Any, views: Any) -> None:
    """Advance each lane to its next decision."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.decide(lane, actions[lane], goals, lanes, rules, site, views)


def look(scan: Any, lanes: Any, rules: Any, site: Any) -> None:
    """Write the policy's scan of each lane; a thread for each bin."""
    index = cuda.grid(1)
    if index < scan.shape[0] * scan.shape[1]:
        lane, bin = index // scan.shape[1], index % scan.shape[1]
        scan[lane, bin] = kernels.seen_value(bin, lane, lanes, rules, site)


class CudaKernels:
    """The launchable kernels."""

    cuda = cuda

    def __init__(self) -> None:
        # the empty room in which they are compiled has few lanes
        warnings.filterwarnings("ignore", "Grid size .* will likely result in GPU under-utilization")
        self.start, self.decide, self.look = (cuda.jit(one) for one in (start, decide, look))
