"""The place of a twin: the same by seed, another at every reset, feasible starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hil.live.twin.scene import SPAWN_RADIUS_M, Site, SiteOptions
from hil.live.twin.sensors import Views, strips
from hil.live.twin.twin import Twin
from hil.maps.load import load_map
from hil.maps.materials import PLAIN
from hil.physics.collision_world import Body
from hil.scene.walkers import CrowdOptions, bodies_of
from hil.sensors.camera import rays_of, render_color
from onboard.config.config import DEFAULT_ROBOT, Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError
from onboard.values.geometry import distance
from tests.hil.live.twin.twin_places import START, life, standing

PLANT = load_plant(Config().robot.plant)
BODY = Body()


def site(**options: object) -> Site:
    wanted = {"map_name": "apartment", "seed": 3} | options
    return Site(SiteOptions(**wanted), BODY, PLANT)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def flat() -> Site:
    return site(crowd=CrowdOptions(pedestrians=2))


def test_lives_are_the_same_every_time_and_differ_from_each_other(flat: Site) -> None:
    first, second, again = flat.life(0), flat.life(1), flat.life(1)
    assert np.array_equal(second.world.high_m, again.world.high_m)
    assert second.start == again.start
    assert second.crowd is not None
    assert again.crowd is not None
    assert np.array_equal(second.crowd.state, again.crowd.state)
    assert not np.array_equal(first.world.high_m, second.world.high_m), "furniture was placed anew"
    assert first.start != second.start


def test_the_first_life_is_the_episode_and_later_ones_start_in_its_spawn_area(flat: Site) -> None:
    assert flat.life(0).start == flat.episode.start
    for number in range(1, 4):
        life = flat.life(number)
        assert distance(life.start, flat.episode.start) <= SPAWN_RADIUS_M + life.world.cell_m
        assert not life.simulation.overlaps(life.start)


def test_things_in_areas_only(tmp_path: Path, flat: Site) -> None:
    at = flat.episode.start
    file = tmp_path / "areas.toml"
    corners = [at.x_m - 4.0, at.y_m - 4.0, at.x_m + 4.0, at.y_m + 4.0]
    file.write_text(f'[[area]]\nname = "here"\nrectangle_m = {corners}\ncount = 3\n')
    place = site(areas=file)
    bare = load_map("apartment")
    changed = np.argwhere((place.first_world.gap == 0) & (bare.gap > 0))
    assert len(changed) > 0
    xy = np.array([bare.centre_of((int(row), int(column))) for row, column in changed])
    assert (np.abs(xy - [at.x_m, at.y_m]) < 5.0).all()
    assert not np.array_equal(place.life(1).world.gap, place.life(2).world.gap)


def test_areas_and_a_committed_episode_exclude_each_other(tmp_path: Path) -> None:
    file = tmp_path / "areas.toml"
    file.write_text('[[area]]\nname = "here"\nrectangle_m = [0, 0, 1, 1]\ncount = 3\n')
    with pytest.raises(InputError, match="--episode has furniture of its own"):
        site(areas=file, episode=1)


def test_a_color_image_is_the_same_on_one_core_and_on_all() -> None:
    mounts = load_mounts(DEFAULT_ROBOT / "mounts.toml")
    name, mount = next(iter(mounts.color.items()))
    views, twin = Views(mounts, Config().scan), Twin(pose=START, crowd=standing((3.0, 2.2), (4.0, 1.0)))
    views._color[name] = strips(rays_of(mount), 3)
    image = views.color(name, life(), twin)
    assert image.shape == (mount.height, mount.width, 3)
    assert twin.crowd is not None
    whole = render_color(life().world, rays_of(mount), START, PLAIN, bodies_of(twin.crowd))
    np.testing.assert_array_equal(image, whole)
