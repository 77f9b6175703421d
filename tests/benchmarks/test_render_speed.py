"""Rendering and the direct scan against their plainer peers in the same run, and how they grow with map and bodies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hil.maps.load import load_map, map_names
from hil.maps.materials import MATERIALS, draw_appearance
from hil.maps.world_grid import World
from hil.physics.contact import Bodies
from hil.scene.furniture import furnish
from hil.sensors.camera import cast_scan, rays_of, render_color, render_depth
from hil.sensors.direct_scan import SCAN_Z_MAX_M, SCAN_Z_MIN_M, ScanCaster
from hil.sensors.raycast import NOTHING, bodies_by_bearing, trace
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Pose
from tests.rigs.rooms import body_row

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
DEPTH = [rays_of(mount) for mount in MOUNTS.depth.values()]
COLOR = rays_of(MOUNTS.color["color"])
LOOK = draw_appearance(3)
PLACES = 30
ROOM_CELLS = 8
"""Cells to the nearest thing at the places that are rendered."""
ROUNDS = 5
RADIUS_M = 10.0
FEW_RAYS, DENSE_RAYS = 5, 50
BODY_COUNTS = (0, 10, 100)
GROWTH_MAPS = ("home", "willow", "gdc1", "ghc2")
MEMORY_LIMIT_BYTES = 1_000_000_000

Work = Callable[[World, Pose, Bodies], Any]


def depth_set(world: World, pose: Pose, bodies: Bodies) -> None:
    for rays in DEPTH:
        render_depth(world, rays, pose, bodies=bodies)


def color_image(world: World, pose: Pose, bodies: Bodies) -> None:
    render_color(world, COLOR, pose, LOOK, bodies)


def direct_scan(world: World, pose: Pose, bodies: Bodies) -> None:
    cast_scan(world, pose, RADIUS_M, bodies=bodies)


WORK: dict[str, Work] = {"four depth images": depth_set, "colour image": color_image}


def places(world: World) -> list[Pose]:
    rng, free = np.random.default_rng(0), np.argwhere(world.gap > ROOM_CELLS)
    chosen = free[rng.integers(len(free), size=PLACES)]
    return [Pose(*world.centre_of((int(row), int(column))), float(rng.uniform(-3, 3))) for row, column in chosen]


def people(pose: Pose, count: int) -> Bodies:
    """Return so many people within 10 m of a place."""
    rng = np.random.default_rng(count)
    away, azimuth = rng.uniform(1.0, RADIUS_M, count), rng.uniform(-math.pi, math.pi, count)
    xy = zip(pose.x_m + away * np.cos(azimuth), pose.y_m + away * np.sin(azimuth), strict=True)
    return np.array([body_row(place, 0.25, 1.7, MATERIALS.index("person")) for place in xy]).reshape(-1, 6)


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
@pytest.mark.parametrize("name", list(WORK))
def test_striding_is_faster(name, capsys):
    world = load_map("gdc1")
    plain, poses = replace(world, gap=np.minimum(world.gap, 1)), places(world)
    nobody = [people(pose, 0) for pose in poses]
    stride = median_ms(WORK[name], [world] * PLACES, poses, nobody)
    walk = median_ms(WORK[name], [plain] * PLACES, poses, nobody)
    with capsys.disabled():
        print(f"\n{name}: {stride:.2f} ms with strides, {walk:.2f} ms cell by cell, {walk / stride:.1f} times")
    assert stride < walk


@pytest.mark.long
def test_growth_with_map_and_bodies(capsys):
    """The sensors' time depends on what is near, not on the size of the map; a hundred people are no wall of time."""
    lines = ["map, furnished   Mcells  bodies  scans/s  depth ms  colour ms  sets/s"]
    set_ms: dict[tuple[str, int], float] = {}
    for name in GROWTH_MAPS:
        world = furnish(load_map(name), 1)
        poses = places(world)
        for count in BODY_COUNTS:
            surroundings = [people(pose, count) for pose in poses]
            scan, depth, color = (
                median_ms(work, [world] * PLACES, poses, surroundings) for work in (direct_scan, depth_set, color_image)
            )
            set_ms[name, count] = depth + color
            lines.append(
                f"{name:16} {world.gap.size / 1e6:7.2f} {count:7d} {1e3 / scan:8,.0f} {depth:9.2f} {color:10.2f} "
                f"{1e3 / (depth + color):7.1f}"
            )
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    for name in GROWTH_MAPS:
        assert set_ms[name, 100] < 10.0 * set_ms[name, 0]


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
