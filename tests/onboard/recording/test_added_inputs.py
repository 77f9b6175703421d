"""Inputs that a tick's message has no field for: written as text, bit-exact, and read from older recordings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onboard.recording.added_inputs import NOTHING, added_to, completed, decode, encode, measured
from onboard.values.errors import InputError
from onboard.values.messages import STOP, GoalRequest, ImuSample, Inputs, OdometryMessage, Pose

PLAIN = OdometryMessage(5, 6, Pose(1.0, 2.0, 0.3), STOP)
GOAL = GoalRequest(7, 8, "odom", Pose(1.0, 0.0, 0.0))
INPUTS = Inputs(now_ns=9, odometry=(PLAIN, PLAIN), goals=(GOAL,))


def test_a_tick_that_adds_nothing_has_no_text() -> None:
    assert added_to(INPUTS) == NOTHING
    assert measured(INPUTS.odometry, NOTHING) == INPUTS.odometry


def test_what_is_added_comes_back_bit_exact() -> None:
    odometry = replace(PLAIN, yaw_variance=0.1 + 0.2), replace(PLAIN, speed_variance=1e-3 / 3.0)
    goals = (replace(GOAL, heading=True, through=(("map", Pose(0.1, 0.2, 0.3)),)),)
    inputs = replace(INPUTS, odometry=odometry, goals=goals, imu=(ImuSample(1, 2, 0.1 / 3.0, None),), pause=True)
    added = decode(encode(added_to(inputs)))
    assert added == added_to(inputs)
    assert measured(INPUTS.odometry, added) == odometry
    assert completed(INPUTS.goals, added) == goals


def test_an_older_text_states_no_variance_of_the_speed() -> None:
    older = decode('{"yaw_variances":[0.25,null]}')
    assert measured(INPUTS.odometry, older) == (replace(PLAIN, yaw_variance=0.25), PLAIN)


@pytest.mark.parametrize("text", ['{"yaw_variances":[0.25]}', '{"speed_variances":[0.1,0.1,0.1]}'])
def test_variances_of_another_number_of_messages_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="variances of 2 odometry messages in a tick"):
        measured(INPUTS.odometry, decode(text))
