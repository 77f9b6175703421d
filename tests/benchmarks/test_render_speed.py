"""The direct scan against scans by rays in the same run, and the memory of the largest map."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hil.maps.load import load_map, map_names
from hil.maps.world_grid import World
from hil.scene.furniture import furnish
from hil.sensors.direct_scan import SCAN_Z_MAX_M, SCAN_Z_MIN_M, ScanCaster
from hil.sensors.raycast import NOTHING, bodies_by_bearing, trace
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose

PLACES = 30
ROOM_CELLS = 8
"""Cells to the nearest thing at the places that are rendered."""
ROUNDS = 5
RADIUS_M = 10.0
FEW_RAYS, DENSE_RAYS = 5, 50
MEMORY_LIMIT_BYTES = 1_000_000_000


def places(world: World) -> list[Pose]:
    rng, free = np.random.default_rng(0), np.argwhere(world.gap > ROOM_CELLS)
    chosen = free[rng.integers(len(free), size=PLACES)]
    return [Pose(*world.centre_of((int(row), int(column))), float(rng.uniform(-3, 3))) for row, column in chosen]


def median_ms(work: Callable[..., Any], *arguments: list[Any]) -> float:
    """Return the median over places of the least processor time in `ROUNDS` rounds: what one core does by itself."""
    rows = list(zip(*arguments, strict=True))
    work(*rows[0])
    least = np.full(len(rows), np.inf)
    for _ in range(ROUNDS):
        for index, row in enumerate(rows):
            begun = time.thread_time()
            work(*row)
            least[index] = min(least[index], (time.thread_time() - begun) * 1e3)
    return float(np.median(least))


@kernel(cache=False)
def in_band(low_m, high_m, z_min, z_max):
    """Return the heights of a world with all that is out of the band left out."""
    low, high = low_m.copy(), high_m.copy()
    for index in np.ndindex(low.shape):
        if low[index] > z_max or high[index] < z_min:
            low[index], high[index] = np.inf, -np.inf
        elif low[index] <= high[index]:
            low[index], high[index] = 0.0, 2.0
    return low, high


@kernel(cache=False)
def cast_rays(x, y, yaw, radius, per_bin, cell_m, gap, low_m, high_m, ranges):
    """The plain way: the least of so many level rays in every bin; what is between them is missed."""
    nobody = np.empty((0, 6))
    first, members = bodies_by_bearing(x, y, nobody)
    for i in range(len(ranges)):
        ranges[i] = np.inf
        for k in range(per_bin):
            azimuth = yaw - math.pi + (i + (k + 0.5) / per_bin) * 2.0 * math.pi / len(ranges)
            dx, dy = math.cos(azimuth), math.sin(azimuth)
            t, what, _ = trace(x, y, 1.0, dx, dy, 0.0, radius, cell_m, gap, low_m, high_m, nobody, first, members)
            if what != NOTHING:
                ranges[i] = min(ranges[i], t)


def ray_scan(world: World, per_bin: int) -> Callable[[Pose], np.ndarray]:
    low, high = in_band(world.low_m, world.high_m, SCAN_Z_MIN_M, SCAN_Z_MAX_M)

    def cast(pose: Pose) -> np.ndarray:
        ranges = np.empty(BINS, np.float32)
        corner = world.map_from_grid
        x, y, yaw = pose.x_m - corner.x_m, pose.y_m - corner.y_m, pose.yaw_rad
        cast_rays(x, y, yaw, RADIUS_M, per_bin, world.cell_m, world.gap, low, high, ranges)
        return ranges

    return cast


@pytest.mark.long
@pytest.mark.parametrize("name", ["gdc1", "gdc3"])
def test_sectors_are_faster_than_rays_and_miss_less(name, capsys):
    world = furnish(load_map(name), 1)
    poses, caster = places(world), ScanCaster(world)
    few, dense = ray_scan(world, FEW_RAYS), ray_scan(world, DENSE_RAYS)
    sector_ms, few_ms, dense_ms = median_ms(caster.cast, poses), median_ms(few, poses), median_ms(dense, poses)
    sectors = np.array([caster.cast(pose) for pose in poses])
    missed = [np.mean(np.array([cast(pose) for pose in poses]) > sectors + world.cell_m) for cast in (few, dense)]
    with capsys.disabled():
        print(
            f"\n{name}, furnished: {1e3 / sector_ms:,.0f} scans/s of sectors; "
            f"{FEW_RAYS} rays a bin {1e3 / few_ms:,.0f} "
            f"({few_ms / sector_ms:.1f} times slower, {missed[0]:.1%} of bins miss something nearer by a cell); "
            f"{DENSE_RAYS} rays a bin {1e3 / dense_ms:,.0f} ({dense_ms / sector_ms:.1f} times, {missed[1]:.1%})"
        )
    assert sector_ms < few_ms < dense_ms
    assert missed[0] >= missed[1]


@pytest.mark.long
def test_memory_of_the_largest_map(capsys):
    sizes = {name: load_map(name).gap.size for name in map_names()}
    name = max(sizes, key=lambda each: sizes[each])
    world = furnish(load_map(name), 1)
    arrays = [world.low_m, world.high_m, world.gap, world.material]
    bytes_ = sum(array.nbytes for array in arrays) + ScanCaster(world).nbytes
    with capsys.disabled():
        print(
            f"\nlargest map {name}: {world.gap.size / 1e6:.2f} million cells, furnished and prepared for scans "
            f"{bytes_ / 1e6:.0f} MB, {bytes_ / world.gap.size:.1f} bytes a cell"
        )
    assert bytes_ < MEMORY_LIMIT_BYTES
