"""The free way of a footprint: exact for walls, boxes and people, and never through anything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.encoder.views import STEP_M, free_way_m
from hil.physics.collision_world import Body, Simulation, blocked_cells
from hil.physics.contact import NO_BODIES
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box

BODY = Body(radius_m=0.25, height_m=1.0)
ROOM = with_box(room(8.0, 6.0), (5.0, 5.5), (2.0, 3.0), (0.0, 0.7))
SIMULATION = Simulation(ROOM, load_plant(DEFAULT_ROBOT / "plant.toml"), BODY)
BLOCKED = blocked_cells(ROOM, BODY)
FAR_M = 10.0


def way(pose: Pose, bodies: np.ndarray = NO_BODIES, most_m: float = FAR_M) -> float:
    return free_way_m(ROOM, BLOCKED, BODY, pose, bodies, most_m)


#    name                      pose                   expected [m]
WAYS = [
    ("wall ahead", Pose(1.0, 1.0, 0.0), 8.0 - 1.0 - 0.25),
    ("box ahead", Pose(1.0, 2.5, 0.0), 5.0 - 1.0 - 0.25),
    ("box beside the way", Pose(1.0, 1.7, 0.0), 8.0 - 1.0 - 0.25),
    ("box grazed by its corner", Pose(1.0, 1.8, 0.0), 5.0 - 1.0 - math.sqrt(0.25**2 - 0.2**2)),
    ("wall to the left", Pose(4.0, 1.0, math.pi / 2), 6.0 - 1.0 - 0.25),
    ("against the wall", Pose(7.75, 1.0, 0.0), 0.0),
]


@pytest.mark.parametrize(("name", "pose", "expected_m"), WAYS, ids=[row[0] for row in WAYS])
def test_a_way_ends_before_it_touches(name: str, pose: Pose, expected_m: float) -> None:
    assert expected_m - STEP_M - 1e-9 <= way(pose) <= expected_m + 1e-9


def test_a_way_is_no_longer_than_asked() -> None:
    assert way(Pose(1.0, 1.0, 0.0), most_m=3.0) == pytest.approx(3.0)


#    name                 x, y, radius, low, high, material       expected
BODIES = [
    ("in the middle", (4.0, 1.0, 0.25, 0.0, 1.7, 0.0), 4.0 - 1.0 - 0.5),
    ("aside", (4.0, 1.3, 0.25, 0.0, 1.7, 0.0), 3.0 - 0.4),
    ("out of the way", (4.0, 1.6, 0.25, 0.0, 1.7, 0.0), 6.75),
    ("behind", (0.4, 1.0, 0.25, 0.0, 1.7, 0.0), 6.75),
    ("overhead", (4.0, 1.0, 0.25, 1.2, 1.7, 0.0), 6.75),
    ("already touching", (1.4, 1.0, 0.25, 0.0, 1.7, 0.0), 0.0),
]


@pytest.mark.parametrize(("name", "row", "expected_m"), BODIES, ids=[row[0] for row in BODIES])
def test_a_way_ends_before_somebody(name: str, row: tuple[float, ...], expected_m: float) -> None:
    found = way(Pose(1.0, 1.0, 0.0), np.array([row]))
    assert expected_m - STEP_M - 1e-9 <= found <= expected_m + 1e-9


@given(st.floats(0.3, 7.7), st.floats(0.3, 5.7), st.floats(-math.pi, math.pi))
def test_nothing_is_touched_on_the_way_and_something_at_its_end(x: float, y: float, yaw: float) -> None:
    pose = Pose(x, y, yaw)
    if SIMULATION.overlaps(pose):
        return
    found = way(pose)

    def at(ahead_m: float) -> Pose:
        return Pose(x + ahead_m * math.cos(yaw), y + ahead_m * math.sin(yaw), yaw)

    assert not any(SIMULATION.overlaps(at(part)) for part in np.linspace(0.0, found, 7)[:-1])
    assert SIMULATION.overlaps(at(found + STEP_M + 1e-9))
