"""Distance to collision of a polygon, against its plain definition by dense sampling of the motion."""

from __future__ import annotations

from math import cos, hypot, inf, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.footprint import Footprint, polygon
from onboard.perception.collision import NEARER_M, REST_MPS, STRAIGHT_PER_M, free_behind_m, travel_m, turn_rad
from onboard.perception.obstacle_memory import NOWHERE
from onboard.values.messages import BINS, Scan, Twist

LONG = polygon(((0.6, 0.25), (0.6, -0.25), (-0.6, -0.25), (-0.6, 0.25)))
AROUND = Footprint(0.05, LONG.corners_m)
STEPS = 2001
FAR_M = 4.0


def distance_m(corners: tuple[tuple[float, float], ...], x: float, y: float) -> float:
    """Define the signed distance of a point from a polygon, negative inside."""
    nearest, inside = inf, False
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        dx, dy = bx - ax, by - ay
        along = min(max(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy), 0.0), 1.0)
        nearest = min(nearest, hypot(x - ax - along * dx, y - ay - along * dy))
        if (ay > y) != (by > y) and x < ax + (y - ay) * dx / dy:
            inside = not inside
    return -nearest if inside else nearest


def seen_from(point: tuple[float, float], twist: Twist, way: float) -> tuple[float, float]:
    """Return a point in the base frame after a way [m], or after a turn in place [rad]."""
    v, w = twist.v_mps, twist.w_radps
    if abs(v) < REST_MPS:
        turn, x, y = np.sign(w) * way, 0.0, 0.0
    else:
        turn = way * w / abs(v) if abs(w / v) >= STRAIGHT_PER_M else 0.0
        chord = np.sign(v) * way * np.sinc(turn / (2 * pi))
        x, y = chord * cos(turn / 2), chord * sin(turn / 2)
    dx, dy = point[0] - x, point[1] - y
    return cos(turn) * dx + sin(turn) * dy, -sin(turn) * dx + cos(turn) * dy


@st.composite
def shapes(draw: st.DrawFn) -> Footprint:
    """A star-shaped polygon about the origin, convex or not, with a margin or none."""
    count = draw(st.integers(3, 7))
    angles = [2 * pi * (i + draw(st.floats(0.0, 0.7))) / count for i in range(count)]
    away = [draw(st.floats(0.15, 0.8)) for _ in angles]
    corners = tuple((r * cos(a), r * sin(a)) for r, a in zip(away, angles, strict=True))
    try:
        return Footprint(draw(st.sampled_from([0.0, 0.05, 0.25])), polygon(corners).corners_m)
    except ValueError:
        return AROUND


twists = st.one_of(
    st.builds(Twist, st.floats(0.1, 1.0) | st.floats(-1.0, -0.1), st.floats(-3.0, 3.0) | st.just(0.0)),
    st.builds(lambda w: Twist(0.0, w), st.sampled_from([-1.0, 1.0])),
)


@given(shapes(), st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)), twists)
def test_the_polygon_meets_a_point_where_dense_sampling_first_finds_it_nearer(shape, point, twist) -> None:
    turning = abs(twist.v_mps) < REST_MPS
    points = np.array([point])
    got = turn_rad(points, twist.w_radps, shape) if turning else travel_m(points, twist, shape)
    full = 2 * pi if turning else min(FAR_M, 2 * pi * abs(twist.v_mps / (twist.w_radps or 1e-9)))
    start_m = distance_m(shape.corners_m, *point)
    step = full / STEPS
    soon_m = distance_m(shape.corners_m, *seen_from(point, twist, 1e-6))
    if start_m < shape.radius_m and got > 0.0:
        assert soon_m > start_m - 1e-10  # it does not come nearer
    if got == 0.0:
        assert start_m <= shape.radius_m + 1e-6
        # Inside, two edges may be equally near. Touching counts as met.
        assert soon_m < start_m + 1e-12 or start_m < 0.0 or start_m == pytest.approx(shape.radius_m, abs=1e-9)
        return
    if start_m <= NEARER_M:
        return  # overlapped, and moving away: judged again in the next tick
    limit_m = shape.radius_m if start_m >= shape.radius_m else start_m - NEARER_M
    before = np.arange(step, min(got, full) - step, step)
    apart = np.array([distance_m(shape.corners_m, *seen_from(point, twist, way)) for way in before])
    assert (apart > limit_m - 1e-7).all()
    if got < full:
        assert distance_m(shape.corners_m, *seen_from(point, twist, got)) == pytest.approx(limit_m, abs=1e-6)


#   name                                shape   point            twist               expected
WAYS = [
    ("straight ahead", LONG, (1.0, 0.1), Twist(0.5, 0.0), 0.4),
    ("with a margin", AROUND, (1.0, 0.1), Twist(0.5, 0.0), 0.35),
    ("behind", AROUND, (-1.0, 0.2), Twist(-0.5, 0.0), 0.35),
    ("past its side", AROUND, (1.0, 0.301), Twist(0.5, 0.0), inf),
    ("along a wall nearer than the margin", AROUND, (0.2, 0.27), Twist(0.5, 0.0), inf),
    ("towards that wall", AROUND, (0.2, 0.27), Twist(0.5, 0.1), 0.0),
    ("a wall ahead of a circle of its reach", LONG, (0.7, 0.3), Twist(0.5, 0.0), inf),
    ("away from a wall behind", AROUND, (-0.62, 0.0), Twist(0.5, 0.0), inf),
    ("against a wall at the front", AROUND, (0.62, 0.0), Twist(0.5, 0.0), 0.0),
]


@pytest.mark.parametrize(("shape", "point", "twist", "expected"), [row[1:] for row in WAYS], ids=[r[0] for r in WAYS])
def test_way(shape: Footprint, point, twist, expected) -> None:
    assert travel_m(np.array([point]), twist, shape) == pytest.approx(expected, abs=1e-9)


#   name                          point          w     expected [rad]
TURNS = [
    ("the corner sweeps there", (0.0, 0.5), 1.0, np.arccos(0.25 / 0.5)),
    ("to the other side the same", (0.0, 0.5), -1.0, np.arccos(0.25 / 0.5)),
    ("beyond the corners", (0.0, 0.66), 1.0, inf),
    ("before the front", (0.61, 0.0), 1.0, np.arccos(0.6 / 0.61)),
]


@pytest.mark.parametrize(("point", "w", "expected"), [row[1:] for row in TURNS], ids=[row[0] for row in TURNS])
def test_turn(point, w, expected) -> None:
    assert turn_rad(np.array([point]), w, LONG) == pytest.approx(expected, abs=1e-9)
    assert turn_rad(np.array([point]), w, Footprint(0.65)) == inf


def test_behind_a_long_robot_is_free_beside_its_sides() -> None:
    ranges = np.full(BINS, np.inf, np.float32)
    ranges[0] = 1.0
    scan = Scan(0, ranges, np.ones(BINS, np.bool_))
    assert free_behind_m(scan, NOWHERE, AROUND) == pytest.approx(0.35, abs=2e-3)
    assert free_behind_m(scan, np.array([(-0.8, 0.32)]), AROUND) == pytest.approx(0.35, abs=2e-3)
    assert free_behind_m(scan, np.array([(-0.8, 0.28)]), AROUND) == pytest.approx(0.15, abs=0.02)
