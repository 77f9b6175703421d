"""The direct scan against its definition over all cells and bodies, and against rays as a lower bound."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hil.maps.world_grid import World, make_world
from hil.sensors import direct_scan
from hil.sensors.direct_scan import cast_scan, caster_of
from onboard.perception.kernels import EDGES
from onboard.values.geometry import apply
from onboard.values.messages import BINS, Pose
from tests.rigs.rooms import body_row, drawn, room

ROUNDING_M = 1e-4
"""Tolerance between kernel and definition: single precision at 10 m, and slopes instead of cross products."""
ROUNDING_RAD = 1e-9
"""Tolerance of a sector's edges: the kernel's result is between sectors narrower and wider by this."""
TURN = 2.0 * math.pi / BINS


def scattered(seed: int, share: float, cell_m: float = 0.05, side: int = 60, yaw_rad: float = 0.0) -> World:
    """Return a world of random solid cells with probability `share`, at heights from the floor to 1.6 m."""
    rng = np.random.default_rng(seed)
    low = np.full((side, side + 70, 2), np.inf, np.float32)
    high = np.full_like(low, -np.inf)
    solid = rng.random(low.shape[:2]) < share
    low[solid, 0] = rng.uniform(0.0, 1.4, solid.sum())
    high[solid, 0] = low[solid, 0] + 0.2
    return make_world("scattered", cell_m, Pose(-1.0, -2.0, yaw_rad), low, high)


def in_world(world: World, across: float, up: float, yaw: float) -> Pose:
    rows, columns = world.gap.shape
    return Pose(*world.centre_of((int(up * (rows - 1)), int(across * (columns - 1)))), yaw)


def assert_same(ranges: np.ndarray, expected: np.ndarray, narrower: np.ndarray | None = None) -> None:
    """Assert equality up to rounding; where a cell only touches the sector's edge, `narrower` is valid too."""
    other = expected if narrower is None else narrower
    with np.errstate(invalid="ignore"):
        same = (ranges == expected) | (np.abs(ranges - expected) <= ROUNDING_M)
        same |= (ranges == other) | (np.abs(ranges - other) <= ROUNDING_M)
    assert same.all(), (np.flatnonzero(~same), ranges[~same], expected[~same])


def scan_plain(world: World, pose: Pose, radius_m: float, bodies: np.ndarray) -> np.ndarray:
    """Return what `cast_scan` must return, by a slow loop over all solid cells and bodies.

    A range is the least distance to the part of a cell's square or a body's disc in the closed sector.
    """
    x, y = apply(world.grid_from_map, (pose.x_m, pose.y_m))
    yaw_rad = pose.yaw_rad + world.grid_from_map.yaw_rad
    band = direct_scan.SCAN_Z_MIN_M, direct_scan.SCAN_Z_MAX_M
    cells = np.argwhere(world.overlapping(*band))[:, ::-1] * world.cell_m - (x, y)
    turn = np.array([[math.cos(yaw_rad), math.sin(yaw_rad)], [-math.sin(yaw_rad), math.cos(yaw_rad)]])
    solid = bodies[(bodies[:, 3] <= band[1]) & (bodies[:, 4] >= band[0])]
    in_grid = np.array([apply(world.grid_from_map, (row[0], row[1])) for row in solid]).reshape(-1, 2) - (x, y)
    ranges = np.full(BINS, np.inf)
    for i in range(BINS):
        right, left = EDGES[i] @ turn, EDGES[i + 1] @ turn
        to_cells = to_squares(cells, world.cell_m, right, left).min(initial=math.inf)
        to_bodies = to_discs(in_grid, solid[:, 2], right, left).min(initial=math.inf)
        ranges[i] = min(to_cells, to_bodies)
    return np.where(ranges <= radius_m, ranges, np.inf).astype(np.float32)


def to_squares(corners: np.ndarray, side: float, right: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return (n,) distance from the origin to the part of squares in a sector; corners: lower left corners."""
    nearest = np.clip(0.0, corners, corners + side)
    distance = np.where(in_sector(nearest, right, left), np.hypot(nearest[:, 0], nearest[:, 1]), np.inf)
    for edge in (right, left):
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = np.sort(np.stack([corners / edge, (corners + side) / edge]), axis=0)
        enters, leaves = np.maximum(crossings[0].max(axis=1), 0.0), crossings[1].min(axis=1)
        distance = np.minimum(distance, np.where(enters <= leaves, enters, np.inf))
    return distance


def to_discs(centres: np.ndarray, radius: np.ndarray, right: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return (n,) distance from the origin to the part of discs in a sector."""
    away = np.hypot(centres[:, 0], centres[:, 1])
    distance = np.where(in_sector(centres, right, left) | (away <= radius), np.maximum(away - radius, 0.0), np.inf)
    for edge in (right, left):
        along, beside = centres @ edge, centres @ np.array([-edge[1], edge[0]])
        half = np.sqrt(np.maximum(radius**2 - beside**2, 0.0))
        distance = np.minimum(distance, np.where((abs(beside) <= radius) & (along > 0), along - half, np.inf))
    return np.maximum(distance, 0.0)


def in_sector(points: np.ndarray, right: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return (n,) bool: points in the sector from right to left, including its edges and the origin."""
    of_right = right[0] * points[:, 1] - right[1] * points[:, 0]
    of_left = left[0] * points[:, 1] - left[1] * points[:, 0]
    return (of_right >= 0.0) & (of_left <= 0.0)


unit = st.floats(0.0, 1.0)


@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.3]),
    cell_m=st.sampled_from([0.02, 0.05, 0.1]),
    turned=st.sampled_from([0.0, 0.7]),
    across=unit,
    up=unit,
    yaw=st.one_of(st.floats(-math.pi, math.pi), st.sampled_from([0.0, math.pi / 2, TURN, math.pi / 4])),
    radius_m=st.sampled_from([0.5, 3.0, 10.0]),
    bodies=st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.05, 0.6), st.floats(0.0, 1.6)), max_size=4
    ),
)
@settings(max_examples=60, deadline=None)
def test_the_kernel_equals_its_definition(seed, share, cell_m, turned, across, up, yaw, radius_m, bodies):
    # On a body's surface, rounding decides whether the body surrounds the base.
    assume(all(abs(math.hypot(x, y) - r) > ROUNDING_M for x, y, r, _ in bodies))
    world = scattered(seed, share, cell_m, yaw_rad=turned)
    # Off the grid lines, where rounding decides on every cell edge.
    pose = in_world(world, across, up, yaw)
    pose = replace(pose, x_m=pose.x_m + 0.123 * cell_m, y_m=pose.y_m - 0.077 * cell_m)
    rows = [body_row((pose.x_m + x, pose.y_m + y), r, low + 0.3, 0, low) for x, y, r, low in bodies]
    moving = np.array(rows).reshape(-1, 6)
    expected = scan_plain(world, pose, radius_m, moving)
    turned_back = scan_plain(world, replace(pose, yaw_rad=yaw - ROUNDING_RAD), radius_m, moving)
    assert_same(cast_scan(world, pose, radius_m, bodies=moving), expected, turned_back)


def test_a_scan_from_outside_the_grid_is_empty():
    assert np.isinf(cast_scan(drawn("###\n#.#\n###", 0.5), Pose(-3.0, 0.5, 0.0))).all()


def test_a_caster_is_cached_per_band_and_dropped_with_its_world():
    world = room(3.0, 2.0)
    assert caster_of(world) is caster_of(world)
    assert caster_of(world, 0.2, 0.2) is not caster_of(world)
    assert caster_of(room(3.0, 2.0)) is not caster_of(world)
    before = len(direct_scan._casters)
    del world
    gc.collect()
    assert len(direct_scan._casters) < before


def test_the_caster_cache_is_bounded():
    world = room(3.0, 2.0)
    for millimetres in range(40):
        caster_of(world, millimetres * 0.001, 1.0)
    assert len(direct_scan._casters) <= direct_scan.MOST_CASTERS
