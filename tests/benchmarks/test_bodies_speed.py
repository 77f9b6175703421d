"""What moving bodies and clearance cost, each beside a peer that is measured in the same run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from hil.drive.episodes import load_episodes
from hil.physics.collision_world import Body, Simulation, blocked_cells
from hil.scene.walkers import bodies_of, make_crowd, walk, walking_space
from hil.sensors.camera import cast_scan
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant

TICK_S = 1.0 / 30.0
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
CROWDS = (0, 1, 10, 50)
TIMES = 500
BODY = Body()


def median_us(work: Callable[[], object], times: int) -> float:
    work()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1e6)
    return float(np.median(taken))


@pytest.mark.long
def test_walking_and_contact_by_number_of_bodies(capsys):
    """A tick of walking and of motion, beside one direct scan."""
    known = load_episodes("gdc1")
    space, simulation = walking_space(known.world), Simulation(known.world, PLANT, BODY)
    state = simulation.start(known.episodes[0].start)
    xy = state.pose.x_m, state.pose.y_m
    scan_us = median_us(lambda: cast_scan(known.world, state.pose), TIMES)
    lines, walking = [f"direct scan {scan_us:.1f} us"], {}
    for count in CROWDS:
        crowd = make_crowd(space, 1, count, keep_clear=(xy,))
        bodies = bodies_of(crowd)
        walking[count] = median_us(lambda crowd=crowd: walk(crowd, TICK_S, xy), TIMES)
        step_us = median_us(lambda bodies=bodies: simulation.step(state, bodies=bodies), TIMES)
        clear_us = median_us(lambda bodies=bodies: simulation.clearance_m(state, bodies), TIMES)
        lines.append(f"{count:2d} bodies: walk {walking[count]:.1f}, step {step_us:.1f}, clearance {clear_us:.1f} us")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert walking[10] < scan_us


@pytest.mark.long
def test_clearance_against_a_search_of_all_cells(capsys):
    known = load_episodes("gdc1")
    simulation = Simulation(known.world, PLANT, BODY)
    state, world = simulation.start(known.episodes[0].start), known.world
    low = np.argwhere(blocked_cells(world, BODY))[:, ::-1].astype(float)

    def plain() -> float:
        corner = world.grid_from_map
        x = corner.x_m + math.cos(corner.yaw_rad) * state.pose.x_m - math.sin(corner.yaw_rad) * state.pose.y_m
        y = corner.y_m + math.sin(corner.yaw_rad) * state.pose.x_m + math.cos(corner.yaw_rad) * state.pose.y_m
        at = np.array([x, y]) / world.cell_m
        away = at - np.clip(at, low, low + 1.0)
        return float(np.hypot(away[:, 0], away[:, 1]).min()) * world.cell_m - BODY.radius_m

    assert simulation.clearance_m(state) == pytest.approx(plain(), abs=1e-9)
    all_us, ours_us = median_us(plain, 10), median_us(lambda: simulation.clearance_m(state), TIMES)
    with capsys.disabled():
        print(f"\nclearance {ours_us:.1f} us, search of all {len(low)} blocked cells {all_us:.0f} us")
    assert ours_us < all_us
