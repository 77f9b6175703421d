"""The kernels of the batched world for a GPU: the same functions, compiled by numba-cuda."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from engines.train.batched import lane_kernels as kernels
from engines.train.batched import lane_sight as sight
from engines.train.batched import lane_teacher as teacher
from engines.train.batched.lane_sight import FANS

vars(np).setdefault("row_stack", np.vstack)  # numba-cuda up to 0.30 still names it
cuda: Any = importlib.import_module("numba.cuda")


def start(count: Any, goals: Any, lanes: Any, rules: Any, site: Any, views: Any) -> None:
    """Begin the first drive of each lane."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.start(lane, goals, lanes, rules, site, views)


def set_actions(count: Any, actions: Any, lanes: Any) -> None:
    """Give each lane its action."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.set_action(lane, actions[lane], lanes)


def live(count: Any, looked: Any, lanes: Any, rules: Any, site: Any) -> None:
    """Advance each lane by one tick."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.live(lane, looked, lanes, rules, site)


def near(count: Any, lanes: Any, rules: Any, site: Any) -> None:
    """Find what the obstacles near by allow; a thread for each fan of each lane."""
    index = cuda.grid(1)
    if index < count * FANS:
        lane, fan = index // FANS, index % FANS
        if lanes.more[lane].asks != 0.0:
            speed_mps, free_m, back_mps = sight.near(lane, fan, lanes, rules, site)
            cuda.atomic.min(lanes.near, (lane, 0), speed_mps)
            cuda.atomic.min(lanes.near, (lane, 1), free_m)
            cuda.atomic.min(lanes.near, (lane, 2), back_mps)


def finish(count: Any, goals: Any, lanes: Any, rules: Any, site: Any, views: Any) -> None:
    """Write the rewards and views of all lanes at their next decision."""
    lane = cuda.grid(1)
    if lane < count:
        kernels.finish(lane, goals, lanes, rules, site, views)


def cast_scans(scan: Any, lanes: Any, rules: Any, site: Any) -> None:
    """Write the policy's scan of each lane; a thread for each bin."""
    index = cuda.grid(1)
    if index < scan.shape[0] * scan.shape[1]:
        lane, bin = index // scan.shape[1], index % scan.shape[1]
        scan[lane, bin] = sight.seen_value(bin, lane, lanes, rules, site)


def label(count: Any, lanes: Any, rules: Any, site: Any, labels: Any) -> None:
    """Write the teacher's times of each lane."""
    lane = cuda.grid(1)
    if lane < count:
        teacher.label(lane, lanes, rules, site, labels[lane])


class CudaKernels:
    """The launchable kernels."""

    cuda = cuda

    def __init__(self) -> None:
        # few lanes are in the empty room in which they are compiled; the text begins with a colour
        warnings.filterwarnings("ignore", ".*Grid size .* will likely result in GPU under-utilization")
        self.start, self.set_actions, self.live = (cuda.jit(one) for one in (start, set_actions, live))
        self.near, self.finish, self.cast_scans = (cuda.jit(one) for one in (near, finish, cast_scans))
        self.label = cuda.jit(label)
