"""One episode's row: through JSON and back, its shares by hand, and the least time that a way can take."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.evaluate.result import fastest_time_s, row_of_json
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import MotionState, load_plant, step
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.evaluate_rows import row

AXIS = load_plant(DEFAULT_ROBOT / "plant.toml").linear
"""At most 1 m/s, at most 2.5 m/s^2."""


@pytest.mark.parametrize("clearance", [0.1234567890123, 0.0, math.inf])
def test_a_row_survives_json(clearance: float) -> None:
    slots = ((0.0123, 0.0045, False), (0.3, 0.1, True))
    before = row(3, min_clearance_m=clearance, time_s=1.0 / 3.0, split="own", success=False, tracked=slots)
    text = json.dumps(before.as_json(), allow_nan=False)
    assert row_of_json(json.loads(text)) == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"sped": 1}, "sped"),
        ({"actions": [1, 2]}, "actions must be 28"),
        ({"actions": "many"}, "actions must be 28"),
    ],
)
def test_what_is_no_row_is_refused(change: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        row_of_json({**row().as_json(), **change})


#   what                       success  path  time  spl        sct
SHARES = [
    ("shortest and fastest", True, 10.0, 10.0, 1.0, 1.0),
    ("a detour by a quarter", True, 12.5, 20.0, 0.8, 0.5),
    ("shorter than the shortest", True, 9.5, 9.0, 1.0, 1.0),
    ("not arrived", False, 10.0, 10.0, 0.0, 0.0),
]


@pytest.mark.parametrize(
    ("what", "success", "path_m", "time_s", "spl", "sct"), SHARES, ids=[share[0] for share in SHARES]
)
def test_shares(what: str, success: bool, path_m: float, time_s: float, spl: float, sct: float) -> None:
    one = row(success=success, path_m=path_m, time_s=time_s)
    assert (one.spl, one.sct) == pytest.approx((spl, sct))


#   length  time by hand: v / a = 0.4 s to full speed, in which it comes 0.2 m far, and as long to rest
FASTEST = [
    (0.0, 0.0),
    (0.1, 2.0 * math.sqrt(0.1 / 2.5)),
    (0.4, 0.8),
    (1.0, 1.4),
    (15.0, 15.4),
]


@pytest.mark.parametrize(("length_m", "time_s"), FASTEST)
def test_fastest_time(length_m: float, time_s: float) -> None:
    assert fastest_time_s(length_m, AXIS) == pytest.approx(time_s)


@given(
    pushes=st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 40)), min_size=1, max_size=8),
)
def test_nothing_the_base_does_is_faster(pushes: list[tuple[float, int]]) -> None:
    """Law: however the base is driven from rest to rest, the way that it comes takes it at least the fastest time.

    Its simulation moves with the speed at a step's end, which is worth one step.
    """
    plant, dt_s = load_plant(DEFAULT_ROBOT / "plant.toml"), 1.0 / 30.0
    state, length_m, ticks = MotionState(Pose(0.0, 0.0, 0.0)), 0.0, 0
    commands = [Twist(speed, 0.0) for speed, count in pushes for _ in range(count)] + [Twist(0.0, 0.0)] * 60
    for command in commands:
        before = state
        state = step(state, command, plant, dt_s)
        moved_m = state.pose.x_m - before.pose.x_m
        if moved_m > 1e-4:
            length_m, ticks = length_m + moved_m, ticks + 1
    assert fastest_time_s(length_m, plant.linear) <= (ticks + 1) * dt_s
