"""Keys that no other test sets: each changes what the robot does from the stated default on."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from onboard.config.config import Config
from onboard.navigation import mission as m
from onboard.navigation import odometry, start_frame
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.ekf import advance as filtered
from onboard.navigation.mission import Mission, State
from onboard.navigation.odometry import OdometryState
from onboard.safety import recovery
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Fix, OdometryMessage, Pose, Twist

GOAL_M = (2.0, 0.0)
FORWARD = Twist(0.6, 0.0)


def gap_m(config: Config, gap_s: float) -> float:
    """Return how far a speed of 1 m/s moves the pose over a gap between two messages."""
    state, gap_ns = OdometryState(), round(gap_s * NS_PER_S)
    for at_ns, twist in ((0, STOP), (gap_ns, Twist(1.0, 0.0))):
        state = odometry.advance(state, OdometryMessage(at_ns, at_ns, None, twist), config.odometry)
    return state.pose.x_m


def shown(config: Config, age_s: float) -> bool:
    """Return whether the policy is shown a fix of this age."""
    wheels = odometry.advance(OdometryState(), OdometryMessage(0, 0, None, STOP), config.odometry)
    fixed = filtered(LocalizationState(), [Fix(0, 0, Pose(1.0, 0.0, 0.0))], wheels, config.odometry)
    start = start_frame.begin(wheels, fixed)
    return start_frame.locate(start, wheels, fixed, config.odometry, round(age_s * NS_PER_S)).fix is not None


def blocked(config: Config, wanted: Twist = FORWARD, measured: Twist = STOP) -> bool:
    situation = recovery.Situation(
        suspended=False, obstacle=None, wanted=wanted, measured=measured, travelled_m=0.0, rear_free_m=inf
    )
    return recovery.blocked(situation, config.recovery)


def mission(config: Config, x_m: float, measured: Twist = STOP, rests_s: float = 0.0) -> State:
    """Return the state after the stop actions of the policy at a place, and some time at rest there."""
    driving = m.note_action(m.note_action(m.accept(Mission(), GOAL_M, 0), STOP), STOP)
    for now_s in (1.0, 1.0 + rests_s):
        driving = m.judge(driving, m.Situation(round(now_s * NS_PER_S), Pose(x_m, 0.0, 0.0), measured), config.goal)
    return driving.state


#   key                                value  what it decides, False with the default and True with the value
KEYS: list[tuple[str, float, Callable[[Config], bool]]] = [
    ("odometry.max_gap_ms",             900.0, lambda config: gap_m(config, 0.8) > 0.5),
    ("odometry.localization_max_age_s",   9.0, lambda config: shown(config, 8.5)),
    ("recovery.moving_mps",               0.1, lambda config: blocked(config, measured=Twist(0.05, 0.0))),
    ("recovery.moving_radps",             0.2, lambda config: blocked(config, measured=Twist(0.0, 0.1))),
    ("recovery.commanded_mps",           0.01, lambda config: blocked(config, wanted=Twist(0.03, 0.0))),
    ("recovery.commanded_radps",         0.02, lambda config: blocked(config, wanted=Twist(0.0, 0.05))),
    ("goal.rest_mps",                     0.1, lambda config: mission(config, 2.0, Twist(0.05, 0.0)) is State.REACHED),
    ("goal.rest_radps",                   0.2, lambda config: mission(config, 2.0, Twist(0.0, 0.1)) is State.REACHED),
    ("goal.tolerance_m",                  0.3, lambda config: mission(config, 1.75) is State.REACHED),
    ("goal.stop_short_s",                 2.0, lambda config: mission(config, 1.0, rests_s=4.0) is State.STOPPED),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "decides"), KEYS, ids=[row[0] for row in KEYS])
def test_a_key_is_in_effect(key: str, value: float, decides: Callable[[Config], bool]) -> None:
    table, name = key.split(".")
    assert not decides(Config())
    assert decides(Config.model_validate({table: {name: value}}))
