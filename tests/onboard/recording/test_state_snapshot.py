"""The state survives the round trip through text: a drive from the decoded state is the same drive."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onboard.navigation.odometry import OdometryState
from onboard.recording.state_snapshot import decode, encode
from onboard.state import RobotState
from onboard.values.clock import FastestMessage, Sender
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.runtime_bench import LEFT, Bench, Puppet


def driven() -> Bench:
    bench = Bench(Puppet(LEFT))
    bench.ticks(5)
    bench.fix(Pose(1.0, 2.0, 0.6))
    bench.ask()
    bench.ticks(40)
    return bench


def test_the_same_state_comes_back() -> None:
    state = driven().runtime.state
    again = decode(encode(state))
    assert encode(again) == encode(state)
    assert (again.mission, again.recovery, again.limits) == (state.mission, state.recovery, state.limits)
    assert again.wheels.history == state.wheels.history
    assert again.localization.map_from_base == state.localization.map_from_base
    np.testing.assert_array_equal(again.localization.covariance, state.localization.covariance)
    assert again.pilot.memory is not None
    assert again.pilot.memory.dtype == np.float32
    np.testing.assert_array_equal(again.pilot.memory, state.pilot.memory)


def test_a_state_of_nothing_comes_back() -> None:
    assert encode(decode(encode(RobotState()))) == encode(RobotState())


def without_mission(table: dict[str, object]) -> None:
    table["mission"] = 3


def with_more(table: dict[str, object]) -> None:
    table["colour"] = "red"


def with_integers(table: dict[str, object]) -> None:
    table["wheels"]["covariance"]["dtype"] = "int64"  # type: ignore[index]


@pytest.mark.parametrize("change", [without_mission, with_more, with_integers])
def test_another_text_is_refused(change) -> None:
    table = json.loads(encode(RobotState()))
    change(table)
    with pytest.raises(InputError, match="not the state of a robot"):
        decode(json.dumps(table))


@pytest.mark.parametrize("text", ["", "{", "3", "null"])
def test_no_state_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not the state of a robot"):
        decode(text)


def test_a_state_of_an_older_version_has_the_clock_of_its_odometry() -> None:
    wheels = OdometryState(stamp_ns=70, arrival_ns=90, sender=Sender(FastestMessage(20, 90), 70, 90))
    state = json.loads(encode(RobotState(wheels=wheels)))
    state["wheels"] |= {"quickest": state["wheels"].pop("sender")["quickest"], "set_ns": 5, "backward_in_row": 0}
    state["wheels"]["agreement"] |= {"began": None, "from_twist": {"v_mps": 0.0, "w_radps": 0.0}}
    assert decode(json.dumps(state)).wheels.sender == wheels.sender
