"""What differs between two whole states, leaf by leaf."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hil.replay.compared_fields import _of_state
from onboard.state import RobotState
from onboard.values.messages import Pose

STATE = RobotState()
MEMORY = np.ones((2, 3), np.float32)
ARRAY = "array of shape (2, 3)"


def remembering(memory: Any) -> RobotState:
    return replace(STATE, pilot=replace(STATE.pilot, memory=memory))


def at(x_m: float) -> RobotState:
    return replace(STATE, wheels=replace(STATE.wheels, pose=Pose(x_m, 0.0, 0.0)))


OTHER = MEMORY.copy()
OTHER[1, 2] = 1.5

#   recorded, now, (field, place, recorded, now)
STATES = [
    (STATE, STATE, []),
    (remembering(MEMORY), remembering(MEMORY.copy()), []),
    (remembering(MEMORY), remembering(OTHER), [("pilot.memory", "[1][2]", 1.0, 1.5)]),
    (remembering(MEMORY), remembering(None), [("pilot.memory", "", ARRAY, None)]),
    (remembering(None), remembering(MEMORY), [("pilot.memory", "", None, ARRAY)]),
    (remembering(MEMORY), remembering(MEMORY[:1]), [("pilot.memory", "", ARRAY, "array of shape (1, 3)")]),
    (at(1.0), at(1.25), [("keyframe", ".wheels.pose.x_m", 1.0, 1.25)]),
    (at(math.nan), at(math.nan), []),
]


@pytest.mark.parametrize(("recorded", "again", "told"), STATES)
def test_what_differs(recorded: RobotState, again: RobotState, told: list[tuple[str, str, Any, Any]]) -> None:
    found = [(one.field, one.place, one.recorded, one.replayed) for one in _of_state(recorded, again)]
    assert found == told
