"""Collision geometry: distance along an arc, and whether cameras see its direction."""

from __future__ import annotations

from math import cos, hypot, inf, nan, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onboard.config.config import load_config
from onboard.config.footprint import Footprint, polygon
from onboard.config.mounts import load_mounts
from onboard.perception.collision import (
    BIN_CENTERS_RAD,
    NEARER_M,
    REST_MPS,
    STRAIGHT_PER_M,
    SectorView,
    braking_m,
    free_behind_m,
    looked,
    obstacles,
    stoppable_mps,
    travel_m,
    turn_rad,
    view_sector,
)
from onboard.perception.obstacle_memory import NOWHERE
from onboard.perception.scan_fusion import build_rig
from onboard.policy.contract import ACTIONS
from onboard.values.messages import BINS, Scan, Twist

RADIUS_M = 0.3
ROUND = Footprint(RADIUS_M)


def scan_of(*points: tuple[float, float], blind_deg: tuple[tuple[float, float], ...] = ()) -> Scan:
    """Return a scan that sees points (x, y), each in its bin; blind where a bin's centre is in a sector [deg]."""
    ranges = np.full(BINS, np.inf, dtype=np.float32)
    for x, y in points:
        index = int(np.floor((np.degrees(np.arctan2(y, x)) + 180.0) / 2.0)) % BINS
        ranges[index] = min(ranges[index], np.hypot(x, y))
    centers = np.degrees(BIN_CENTERS_RAD)
    seen = np.ones(BINS, dtype=np.bool_)
    for low, high in blind_deg:
        seen &= ~((centers >= low) & (centers <= high))
    return Scan(0, ranges, seen)


def travel_definition(point: tuple[float, float], twist: Twist, radius_m: float, way_m: float) -> float:
    """Define `travel_m` by small steps along the arc: the first at which the circle overlaps and comes nearer."""
    steps = np.linspace(0.0, way_m, 8001)
    turn = steps * twist.w_radps / abs(twist.v_mps)
    chord = np.sign(twist.v_mps) * steps * np.sinc(turn / (2 * pi))
    away = np.hypot(point[0] - chord * np.cos(turn / 2), point[1] - chord * np.sin(turn / 2))
    nearer = np.append(np.diff(away) < 0.0, False)
    met = np.flatnonzero((away < radius_m) & nearer)
    return float(steps[met[0]]) if len(met) else inf


#   name                               point          twist                 expected
TRAVELS = [
    ("ahead", (1.0, 0.0), Twist(0.5, 0.0), 0.7),
    ("any speed", (1.0, 0.0), Twist(0.01, 0.0), 0.7),
    ("behind", (-1.0, 0.0), Twist(0.5, 0.0), inf),
    ("backing to it", (-1.0, 0.0), Twist(-0.2, 0.0), 0.7),
    ("backing away", (1.0, 0.0), Twist(-0.2, 0.0), inf),
    ("aside of the corridor", (1.0, 0.3), Twist(0.5, 0.0), inf),
    ("at the corridor's edge", (1.0, 0.18), Twist(0.5, 0.0), 1.0 - 0.24),
    ("overlapping, ahead", (0.2, 0.1), Twist(0.5, 0.0), 0.0),
    ("overlapping, behind", (-0.2, 0.1), Twist(0.5, 0.0), inf),
    ("overlapping, abeam", (0.0, 0.2), Twist(0.5, 0.0), inf),
    ("overlapping, backing away", (0.2, 0.1), Twist(-0.5, 0.0), inf),
    ("in place", (0.2, 0.0), Twist(0.0, 2.0), inf),
    ("hardly moving", (0.2, 0.0), Twist(9e-4, 0.0), inf),
    ("on the circle", (0.0, 2.0), Twist(0.5, 0.5), pi - 2 * np.arcsin(0.15)),
    ("on the circle, right", (0.0, -2.0), Twist(0.5, -0.5), pi - 2 * np.arcsin(0.15)),
    ("on the circle, backing", (0.0, 2.0), Twist(-0.5, -0.5), pi - 2 * np.arcsin(0.15)),
    ("other side", (0.0, -2.0), Twist(0.5, 0.5), inf),
    ("centre of the turn", (0.0, 1.0), Twist(0.5, 0.5), inf),
    ("comes round to what it left", (-0.2, 0.0), Twist(0.5, 0.5), None),
    ("circles about what it overlaps", (-0.05, 0.1), Twist(0.3, 3.0), None),
    ("nearly straight", (1.0, 0.0), Twist(0.5, 1e-9), 0.7),
]


@pytest.mark.parametrize(("name", "point", "twist", "expected"), TRAVELS, ids=[row[0] for row in TRAVELS])
def test_travels(name: str, point: tuple[float, float], twist: Twist, expected: float | None) -> None:
    if expected is None:
        expected = travel_definition(point, twist, RADIUS_M, 2 * pi * twist.v_mps / twist.w_radps)
        assert expected < inf
    assert travel_m(np.array([point]), twist, ROUND) == pytest.approx(expected, abs=2e-3)


@given(
    st.floats(-1.5, 1.5),
    st.floats(-1.5, 1.5),
    st.sampled_from((-1.0, 1.0)),
    st.floats(0.05, 1.0),
    st.one_of(st.just(0.0), st.floats(-3.0, 3.0)),
    st.floats(0.2, 0.5),
)
def test_travel_is_its_definition(x: float, y: float, way: float, speed: float, w: float, radius_m: float) -> None:
    assume(abs(x) > 1e-3)  # abeam, one small step decides
    whole_m = min(5.0, 0.999 * 2 * pi * speed / abs(w)) if abs(w) > 1e-9 else 5.0
    step_m, twist = whole_m / 8000, Twist(way * speed, w)
    got = travel_m(np.array([[x, y]]), twist, Footprint(radius_m))
    # A graze is as long as the chord of the circle: compare with slightly smaller and larger circles.
    latest = travel_definition((x, y), twist, radius_m - 1e-3, whole_m)
    earliest = travel_definition((x, y), twist, radius_m + 1e-3, whole_m)
    assert got >= min(earliest, whole_m) - 2 * step_m
    assert got <= latest + 2 * step_m


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=9), st.floats(-3, 3))
def test_the_first_of_many_counts(points: list[tuple[float, float]], w: float) -> None:
    many = np.array(points)
    assert travel_m(many, Twist(0.5, w), ROUND) == min(travel_m(one[np.newaxis], Twist(0.5, w), ROUND) for one in many)


def test_ranges_that_are_no_distances_are_blind_and_no_obstacles() -> None:
    scan = scan_of()
    scan.ranges_m[[80, 90]] = [nan, -1.0]
    assert len(obstacles(scan)) == 0
    assert np.flatnonzero(~looked(scan)).tolist() == [80, 90]


@given(st.floats(0.0, 3.0), st.floats(0.1, 5.0), st.floats(0.0, 0.5))
def test_stopping_speed_is_the_inverse_of_the_braking_distance(
    speed: float, deceleration: float, reaction: float
) -> None:
    assert stoppable_mps(braking_m(speed, deceleration, reaction), deceleration, reaction) == pytest.approx(
        speed, abs=1e-6
    )


def test_braking_by_hand() -> None:
    assert braking_m(1.0, 2.5, 0.15) == pytest.approx(0.35)
    assert stoppable_mps(inf, 2.5, 0.15) == inf
    assert stoppable_mps(0.0, 2.5, 0.15) == 0.0
    assert stoppable_mps(0.2, 2.5, 0.0) == pytest.approx(1.0)


#   name                        twist               blind sectors [deg]            expected
LOOKS = [
    ("all seen", Twist(1.0, 0.0), (), SectorView.SEEN),
    ("front down", Twist(0.3, 0.0), ((-33, 33),), SectorView.AHEAD_BLIND),
    ("one bin ahead", Twist(0.3, 0.0), ((0, 2),), SectorView.AHEAD_BLIND),
    ("edge of ahead", Twist(0.3, 0.0), ((29, 31),), SectorView.AHEAD_BLIND),
    ("left down", Twist(0.3, 0.0), ((37, 107),), SectorView.FLANK_BLIND),
    ("right down", Twist(0.3, 0.0), ((-107, -37),), SectorView.FLANK_BLIND),
    ("edge of the flank", Twist(0.3, 0.0), ((69, 75),), SectorView.FLANK_BLIND),
    ("beyond the flank", Twist(0.3, 0.0), ((71, 180), (-180, -71)), SectorView.SEEN),
    ("rear down, ahead", Twist(0.3, 0.0), ((137, 180), (-180, -137)), SectorView.SEEN),
    ("rear down, back", Twist(-0.2, 0.0), ((137, 180), (-180, -137)), SectorView.AHEAD_BLIND),
    ("front down, back", Twist(-0.2, 0.0), ((-33, 33),), SectorView.SEEN),
    ("front down, in place", Twist(0.0, 1.0), ((-180, 180),), SectorView.SEEN),
    ("leading left, right flank", Twist(0.3, 0.6), ((-60, -60 + 4),), SectorView.SEEN),
    ("leading left, left flank", Twist(0.3, 0.6), ((80, 84),), SectorView.FLANK_BLIND),
    ("leading back right", Twist(-0.3, 0.6), ((100, 104),), SectorView.SEEN),
    ("leading back right, blind there", Twist(-0.3, 0.6), ((-104, -100),), SectorView.FLANK_BLIND),
]


@pytest.mark.parametrize(("name", "twist", "blind", "expected"), LOOKS, ids=[row[0] for row in LOOKS])
def test_looks(name: str, twist: Twist, blind: tuple[tuple[float, float], ...], expected: SectorView) -> None:
    assert view_sector(scan_of(blind_deg=blind), twist, 0.5) is expected


def default_scan(*without: str) -> Scan:
    """Return an empty scan as the default robot sees it, some of its cameras down."""
    config = load_config(None)
    rig = build_rig(load_mounts(config.robot.mounts), config.scan)
    seen = np.any([view.looks for name, view in rig.views.items() if name not in without], axis=0)
    return Scan(0, np.full(BINS, np.inf, dtype=np.float32), seen)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.v_mps},{action.w_radps}")
def test_the_default_robot_looks_where_each_action_leads(action: Twist) -> None:
    assert view_sector(default_scan(), action, RADIUS_M) is SectorView.SEEN


@pytest.mark.parametrize(
    ("camera", "expected"),
    [
        ("front", SectorView.AHEAD_BLIND),
        ("front_left", SectorView.FLANK_BLIND),
        ("front_right", SectorView.FLANK_BLIND),
        ("rear", SectorView.SEEN),
    ],
)
def test_the_default_robot_with_a_camera_down(camera: str, expected: SectorView) -> None:
    assert view_sector(default_scan(camera), Twist(0.6, 0.0), 0.2) is expected


def test_behind() -> None:
    assert free_behind_m(None, NOWHERE, ROUND) == 0.0
    assert free_behind_m(default_scan(), NOWHERE, ROUND) == inf
    assert free_behind_m(default_scan("rear"), NOWHERE, ROUND) == 0.0
    assert free_behind_m(scan_of((-1.0, 0.0)), NOWHERE, ROUND) == pytest.approx(0.7, abs=1e-3)
    assert free_behind_m(scan_of((-0.1, 0.25)), NOWHERE, ROUND) == 0.0
    assert free_behind_m(scan_of((1.0, 0.0), (0.2, 0.0), (-1.0, 0.4)), NOWHERE, ROUND) == inf
    assert free_behind_m(default_scan(), np.array([(-1.0, 0.0), (1.0, 0.0)]), ROUND) == pytest.approx(0.7)
    assert free_behind_m(scan_of((-0.5, 0.25)), NOWHERE, ROUND) == pytest.approx(0.5 - sqrt(0.09 - 0.0625), abs=0.02)


# ---- Distance to collision of a polygon, against its plain definition by dense sampling of the motion

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
