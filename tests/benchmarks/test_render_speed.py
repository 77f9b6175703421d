"""The ray caster that strides over empty squares against the plain walk from cell to cell, in the same run."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from hil.maps import World, load_map
from hil.render import cast_scan, rays_of, render_color, render_depth
from onboard.config import DEFAULT_ROBOT
from onboard.messages import Pose
from onboard.mounts import load_mounts

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
DEPTH = [rays_of(mount) for mount in MOUNTS.depth.values()]
COLOR = rays_of(MOUNTS.color["color"])
PLACES = 40
ROOM_CELLS = 8
"""Cells to the nearest wall at the places that are rendered."""

WORK = {
    "four depth images": lambda world, pose: [render_depth(world, rays, pose) for rays in DEPTH],
    "colour image": lambda world, pose: render_color(world, COLOR, pose),
    "direct scan": cast_scan,
}


def places(world: World) -> list[Pose]:
    rng, free = np.random.default_rng(0), np.argwhere(world.gap > ROOM_CELLS)
    chosen = free[rng.integers(len(free), size=PLACES)]
    return [Pose(*world.centre_of((int(row), int(column))), float(rng.uniform(-3, 3))) for row, column in chosen]


def median_ms(work, world: World, poses: list[Pose]) -> float:
    times = []
    for pose in poses:
        begun = time.perf_counter()
        work(world, pose)
        times.append((time.perf_counter() - begun) * 1e3)
    return float(np.median(times))


@pytest.mark.long
@pytest.mark.parametrize("name", list(WORK))
def test_striding_is_faster(name, capsys):
    world = load_map("gdc1")
    plain, poses = replace(world, gap=np.minimum(world.gap, 1)), places(world)
    WORK[name](world, poses[0])
    stride, walk = median_ms(WORK[name], world, poses), median_ms(WORK[name], plain, poses)
    with capsys.disabled():
        print(f"\n{name}: {stride:.2f} ms with strides, {walk:.2f} ms cell by cell, {walk / stride:.1f} times")
    assert stride < walk
