"""Furniture: the parts of each kind, repeatability by seed, and no closed passages."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from hil.maps.cell_kernels import put_parts
from hil.maps.load import load_map
from hil.maps.materials import MATERIALS
from hil.maps.world_grid import WALL_HEIGHT_M, World, make_world, world_of_walls
from hil.physics.collision_world import Body
from hil.physics.free_space import distance_field, free_space, indoor_cells
from hil.scene.furniture import TURNS, furnish, furnish_cells
from hil.scene.furniture_kinds import (
    KINDS,
    SEAT_M,
    SIZES_FILE,
    Item,
    chair,
    derive,
    lamp,
    pole,
    shelf,
    sizes,
    sofa,
    table,
    trolley,
)
from hil.sensors.camera import cast_scan
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.rooms import room

BODY = Body()
LIDAR_M = 0.2
NICHES = 2
"""Number of isolated cells that may be cut off."""


def stood(item: Item, cell_m: float = 0.05) -> World:
    """Return an empty room of 6 x 6 m with the item in the middle, front towards +y."""
    bare = room(6.0, 6.0, cell_m)
    low, high = (np.concatenate([part, part], axis=2) for part in (bare.low_m, bare.high_m))
    low[..., 2:], high[..., 2:] = np.inf, -np.inf
    material = bare.material.copy()
    parts = [
        (p.u0 / cell_m, p.v0 / cell_m, p.u1 / cell_m, p.v1 / cell_m, p.low, p.high, MATERIALS.index(p.material))
        for p in item.parts
    ]
    put_parts(low, high, material, np.array(parts), (bare.gap.shape[1] / 2, bare.gap.shape[0] / 2), TURNS[0])
    return make_world("stood", cell_m, bare.map_from_grid, low, high, material=material)


def area_m2(world: World, low_m: float, high_m: float) -> float:
    """Return the floor area under solid cells in a height band, without walls [m²]."""
    cells = world.overlapping(low_m, high_m)[1:-1, 1:-1]
    return float(cells.sum()) * world.cell_m**2


LEGS_M2 = 4 * 0.05**2

# name, item, height of a slice [m], solid area in it [m²]
SLICES = [
    ("a table's top", table(1.4, 0.75, 0.8), 0.73, 1.4 * 0.8),
    ("a table at the lidar's height", table(1.4, 0.75, 0.8), LIDAR_M, LEGS_M2),
    ("over a table", table(1.4, 0.75, 0.8), 0.8, 0.0),
    ("a chair's seat", chair(0.5, 0.9, 0.5), SEAT_M - 0.02, 0.25),
    ("a chair's back", chair(0.5, 0.9, 0.5), 0.8, 0.5 * 0.1),
    ("a chair at the lidar's height", chair(0.5, 0.9, 0.5), LIDAR_M, LEGS_M2),
    ("between a shelf's boards", shelf(1.0, 1.5, 0.3, 0.0), 0.3, 2 * 0.05 * 0.3),
    ("a shelf's lowest board", shelf(1.0, 1.5, 0.3, 0.0), 0.13, 1.0 * 0.3),
    ("a shelf's top board", shelf(1.0, 1.5, 0.3, 0.0), 1.49, 1.0 * 0.3),
    ("a lamp's shade", lamp(0.5, 1.8, 0.5, 0.0), 1.7, 0.25),
    ("a lamp's pole", lamp(0.5, 1.8, 0.5, 0.0), 1.0, 0.05**2),
    ("a pole", pole(0.4, 1.8, 0.4, 0.0), 0.85, 0.05**2),
    ("over a pole", pole(0.4, 1.8, 0.4, 0.0), 0.95, 0.0),
    ("a sofa's feet", sofa(2.0, 0.8, 0.9, 0.0), 0.05, LEGS_M2),
    ("a sofa's seat", sofa(2.0, 0.8, 0.9, 0.0), 0.3, 2.0 * 0.9),
    ("between a trolley's boards", trolley(0.7, 1.2, 0.5, 0.0), 0.5, LEGS_M2),
]


@pytest.mark.parametrize(("name", "item", "height_m", "solid_m2"), SLICES, ids=[row[0] for row in SLICES])
def test_solid_area_at_a_height(name, item, height_m, solid_m2):
    assert area_m2(stood(item), height_m, height_m) == pytest.approx(solid_m2, abs=0.01)


def test_a_lidar_looks_under_a_table_that_the_cameras_see():
    """One metre before a table's middle, straight ahead."""
    world = stood(table(1.4, 0.75, 0.8))
    pose = Pose(3.0, 3.0 - 0.4 - 1.0, np.pi / 2)
    ahead = slice(89, 91)
    assert cast_scan(world, pose, z_min_m=LIDAR_M, z_max_m=LIDAR_M)[ahead].min() == pytest.approx(4.4, abs=0.1)
    assert cast_scan(world, pose)[ahead].max() == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_size_of_a_kind_is_built_within_its_bounds(kind):
    assert kind.sizes_m()
    for size, chance in itertools.product(kind.sizes_m(), (0.0, 0.999)):
        item = kind.build(*size, chance)
        us = [u for part in item.parts for u in (part.u0, part.u1)]
        vs = [v for part in item.parts for v in (part.v0, part.v1)]
        assert max(map(abs, us)) <= item.width_m / 2 + 1e-9
        assert max(map(abs, vs)) <= item.depth_m / 2 + 1e-9
        assert min(part.low for part in item.parts) == 0.0
        assert all(part.low < part.high <= WALL_HEIGHT_M for part in item.parts)
        assert {part.material for part in item.parts} <= set(MATERIALS)
        assert max(item.width_m, item.depth_m) < 3.2


def everything(world: World) -> bytes:
    return hashlib.sha256(world.low_m.tobytes() + world.high_m.tobytes() + world.material.tobytes()).digest()


def test_the_generator_matches_the_committed_episodes():
    """After a change of the generator, redraw the episodes: `hil.drive.episode_sets.make("committed")`."""
    world = furnish(load_map("depot"), 2026)
    solid = np.flatnonzero((world.gap == 0) & (load_map("depot").gap > 0))
    assert (len(solid), int(solid.sum() % 1_000_003)) == (6458, 36410)


@pytest.mark.parametrize("name", ["ghc7", "willow", "apartment"])
def test_furniture_is_indoors_on_free_floor_and_closes_no_passage(name):
    """All cells where the body still fits stay reachable."""
    bare = load_map(name)
    world = furnish(bare, 1)
    new = (world.gap == 0) & (bare.gap > 0)
    assert new.sum() * bare.cell_m**2 > 4.0
    assert indoor_cells(bare)[new].all()
    assert_as_connected(bare, world, 1)
    np.testing.assert_array_equal(world.low_m[~new][:, : bare.low_m.shape[2]], bare.low_m[~new])


def assert_as_connected(bare: World, world: World, starts: int) -> None:
    before, after = free_space(bare, BODY), free_space(world, BODY)
    both = np.argwhere(before.passable & after.passable)
    for row, column in both[np.random.default_rng(2).integers(len(both), size=starts)]:
        start = bare.centre_of((int(row), int(column)))
        reached = np.isfinite(distance_field(before, start)) & after.passable
        lost = reached & ~np.isfinite(distance_field(after, start))
        assert lost.sum() <= NICHES


PLAN = """
########################
#......#.......#.......#
#......#.......#.......#
#......#...............#
#..............#.......#
#......#.......#.......#
####.########.####.#####
#......................#
#......................#
#########.##############
#..............#.......#
#..............#.......#
#......................#
#..............#.......#
########################
"""


def walls_at(degrees: float) -> World:
    """Return a hall of 12 x 8 m, rotated about its middle in an axis-aligned grid."""
    angle, cell_m, side = np.deg2rad(degrees), 0.05, 320
    x, y = (np.indices((side, side))[::-1] + 0.5 - side / 2) * cell_m
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    return world_of_walls("hall", cell_m, Pose(0.0, 0.0, 0.0), (abs(u) > 6.0) | (abs(v) > 4.0))


@pytest.mark.parametrize("degrees", [10, 20, 30, 45, 57, 80])
def test_items_are_placed_at_skewed_walls(degrees):
    """Cabinets, at least 0.25 m deep, are at most their depth and the gap away from a wall."""
    bare = walls_at(degrees)
    cabinets = [kind for kind in KINDS if kind.name == "cabinet"]
    world = furnish_cells(bare, bare.gap > 0, 10, np.random.default_rng(3), cabinets)
    new = (world.gap == 0) & (bare.gap > 0)
    assert new.sum() * bare.cell_m**2 > 5 * 0.5 * 0.25
    assert bare.gap[new].min() * bare.cell_m <= 0.15
    assert bare.gap[new].max() * bare.cell_m <= 0.8 + 0.3
    assert_as_connected(bare, world, 1)


def test_sizes_are_derived_from_the_database(tmp_path: Path):
    """Whole centimetres, sorted, a row per asset."""
    known = json.loads(SIZES_FILE.read_text())
    assets = {
        kind: [{"boundingBox": {"x": w / 100 + 0.004, "y": h / 100, "z": d / 100}} for w, h, d in rows[::-1]]
        for kind, rows in known.items()
    }
    (tmp_path / "database.json").write_text(json.dumps(assets | {"Apple": []}))
    derive(tmp_path / "database.json", tmp_path / "sizes.json")
    assert (tmp_path / "sizes.json").read_bytes() == SIZES_FILE.read_bytes()
    assert sizes()["Cart"] == ((0.71, 1.28, 0.54),)


def test_an_invalid_database_is_refused(tmp_path: Path):
    (tmp_path / "database.json").write_text("{}")
    with pytest.raises(InputError, match=r"database\.json: not an asset database: KeyError"):
        derive(tmp_path / "database.json", tmp_path / "sizes.json")
    with pytest.raises(InputError, match=r"none\.json: cannot be read"):
        derive(tmp_path / "none.json")
