"""Which map of a building the robot has in an evaluation: true, a plan, an old one, or one made of a drive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import structlog

from hil.drive.episodes import EpisodeSet
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import grid_seen
from hil.evaluate.episode_selection import Source, floor_plan, rearranged
from hil.physics.free_space import FreeSpace, distance_field, free_space, shortest_path
from hil.physics.odometry_noise import Drift, drift_step
from hil.physics.simulated_base import STEP_S
from hil.recordings.mapping.build import build
from hil.recordings.mapping.keyframes import Sample, keyframes
from hil.sensors.direct_scan import direct_scan
from onboard.navigation.odometry import integrate
from onboard.perception.building.map_image import FREE, OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import labelled
from onboard.values.geometry import IDENTITY, compose, wrap
from onboard.values.messages import Pose, Twist

Flags = npt.NDArray[np.bool_]
log = structlog.get_logger()
KnownMap = Literal["", "true", "rearranged", "plan", "day_old", "made"]
"""true, plan: with and without the furniture; rearranged: with all furniture elsewhere; day_old: with half of it
elsewhere; made: by `onboard-hil map` from one drive through the building; "": the policy's own."""

MOVED = 0.5
"""Share of the furniture that was elsewhere in the map `day_old`."""
APART_M = 3.0
"""The drive for a map leaves no place farther than this from its path."""
NEIGHBOURS = 2.0
"""The way between two places is known up to so many times the distance from the nearest earlier place."""
DRIVE_MPS, TURN_RADPS, SCAN_TICKS = 0.5, 0.8, 10


def known_grid(kind: KnownMap, source: Source, known: EpisodeSet, setting: Setting) -> OccupancyGrid:
    """Return the robot's map of a set's building. Raises InputError."""
    if kind == "plan":
        return grid_seen(setting, floor_plan(source, known))
    if kind == "rearranged":
        return grid_seen(setting, rearranged(source, known))
    if kind == "made":
        return made_map(setting, known.seed)
    now = grid_seen(setting, setting.world)
    if kind != "day_old":
        return now
    plan, other = (grid_seen(setting, made(source, known)).occupied for made in (floor_plan, rearranged))
    rng = np.random.default_rng(known.seed)
    stayed, moved = _some(now.occupied & ~plan, 1.0 - MOVED, rng), _some(other & ~plan, MOVED, rng)
    return replace(now, percent=np.where(plan | stayed | moved, OCCUPIED, FREE).astype(np.int8))


def _some(cells: Flags, share: float, rng: np.random.Generator) -> Flags:
    """Return a share of the connected pieces of cells."""
    labels = labelled(cells)
    kept = rng.random(int(labels.max()) + 1) < share
    kept[0] = False
    return np.asarray(kept[labels])


def made_map(setting: Setting, seed: int) -> OccupancyGrid:
    """Return the map by `hil.recordings.mapping` of one drive through all of a building, back to where it began.

    The wheels have the paper's drift. The drive begins in the middle of the floor that is farthest from its ends.
    """
    section = setting.config.scan
    cast = direct_scan(setting.world, setting.mounts, section, setting.scan)
    samples, first, said = [], None, partial(log.info, "made_map", building=setting.world.name)
    said(step="a drive through all of it")
    for true, wheels in _driven(free_space(setting.world, setting.body), seed):
        first = first or true
        ranges_m = np.where(cast.seen, cast.ranges(true), np.float32(np.nan)).astype(np.float32)
        samples.append(Sample(wheels, ranges_m))
    said(step="matching scans", scans=len(samples))
    frames = keyframes(samples)
    said(step="closing loops", keyframes=len(frames))
    made = build(frames).grid
    said(step="done", columns=made.percent.shape[1], rows=made.percent.shape[0])
    return replace(made, map_from_grid=compose(first or IDENTITY, made.map_from_grid))


def _driven(space: FreeSpace, seed: int) -> Iterator[tuple[Pose, Pose]]:
    """Yield the true pose in the map and the wheels' pose in `odom` of each scan."""
    stops = _stops(space)
    rng, drift, pose, ticks = np.random.default_rng(seed), Drift(IDENTITY), Pose(*stops[0], 0.0), 0
    for goal in [*stops[1:], stops[0]]:
        path = shortest_path(space, (pose.x_m, pose.y_m), goal)
        for x_m, y_m in [] if path is None else path[1:].tolist():
            turn = wrap(math.atan2(y_m - pose.y_m, x_m - pose.x_m) - pose.yaw_rad)
            way_m = math.hypot(x_m - pose.x_m, y_m - pose.y_m)
            for amount, rate, ahead in ((turn, TURN_RADPS, False), (way_m, DRIVE_MPS, True)):
                steps = max(1, round(abs(amount) / (rate * STEP_S)))
                speed = amount / (steps * STEP_S)
                for _ in range(steps):
                    twist = Twist(speed, 0.0) if ahead else Twist(0.0, speed)
                    pose = integrate(pose, twist, STEP_S)
                    drift, _ = drift_step(drift, twist, 1.0, rng)
                    if ticks % SCAN_TICKS == 0:
                        yield pose, drift.pose
                    ticks += 1


def _stops(space: FreeSpace) -> list[tuple[float, float]]:
    """Return the places of a drive: each the farthest from those before, then in the order of the nearest next."""
    world = space.world
    row, column = (int(value) for value in np.argwhere(space.standing)[int(space.standing.sum()) // 2])

    def place(i: int, j: int) -> tuple[float, float]:
        at = compose(world.map_from_grid, Pose((j + 0.5) * world.cell_m, (i + 0.5) * world.cell_m, 0.0))
        return at.x_m, at.y_m

    places, cells = [place(row, column)], [(row, column)]
    away = np.where(space.standing, distance_field(space, places[0]), -1.0)
    away[~np.isfinite(away)] = -1.0
    between_m: dict[tuple[int, int], float] = {}
    while True:
        i, j = (int(value) for value in np.unravel_index(int(np.argmax(away)), away.shape))
        if away[i, j] <= APART_M:
            break
        places.append(place(i, j))
        field = distance_field(space, places[-1], NEIGHBOURS * float(away[i, j]))
        between_m |= {(len(cells), other): float(field[cell]) for other, cell in enumerate(cells)}
        cells.append((i, j))
        away = np.minimum(away, field)

    def to_next(number: int, last: int) -> tuple[float, float]:
        walked_m = between_m[max(number, last), min(number, last)]
        return walked_m, math.dist(places[number], places[last])

    order, left = [0], set(range(1, len(places)))
    while left:
        order.append(min(left, key=lambda number: to_next(number, order[-1])))
        left.remove(order[-1])
    return [places[number] for number in order]
