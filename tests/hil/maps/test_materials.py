"""Looks: depend only on the seed, differ by seed, keep geometry visible; frames are reproducible to the byte."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.maps.materials import (
    BARS,
    BRICKS,
    CHECKS,
    FLAT,
    FLOOR_SURFACE,
    NOISE,
    PANELS,
    PATTERNS,
    STRIPES,
    draw_appearance,
)
from hil.sensors.camera import rays_of, render_color, second_share
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box

COLOR = rays_of(load_mounts(DEFAULT_ROBOT / "mounts.toml").color["color"])
ROOM = room(8.0, 6.0)


@given(seed=st.integers(0, 2**32 - 1))
def test_a_look_depends_on_its_seed_and_stays_within_its_styles(seed):
    look, again = draw_appearance(seed), draw_appearance(seed)
    for a, b in ((look.colours, again.colours), (look.pattern, again.pattern), (look.size_m, again.size_m)):
        np.testing.assert_array_equal(a, b)
        assert not a.flags.writeable
    assert look.light == again.light
    assert (look.colours >= 0.0).all()
    assert (look.colours <= 255.0).all()
    assert set(look.pattern.tolist()) <= set(range(len(PATTERNS)))
    assert (look.size_m > 0.0).all()
    assert math.hypot(look.light.x, look.light.y, look.light.z) == pytest.approx(1.0)
    assert look.colours[FLOOR_SURFACE, 0].max() < look.colours[0, 0].max()


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_geometry_shows_under_every_look(seed):
    """A box before a wall: floor, box and wall differ more than the patterns of each surface, on average."""
    world = with_box(ROOM, (5.0, 5.5), (2.0, 4.0), (0.0, 0.4))
    image = render_color(world, COLOR, Pose(3.0, 3.0, 0.0), draw_appearance(seed)).astype(float)
    bare = render_color(ROOM, COLOR, Pose(3.0, 3.0, 0.0), draw_appearance(seed)).astype(float)
    wall, floor = image[40:70].mean(axis=(0, 1)), image[130:].mean(axis=(0, 1))
    assert np.abs(wall - floor).max() > 10.0
    changed = (image != bare).any(axis=2)
    assert changed.mean() > 0.02
    assert np.abs(image[changed].mean(axis=0) - bare[changed].mean(axis=0)).max() > 3.0


# pattern, u, v in sizes -> share of the second colour (None: between 0 and 1)
PLACES = [
    (FLAT, 0.3, 0.7, 0.0),
    (STRIPES, 0.5, 7.2, 0.0),
    (STRIPES, 1.5, 7.2, 1.0),
    (STRIPES, -0.5, 7.2, 1.0),
    (BARS, 0.5, 7.2, 1.0),
    (CHECKS, 0.5, 0.5, 0.0),
    (CHECKS, 0.5, 1.5, 1.0),
    (CHECKS, -0.5, -0.5, 0.0),
    (BRICKS, 1.0, 0.02, 1.0),
    (BRICKS, 0.02, 0.5, 1.0),
    (BRICKS, 0.02, 1.5, None),
    (PANELS, 0.02, 0.5, 1.0),
    (PANELS, 0.5, 0.5, None),
    (NOISE, 0.5, 0.5, None),
]


@pytest.mark.parametrize(("pattern", "u", "v", "expected"), PLACES)
def test_patterns(pattern, u, v, expected):
    share = second_share(pattern, 0.2, 0.2 * u, 0.2 * v, 3)
    if expected is None:
        assert 0.0 <= share < 1.0
    else:
        assert share == expected
