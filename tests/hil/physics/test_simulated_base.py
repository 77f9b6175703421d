"""The simulated base: command latency, command timeout, and the motion model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.physics.simulated_base import STEP_NS, STEP_S, base_at, send_command, step_base
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import BaseTable, MotionState, Plant, load_plant, step
from onboard.values.messages import STOP, Pose, Twist

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
AHEAD, LEFT = Twist(0.6, 0.0), Twist(0.0, 1.0)


def plant(delay_s: float = 0.0, timeout_s: float = 0.5) -> Plant:
    return PLANT.model_copy(update={"base": BaseTable(command_delay_s=delay_s, command_timeout_s=timeout_s)})


def followed(sent: dict[int, Twist], ticks: int, base: Plant) -> list[Twist]:
    """Return what the base follows at each tick when commands are sent at some."""
    state, commands = base_at(Pose(0.0, 0.0, 0.0)), []
    for tick in range(ticks):
        if tick in sent:
            state = send_command(state, sent[tick], tick * STEP_NS, base)
        state = step_base(state, tick * STEP_NS, base)
        commands.append(state.command)
    return commands


# name, delay [s], time-out [s], what is sent at which tick, what is followed at each tick
FOLLOWED = [
    ("nothing heard", 0.0, 0.5, {}, [STOP] * 3),
    ("at once without delay", 0.0, 0.5, {1: AHEAD}, [STOP, AHEAD, AHEAD]),
    ("newest of two", 0.0, 0.5, {0: AHEAD, 1: LEFT}, [AHEAD, LEFT, LEFT]),
    ("two ticks late", 0.06, 0.5, {0: AHEAD}, [STOP, STOP, AHEAD, AHEAD]),
    ("two on their way", 0.06, 0.5, {0: AHEAD, 1: LEFT}, [STOP, STOP, AHEAD, LEFT]),
    ("silence", 0.0, 0.1, {0: AHEAD}, [AHEAD] * 4 + [STOP] * 2),
    ("heard again after silence", 0.0, 0.05, {0: AHEAD, 4: LEFT}, [AHEAD, AHEAD, STOP, STOP, LEFT]),
    ("silence counts from when it took effect", 0.06, 0.05, {0: AHEAD}, [STOP, STOP, AHEAD, AHEAD, STOP]),
]


@pytest.mark.parametrize(("name", "delay_s", "timeout_s", "sent", "expected"), FOLLOWED)
def test_the_base_follows_the_newest_due_command(name, delay_s, timeout_s, sent, expected):
    assert followed(sent, len(expected), plant(delay_s, timeout_s)) == expected


@given(st.lists(st.builds(Twist, st.floats(-1.0, 2.0), st.floats(-5.0, 5.0)), min_size=1, max_size=40))
def test_without_latency_the_base_equals_the_motion_model(commands):
    state, model = base_at(Pose(1.0, 2.0, 0.5)), MotionState(Pose(1.0, 2.0, 0.5))
    for tick, command in enumerate(commands):
        state = step_base(send_command(state, command, tick * STEP_NS, PLANT), tick * STEP_NS, PLANT)
        model = step(model, command, PLANT, STEP_S)
    assert state.motion == model
