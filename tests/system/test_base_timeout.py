"""The distance that a base rolls after its last command: the bound holds for all commands and is tight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.physics.simulated_base import ON_THE_WAY_S, STEP_NS, STEP_S, base_at, most_rolled, send_command, step_base
from onboard.config.config import DEFAULT_ROBOT, LimitsSection
from onboard.config.plant_model import BaseTable, Plant, load_plant
from onboard.values.geometry import distance
from onboard.values.messages import Pose, Twist

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
LIMITS = LimitsSection()
AHEAD = Twist(LIMITS.v_max_mps, LIMITS.w_max_radps)
LATEST_TICKS = int(ON_THE_WAY_S / STEP_S)
COASTING_TICKS = 120
ORIGIN = Pose(0.0, 0.0, 0.0)


def plant(timeout_s: float = 0.5, delay_s: float = 0.0) -> Plant:
    return PLANT.model_copy(update={"base": BaseTable(command_delay_s=delay_s, command_timeout_s=timeout_s)})


def rolled(base: Plant, commands: list[Twist], late_ticks: int) -> tuple[float, float, float]:
    """Return distance [m], turn [rad] and final speed [m/s] after the last command, with one command per tick."""
    state, tick = base_at(ORIGIN), 0
    for command in commands:
        state = step_base(send_command(state, command, tick * STEP_NS, base), tick * STEP_NS, base)
        tick += 1
    way_m = turn_rad = 0.0
    for late in range(COASTING_TICKS):
        if late == late_ticks:
            state = send_command(state, commands[-1], tick * STEP_NS, base)
        after = step_base(state, tick * STEP_NS, base)
        way_m += distance(state.motion.pose, after.motion.pose)
        turn_rad += abs(after.motion.twist.w_radps) * STEP_S
        state, tick = after, tick + 1
    return way_m, turn_rad, state.motion.twist.v_mps


#   name              time-out [s]  delay [s]
BASES = [
    ("default", 0.5, 0.0),
    ("slow wire", 0.5, 0.12),
    ("soon", 0.1, 0.0),
    ("late", 0.9, 0.05),
]
speeds = st.sampled_from([LIMITS.v_min_mps, 0.0, LIMITS.v_max_mps]) | st.floats(LIMITS.v_min_mps, LIMITS.v_max_mps)
turns = st.sampled_from([-LIMITS.w_max_radps, 0.0, LIMITS.w_max_radps]) | st.floats(
    -LIMITS.w_max_radps, LIMITS.w_max_radps
)
histories = st.lists(st.tuples(st.builds(Twist, speeds, turns), st.integers(1, 30)), min_size=1, max_size=8)


@pytest.mark.parametrize(("name", "timeout_s", "delay_s"), BASES)
@given(history=histories, late_ticks=st.integers(0, LATEST_TICKS))
def test_no_history_of_commands_rolls_farther(name, timeout_s, delay_s, history, late_ticks):
    base = plant(timeout_s, delay_s)
    bound = most_rolled(base, LIMITS)
    commands = [command for command, ticks in history for _ in range(ticks)]
    way_m, turn_rad, _ = rolled(base, commands, late_ticks)
    assert way_m <= bound.way_m
    assert turn_rad <= bound.turn_rad


@pytest.mark.parametrize(("name", "timeout_s", "delay_s"), BASES)
def test_the_worst_case_comes_near_the_bound(name, timeout_s, delay_s):
    base = plant(timeout_s, delay_s)
    bound = most_rolled(base, LIMITS)
    way_m, turn_rad, speed_mps = rolled(base, [AHEAD] * 90, LATEST_TICKS)
    assert 0.8 * bound.way_m < way_m <= bound.way_m
    assert 0.8 * bound.turn_rad < turn_rad <= bound.turn_rad
    assert abs(speed_mps) < 1e-6
    assert bound.time_s < COASTING_TICKS * STEP_S


def test_a_base_that_stops_later_than_it_says_is_found_out():
    way_m, turn_rad, _ = rolled(plant(0.8), [AHEAD] * 90, 0)
    bound = most_rolled(plant(0.5), LIMITS)
    assert way_m > bound.way_m
    assert turn_rad > bound.turn_rad


def test_the_bound_of_the_default_robot_is_the_documented_one():
    bound = most_rolled(PLANT, LIMITS)
    assert (round(bound.way_m, 2), round(bound.turn_rad, 2)) == (0.90, 2.48)
    assert bound.time_s < 2.2


def test_who_notices_sooner_rolls_less_and_never_more_than_by_the_time_out():
    ways = [most_rolled(PLANT, LIMITS, silence_s).way_m for silence_s in (0.0, 0.1, 0.2, 0.5, 5.0)]
    assert ways == sorted(ways)
    assert ways[2] < ways[3] == ways[4] == most_rolled(PLANT, LIMITS).way_m


def test_a_base_that_never_comes_to_rest_has_no_bound():
    restless = PLANT.linear.model_copy(update={"f_up": 29.0, "f_down": 29.0, "zeta_up": 1e-9, "zeta_down": 1e-9})
    with pytest.raises(ValueError, match="no bound"):
        most_rolled(PLANT.model_copy(update={"linear": restless}), LIMITS)
