"""The simulated "real" robot: slip, caster drag after a reversal, battery sag and latency on top of the second order.

Settings: hidden_effects.toml. The twist is that of the wheels, which encoders measure. The body slips against it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from onboard.config.plant_model import AXIS_NUMBERS, Axis, step_axis
from onboard.config.toml_file import NonNegative, Positive, Section, checked, read_toml
from onboard.values.kernel import kernel

Floats = npt.NDArray[np.float64]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]

HIDDEN_EFFECTS_FILE = Path(__file__).parent / "hidden_effects.toml"
PHYSICS_HZ = 300
"""Steps of the physics a second: a whole number in each tick of 1/60 s and 1/30 s, and in 120 ms."""


class Slip(Section):
    """How much less the body moves than its wheels. Both by the wheels' yaw rate.

    turn_per_radps: share of the yaw rate [s/rad]
    way_per_radps:  share of the speed [s/rad]
    """

    turn_per_radps: Share
    way_per_radps: Share


class Caster(Section):
    """Drag while the caster turns over.

    drag_per_s: drag by speed at the reversal [1/s]
    way_m:      distance until it is over [m]
    """

    drag_per_s: NonNegative
    way_m: Positive


class Battery(Section):
    """Voltage as a share of the charged battery's.

    age_s:     time since charging at the begin [s]
    sag_per_s: share lost in a second [1/s]
    sag_at_full_speed: share lost at the greatest forward speed
    least:     lower limit of the share
    """

    age_s: NonNegative
    sag_per_s: NonNegative
    sag_at_full_speed: Share
    least: Annotated[float, Field(gt=0.0, le=1.0)]


class HiddenEffects(Section):
    """The table of hidden_effects.toml. delay_s: latency of a command [s]."""

    delay_s: NonNegative
    linear: Axis
    angular: Axis
    slip: Slip
    caster: Caster
    battery: Battery

    def as_array(self) -> Floats:
        """Return (23,): both axes, then slip, caster, battery, for `advance_hidden`."""
        slip, caster, battery = self.slip, self.caster, self.battery
        effects = [
            slip.turn_per_radps, slip.way_per_radps, caster.drag_per_s, caster.way_m,
            battery.sag_per_s, battery.sag_at_full_speed, battery.least,
        ]  # fmt: skip
        return np.concatenate([self.linear.as_array(), self.angular.as_array(), effects])

    def memory(self) -> Floats:
        """Return the memory of a base at rest: age, caster, direction, and the commands in transit, newest first."""
        steps = round(self.delay_s * PHYSICS_HZ)
        memory = np.zeros(MEMORY + 2 * steps)
        memory[0] = self.battery.age_s
        return memory


MEMORY = 3
"""Age [s], distance over which the caster still turns [m], direction of the last travel; then commands in transit."""


def load_hidden_effects(path: Path = HIDDEN_EFFECTS_FILE) -> HiddenEffects:
    """Return the table of a file. Raises ConfigError naming file, field and limit."""
    with checked(path):
        return HiddenEffects.model_validate(read_toml(path))


@kernel
def advance_hidden(
    numbers: Floats, memory: Floats, state: Floats, v_command: float, w_command: float, dt_s: float
) -> tuple[float, float, float]:
    """Return the motion (x, y [m], yaw [rad]) over `dt_s` in the frame of its begin. Changes `memory` and `state`.

    numbers: `HiddenEffects.as_array`; memory: `HiddenEffects.memory`; state: (4,) v, w of the wheels and their rates
    """
    linear, angular = numbers[:AXIS_NUMBERS].copy(), numbers[AXIS_NUMBERS : 2 * AXIS_NUMBERS].copy()
    turn_slip, way_slip, drag, way, sag, load, least = numbers[2 * AXIS_NUMBERS :]
    late = (len(memory) - MEMORY) // 2
    steps = round(dt_s * PHYSICS_HZ)
    h = dt_s / steps
    v, w, dv, dw = state
    x = y = yaw = 0.0
    for _ in range(steps):
        v_late, w_late = v_command, w_command
        if late > 0:
            v_late, w_late = memory[-2], memory[-1]
            for i in range(len(memory) - 1, MEMORY + 1, -1):
                memory[i] = memory[i - 2]
            memory[MEMORY], memory[MEMORY + 1] = v_command, w_command
        voltage = max(1.0 - sag * memory[0] - load * abs(v) / numbers[5], least)
        for i in range(4, AXIS_NUMBERS):
            linear[i], angular[i] = voltage * numbers[i], voltage * numbers[AXIS_NUMBERS + i]
        v, dv = step_axis(v_late, v, dv, linear, h)
        w, dw = step_axis(w_late, w, dw, angular, h)
        memory[0] += h
        direction = 1.0 if v > 0.0 else -1.0
        if v != 0.0 and direction != memory[2]:
            if memory[2] != 0.0:
                memory[1] = way
            memory[2] = direction
        v -= h * drag * v * memory[1] / way
        moved = h * v * max(1.0 - way_slip * abs(w), 0.0)
        memory[1] = max(memory[1] - abs(moved), 0.0)
        yaw += h * w * max(1.0 - turn_slip * abs(w), 0.0)
        x += moved * math.cos(yaw)
        y += moved * math.sin(yaw)
    state[0], state[1], state[2], state[3] = v, w, dv, dw
    return x, y, yaw
