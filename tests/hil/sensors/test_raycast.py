"""Bodies in camera images, against the exact intersection of every pixel's ray with cylinders."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.physics.contact import Bodies
from hil.sensors.camera import MAX_RANGE_M, Rays, rays_of, render_color, render_depth
from hil.sensors.raycast import BEARINGS, bearing
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.values.messages import Pose
from tests.rigs.rooms import body_row, room

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
RAYS = {name: rays_of(mount) for name, mount in MOUNTS.depth.items()}
COLOR = rays_of(MOUNTS.color["color"])
HALL = room(30.0, 30.0)
CENTRE = 15.0
PERSON = 10


def cylinder_depth(rays: Rays, pose: Pose, body: np.ndarray) -> np.ndarray:
    """Return (height * width,) depth [m] of an upright cylinder, solved for every pixel; inf beside it."""
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    rays_m, origin = rays.directions @ turn.T, turn @ rays.origin_m + (pose.x_m, pose.y_m, 0.0)
    (dx, dy, dz), (x, y, radius, low, high, _) = rays_m.T, body
    cx, cy = x - origin[0], y - origin[1]
    found = np.full(len(rays_m), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = dx * dx + dy * dy, dx * cx + dy * cy
        root = np.sqrt(b * b - a * (cx * cx + cy * cy - radius * radius))
        side = (b - root) / a
        on_side = (side >= 0.0) & (origin[2] + side * dz >= low) & (origin[2] + side * dz <= high)
        found[on_side] = side[on_side]
        for level in (low, high):
            t = (level - origin[2]) / dz
            on_level = (t >= 0.0) & (np.hypot(t * dx - cx, t * dy - cy) <= radius)
            found[on_level] = np.minimum(found[on_level], t[on_level])
    return found


angles = st.floats(-math.pi, math.pi)
bodies_around = st.lists(
    st.tuples(st.floats(0.7, 8.0), angles, st.floats(0.05, 0.4), st.floats(0.0, 1.2), st.floats(0.05, 1.2)),
    min_size=1,
    max_size=8,
)


def rows_of(drawn: list[tuple[float, float, float, float, float]]) -> Bodies:
    rows = [
        body_row((CENTRE + away * math.cos(turn), CENTRE + away * math.sin(turn)), radius, low + tall, PERSON, low)
        for away, turn, radius, low, tall in drawn
    ]
    return np.array(rows)


@pytest.mark.parametrize("name", list(RAYS))
@given(drawn=bodies_around, yaw=angles)
@settings(max_examples=15, deadline=None)
def test_a_body_is_an_upright_cylinder(name, drawn, yaw):
    """Exact to half a unit; pixels on an outline may differ."""
    pose, bodies, rays = Pose(CENTRE, CENTRE, yaw), rows_of(drawn), RAYS[name]
    empty = render_depth(HALL, rays, pose).ravel() * rays.unit_m
    empty[empty == 0.0] = np.inf
    expected = np.minimum(empty, np.min([cylinder_depth(rays, pose, body) for body in bodies], axis=0))
    seen = render_depth(HALL, rays, pose, bodies=bodies).ravel() * rays.unit_m
    seen[seen == 0.0] = np.inf
    with np.errstate(invalid="ignore"):
        same = (seen == expected) | (np.abs(seen - expected) <= 0.000501) | ((expected > MAX_RANGE_M) & np.isinf(seen))
    assert same.mean() > 0.9995


@given(drawn=bodies_around, yaw=angles)
@settings(max_examples=15, deadline=None)
def test_a_crowd_gives_the_nearest_of_its_bodies(drawn, yaw):
    """Exact equality: sorting by bearing loses no body."""
    pose, bodies, rays = Pose(CENTRE, CENTRE, yaw), rows_of(drawn), RAYS["front"]

    def units(members: Bodies) -> np.ndarray:
        """Return depth minus 1 unit, so that no return (0) wraps around to the farthest depth."""
        return render_depth(HALL, rays, pose, bodies=members) - np.uint16(1)

    np.testing.assert_array_equal(units(bodies), np.min([units(body[np.newaxis]) for body in bodies], axis=0))


@given(angle=angles, later=st.floats(0.0, 1.0), length=st.floats(1e-3, 1e3))
def test_bearings_ascend_counter_clockwise(angle, later, length):
    """Counter-clockwise from the x axis, independent of the length of the direction."""
    turned = angle + later * (math.pi - angle) if angle >= 0.0 else angle - later * angle
    here, there = (
        bearing(math.cos(angle), math.sin(angle)),
        bearing(math.cos(turned) * length, math.sin(turned) * length),
    )
    assert 0 <= here < BEARINGS
    assert here <= there or there == 0


def test_a_nan_position_sees_nothing():
    """The kernel does not read or write outside an array either."""
    bodies = rows_of([(2.0, 0.0, 0.3, 0.0, 1.7)])
    assert not render_depth(HALL, RAYS["front"], Pose(math.nan, CENTRE, 0.0), bodies=bodies).any()
    assert render_depth(HALL, RAYS["front"], Pose(CENTRE, CENTRE, 0.0), bodies=bodies * math.nan).any()


def test_bodies_occlude_and_are_occluded_by_walls():
    pose = Pose(2.0, CENTRE, math.pi)
    behind_wall = body_row((-1.0, CENTRE), 0.3, 1.7, PERSON)[np.newaxis]
    before = body_row((1.0, CENTRE), 0.3, 1.7, PERSON)[np.newaxis]
    plain = render_color(HALL, COLOR, pose)
    np.testing.assert_array_equal(render_color(HALL, COLOR, pose, bodies=behind_wall), plain)
    assert (render_color(HALL, COLOR, pose, bodies=before) != plain).any(axis=2).mean() > 0.1
