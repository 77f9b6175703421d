"""Collision geometry: distance along an arc, and whether cameras see its direction."""

from __future__ import annotations

from math import inf, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onboard.config.config import load_config
from onboard.config.footprint import Footprint
from onboard.config.mounts import load_mounts
from onboard.perception.collision import (
    BIN_CENTERS_RAD,
    Look,
    braking_m,
    free_behind_m,
    look,
    looked,
    obstacles,
    stoppable_mps,
    travel_m,
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
    ("all seen", Twist(1.0, 0.0), (), Look.SEEN),
    ("front down", Twist(0.3, 0.0), ((-33, 33),), Look.AHEAD_BLIND),
    ("one bin ahead", Twist(0.3, 0.0), ((0, 2),), Look.AHEAD_BLIND),
    ("edge of ahead", Twist(0.3, 0.0), ((29, 31),), Look.AHEAD_BLIND),
    ("left down", Twist(0.3, 0.0), ((37, 107),), Look.FLANK_BLIND),
    ("right down", Twist(0.3, 0.0), ((-107, -37),), Look.FLANK_BLIND),
    ("edge of the flank", Twist(0.3, 0.0), ((69, 75),), Look.FLANK_BLIND),
    ("beyond the flank", Twist(0.3, 0.0), ((71, 180), (-180, -71)), Look.SEEN),
    ("rear down, ahead", Twist(0.3, 0.0), ((137, 180), (-180, -137)), Look.SEEN),
    ("rear down, back", Twist(-0.2, 0.0), ((137, 180), (-180, -137)), Look.AHEAD_BLIND),
    ("front down, back", Twist(-0.2, 0.0), ((-33, 33),), Look.SEEN),
    ("front down, in place", Twist(0.0, 1.0), ((-180, 180),), Look.SEEN),
    ("leading left, right flank", Twist(0.3, 0.6), ((-60, -60 + 4),), Look.SEEN),
    ("leading left, left flank", Twist(0.3, 0.6), ((80, 84),), Look.FLANK_BLIND),
    ("leading back right", Twist(-0.3, 0.6), ((100, 104),), Look.SEEN),
    ("leading back right, blind there", Twist(-0.3, 0.6), ((-104, -100),), Look.FLANK_BLIND),
]


@pytest.mark.parametrize(("name", "twist", "blind", "expected"), LOOKS, ids=[row[0] for row in LOOKS])
def test_looks(name: str, twist: Twist, blind: tuple[tuple[float, float], ...], expected: Look) -> None:
    assert look(scan_of(blind_deg=blind), twist, 0.5) is expected


def default_scan(*without: str) -> Scan:
    """Return an empty scan as the default robot sees it, some of its cameras down."""
    config = load_config(None)
    rig = build_rig(load_mounts(config.robot.mounts), config.scan)
    seen = np.any([view.looks for name, view in rig.views.items() if name not in without], axis=0)
    return Scan(0, np.full(BINS, np.inf, dtype=np.float32), seen)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.v_mps},{action.w_radps}")
def test_the_default_robot_looks_where_each_action_leads(action: Twist) -> None:
    assert look(default_scan(), action, RADIUS_M) is Look.SEEN


@pytest.mark.parametrize(
    ("camera", "expected"),
    [
        ("front", Look.AHEAD_BLIND),
        ("front_left", Look.FLANK_BLIND),
        ("front_right", Look.FLANK_BLIND),
        ("rear", Look.SEEN),
    ],
)
def test_the_default_robot_with_a_camera_down(camera: str, expected: Look) -> None:
    assert look(default_scan(camera), Twist(0.6, 0.0), 0.2) is expected


def test_behind() -> None:
    assert free_behind_m(None, NOWHERE, ROUND) == 0.0
    assert free_behind_m(default_scan(), NOWHERE, ROUND) == inf
    assert free_behind_m(default_scan("rear"), NOWHERE, ROUND) == 0.0
    assert free_behind_m(scan_of((-1.0, 0.0)), NOWHERE, ROUND) == pytest.approx(0.7, abs=1e-3)
    assert free_behind_m(scan_of((-0.1, 0.25)), NOWHERE, ROUND) == 0.0
    assert free_behind_m(scan_of((1.0, 0.0), (0.2, 0.0), (-1.0, 0.4)), NOWHERE, ROUND) == inf
    assert free_behind_m(default_scan(), np.array([(-1.0, 0.0), (1.0, 0.0)]), ROUND) == pytest.approx(0.7)
    assert free_behind_m(scan_of((-0.5, 0.25)), NOWHERE, ROUND) == pytest.approx(0.5 - sqrt(0.09 - 0.0625), abs=0.02)
