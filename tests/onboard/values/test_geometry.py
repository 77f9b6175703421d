"""Planar transforms: a table of exact cases, then the laws of a group."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.values.geometry import (
    IDENTITY,
    apply,
    between,
    compose,
    distance,
    interpolate,
    inverse,
    quaternion_from_rpy,
    quaternion_from_yaw,
    rotation_from_quaternion,
    wrap,
    yaw_from_quaternion,
)
from onboard.values.messages import Pose

PI = math.pi
metres = st.floats(-100, 100)
poses = st.builds(Pose, metres, metres, st.floats(-PI, PI))


def close(a: Pose, b: Pose) -> bool:
    return distance(a, b) < 1e-9 and abs(wrap(a.yaw_rad - b.yaw_rad)) < 1e-9


@pytest.mark.parametrize(
    ("angle", "expected"),
    [
        (0.0, 0.0),
        (PI, PI),
        (-PI, PI),
        (1.5 * PI, -0.5 * PI),
        (-1.5 * PI, 0.5 * PI),
        (2 * PI, 0.0),
        (-7.0, 2 * PI - 7.0),
    ],
)
def test_wrap(angle: float, expected: float) -> None:
    assert wrap(angle) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("turns", [-3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0])
@given(off=st.one_of(st.floats(-4.0, 4.0), st.floats(-1e-15, 1e-15)))
def test_wrap_is_exact(turns: float, off: float) -> None:
    exact = math.remainder(angle := turns * 2.0 * PI + off, 2.0 * PI)
    assert wrap(angle) == (PI if exact == -PI else exact)


#   a_from_b                 b_from_c                 a_from_c
COMPOSED = [
    (IDENTITY, Pose(1.0, 2.0, 0.5), Pose(1.0, 2.0, 0.5)),
    (Pose(1.0, 0.0, PI / 2), Pose(2.0, 0.0, 0.0), Pose(1.0, 2.0, PI / 2)),
    (Pose(0.0, 0.0, PI / 2), Pose(0.0, 1.0, PI / 2), Pose(-1.0, 0.0, PI)),
    (Pose(3.0, 1.0, PI), Pose(1.0, 1.0, PI), Pose(2.0, 0.0, 0.0)),
]


@pytest.mark.parametrize(("a_from_b", "b_from_c", "a_from_c"), COMPOSED)
def test_compose(a_from_b: Pose, b_from_c: Pose, a_from_c: Pose) -> None:
    assert close(compose(a_from_b, b_from_c), a_from_c)


@given(poses, poses, poses)
def test_composition_is_associative(a: Pose, b: Pose, c: Pose) -> None:
    assert close(compose(compose(a, b), c), compose(a, compose(b, c)))


@given(poses)
def test_inverse_undoes(pose: Pose) -> None:
    assert close(compose(pose, inverse(pose)), IDENTITY)
    assert close(compose(inverse(pose), pose), IDENTITY)


@given(poses, poses)
def test_between_leads_from_one_to_the_other(a: Pose, b: Pose) -> None:
    assert close(compose(a, between(a, b)), b)


@given(poses, poses, metres, metres)
def test_apply_follows_composition(a: Pose, b: Pose, x: float, y: float) -> None:
    assert apply(compose(a, b), (x, y)) == pytest.approx(apply(a, apply(b, (x, y))), abs=1e-9)


@pytest.mark.parametrize(
    ("start", "end", "fraction", "expected"),
    [
        (Pose(0, 0, 0), Pose(2, 4, 1), 0.5, Pose(1, 2, 0.5)),
        (Pose(1, 1, 0.2), Pose(2, 4, 1), 0.0, Pose(1, 1, 0.2)),
        (Pose(1, 1, 0.2), Pose(2, 4, 1), 1.0, Pose(2, 4, 1)),
        (Pose(0, 0, PI - 0.1), Pose(0, 0, -PI + 0.3), 0.5, Pose(0, 0, -PI + 0.1)),
    ],
)
def test_interpolate_turns_the_shorter_way(start: Pose, end: Pose, fraction: float, expected: Pose) -> None:
    assert close(interpolate(start, end, fraction), expected)


@given(st.floats(-PI, PI))
def test_quaternion_of_a_yaw(yaw: float) -> None:
    quaternion = quaternion_from_yaw(yaw)
    assert wrap(yaw_from_quaternion(quaternion) - yaw) == pytest.approx(0.0, abs=1e-9)
    c, s = math.cos(yaw), math.sin(yaw)
    assert rotation_from_quaternion(quaternion) == pytest.approx(
        np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]), abs=1e-12
    )


@given(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_rotation_is_a_rotation(quaternion: tuple[float, float, float, float]) -> None:
    norm = float(np.linalg.norm(quaternion))
    x, y, z, w = (part / norm for part in quaternion)
    rotation = rotation_from_quaternion((x, y, z, w))
    assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    assert rotation_from_quaternion((-x, -y, -z, -w)) == pytest.approx(rotation)
    assert rotation @ np.array([x, y, z]) == pytest.approx(np.array([x, y, z]))


S, C = math.sin(0.6), math.cos(0.6)
#   what                                          x, y, z, w                          heading [rad], or None: refused
QUATERNIONS = [
    ("yaw of 1.2", (0.0, 0.0, S, C), 1.2),
    ("negated, the same rotation", (0.0, 0.0, -S, -C), 1.2),
    ("norm of 1.09", (0.0, 0.0, 1.09 * S, 1.09 * C), 1.2),
    ("norm of 0.91", (0.0, 0.0, 0.91 * S, 0.91 * C), 1.2),
    ("half a turn", (0.0, 0.0, 1.0, 0.0), math.pi),
    ("up a ramp of 20 deg", quaternion_from_rpy(0.0, -0.35, 1.2), 1.2),
    ("norm of 1.3", (0.0, 0.0, 1.3 * S, 1.3 * C), None),
    ("norm of 0.8", (0.0, 0.0, 0.8 * S, 0.8 * C), None),
    ("zero", (0.0, 0.0, 0.0, 0.0), None),
    ("without w", (0.0, 0.0, S, 0.0), None),
    ("NaN", (math.nan, 0.0, S, C), None),
    ("infinite", (0.0, 0.0, math.inf, 1.0), None),
    ("huge", (1e300, 1e300, 1e300, 1e300), None),
    ("w first", (C, 0.0, 0.0, S), None),
    ("on its side", quaternion_from_rpy(math.pi / 2, 0.0, 0.3), None),
]


@pytest.mark.parametrize(("what", "xyzw", "yaw_rad"), QUATERNIONS, ids=[row[0] for row in QUATERNIONS])
def test_a_heading_comes_of_a_unit_quaternion_of_an_upright_base_only(
    what: str, xyzw: tuple[float, float, float, float], yaw_rad: float | None
) -> None:
    found = yaw_from_quaternion(xyzw)
    if yaw_rad is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(yaw_rad, abs=1e-12)
