"""The robot's map in an evaluation: half of the furniture of an old map is elsewhere; a made map shows the walls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hil.drive.episodes import EpisodeSet
from hil.drive.setting import Setting
from hil.evaluate import known_map
from hil.evaluate.baselines.registry import grid_seen
from hil.evaluate.episode_selection import Source
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from onboard.config.config import Config
from onboard.perception.building.reach import distances
from onboard.values.geometry import apply, compose, inverse
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

PLAN = room(7.0, 5.0)
SOURCE = Source("here", "here", 1)


def boxes(y_m: float) -> World:
    world = PLAN
    for x_m in np.arange(0.6, 6.4, 0.4):
        world = with_box(world, (x_m, x_m + 0.2), (y_m, y_m + 0.2), (0.0, 1.0))
    return world


def setting_in(world: World) -> Setting:
    return Setting(world, PLANT, Body(), MOUNTS, Config())


def test_half_of_the_furniture_of_an_old_map_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    now, other = boxes(1.0), boxes(3.0)
    monkeypatch.setattr(known_map, "floor_plan", lambda *_: PLAN)
    monkeypatch.setattr(known_map, "rearranged", lambda *_: other)
    setting = setting_in(now)
    known = EpisodeSet("here", Path("here"), "here", None, 3, now, ())
    old = known_map.known_grid("day_old", SOURCE, known, setting).occupied
    plan, true, moved = (grid_seen(setting, world).occupied for world in (PLAN, now, other))
    assert old[plan].all()
    assert not (old & ~plan & ~true & ~moved).any()
    for furniture in (true & ~plan, moved & ~plan):
        assert 0.2 < old[furniture].mean() < 0.8


def test_a_made_map_shows_the_walls_where_they_are() -> None:
    world = with_box(room(6.0, 4.0), (2.5, 3.0), (1.5, 2.2), (0.0, 1.0))
    setting = setting_in(world)
    made, true = known_map.made_map(setting, seed=1), grid_seen(setting, world)
    away_m = distances(true.occupied, true.cell_m)
    found = []
    for row, column in np.argwhere(made.occupied):
        place = compose(made.map_from_grid, Pose((column + 0.5) * made.cell_m, (row + 0.5) * made.cell_m, 0.0))
        x_m, y_m = apply(inverse(true.map_from_grid), (place.x_m, place.y_m))
        i, j = int(y_m // true.cell_m), int(x_m // true.cell_m)
        found.append(away_m[i, j] if 0 <= i < len(away_m) and 0 <= j < away_m.shape[1] else 9.0)
    assert len(found) > 100
    assert np.mean(np.array(found) < 0.15) > 0.9
