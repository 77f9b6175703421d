"""Hazards of a Create 3 and of `kobuki_node` as the gateway passes them on. Objects stand in for their messages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

FILE = Path(__file__).parents[2] / "ros2/onboard_gateway/onboard_gateway/hazards.py"
SPEC = importlib.util.spec_from_file_location("hazards", FILE)
assert SPEC is not None
assert SPEC.loader is not None
hazards = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hazards)
BACKUP_LIMIT, BUMP, CLIFF, STALL, WHEEL_DROP, OBJECT_PROXIMITY = range(6)


def vector(*kinds: int) -> SimpleNamespace:
    return SimpleNamespace(detections=[SimpleNamespace(type=kind) for kind in kinds])


@pytest.mark.parametrize(
    ("kinds", "obstacle", "e_stop"),
    [
        ((), False, False),
        ((BACKUP_LIMIT, OBJECT_PROXIMITY), False, False),
        ((BUMP,), True, False),
        ((CLIFF, STALL), True, False),
        ((BACKUP_LIMIT, WHEEL_DROP), False, True),
    ],
)
def test_a_create_3_repeats_its_hazards_and_they_end_by_themselves(
    kinds: tuple[int, ...], obstacle: bool, e_stop: bool
) -> None:
    now = [10.0]
    base = hazards.Hazards(lambda: now[0])
    base.hear("hazard_detection", vector(*kinds))
    assert (base.active("obstacle"), base.active("e_stop")) == (obstacle, e_stop)
    now[0] += hazards.HOLD_S
    assert not base.active("obstacle")
    assert not base.active("e_stop")


def test_a_kobuki_says_each_change_and_both_bumpers_must_be_free() -> None:
    base = hazards.Hazards(lambda: 0.0)
    for bumper in (0, 2):
        assert base.hear("events/bumper", SimpleNamespace(bumper=bumper, state=1)) == {"obstacle"}
    base.hear("events/bumper", SimpleNamespace(bumper=0, state=0))
    assert base.active("obstacle")
    base.hear("events/bumper", SimpleNamespace(bumper=2, state=0))
    assert not base.active("obstacle")
    assert base.hear("events/wheel_drop", SimpleNamespace(wheel=1, state=1)) == {"e_stop"}
    assert base.active("e_stop")
    assert base.hear("events/cliff", SimpleNamespace(sensor=1, state=0)) == {"obstacle"}
