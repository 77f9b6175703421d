"""Response of a base to a velocity command: the second-order, asymmetric model of paper 1, section 4.

`reactive`, the simulated plant and training use it. For each axis, with command s*, speed s and its rate a:

    delta = s* - s
    (f, zeta) = (f_up, zeta_up) if delta * s > 0 else (f_down, zeta_down)
    a += dt * (f^2 * delta - 2 * zeta * f * a)
    s += dt * a

The printed equation of the paper has s in place of its rate a. At rest delta * s is 0, so a start from rest uses the
"down" parameters, as in the equation. Rate and speed are clipped to the identified maxima, the rate to
that of its phase. So a ramp with a quick loop behind it is an axis with a high frequency and the ramp as the maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from onboard.config.toml_file import Finite, NonNegative, Positive, Section, checked, read_toml
from onboard.values.kernel import kernel
from onboard.values.messages import STOP, Pose, Twist

Frequency = Annotated[float, Field(gt=0.0, le=200.0)]
Damping = Annotated[float, Field(gt=0.0, le=10.0)]


AXIS_NUMBERS = 8
"""Length of `Axis.as_array`."""


class Axis(Section):
    """Parameters of one axis. "up" holds while the speed grows, "down" otherwise."""

    f_up: Frequency = Field(description="natural frequency [1/s]")
    f_down: Frequency = Field(description="natural frequency [1/s]")
    zeta_up: Damping = Field(description="damping [1]")
    zeta_down: Damping = Field(description="damping [1]")
    speed_min: Finite = Field(description="fastest backward speed or right turn [m/s, rad/s]")
    speed_max: Finite = Field(description="fastest forward speed or left turn [m/s, rad/s]")
    acceleration_max: Positive = Field(description="fastest change of the speed [m/s^2, rad/s^2]")
    deceleration_max: Positive | None = Field(
        None, examples=[2.5], description='the same "down"; without it `acceleration_max` [m/s^2, rad/s^2]'
    )

    @model_validator(mode="after")
    def _ordered(self) -> Axis:
        if not self.speed_min <= 0.0 <= self.speed_max:
            raise ValueError(f"speed_min {self.speed_min} <= 0 <= speed_max {self.speed_max} must hold")
        return self

    @property
    def braking_max(self) -> float:
        """Return the fastest change of the speed "down" [m/s^2, rad/s^2]."""
        return self.acceleration_max if self.deceleration_max is None else self.deceleration_max

    def as_array(self) -> npt.NDArray[np.float64]:
        """Return (8,) for `step_axis`: the fields in their order."""
        return np.array(
            [
                self.f_up,
                self.f_down,
                self.zeta_up,
                self.zeta_down,
                self.speed_min,
                self.speed_max,
                self.acceleration_max,
                self.braking_max,
            ]
        )


class BaseTable(Section):
    """The base's controller."""

    command_delay_s: NonNegative = Field(0.0, description="latency of a command from the network to the controller [s]")
    command_timeout_s: Positive = Field(
        0.5, description="time without a command after which the base stops by itself [s]"
    )


HIDDEN_EFFECTS = "hidden-effects"


class MotionTable(Section):
    """How the simulated base moves, if not by the axes. The runtime on the robot does not read it."""

    model: Literal["linear", "mlp", "hybrid-dynamic", "hybrid-kinematic", "hidden-effects"] = Field(
        examples=["hybrid-dynamic"],
        description='what `onboard-calib learn-dynamics` learned; "hidden-effects" is the simulated "real" robot of '
        "docs/reality-gap.md",
    )
    file: str = Field(
        "",
        description="weights of a learned model, or the table of hidden effects; a relative path starts at plant.toml",
    )


class Plant(Section):
    """How one base answers a velocity command (`onboard/config/robots/default/plant.toml`)."""

    linear: Axis
    angular: Axis
    base: BaseTable = BaseTable()
    motion: MotionTable | None = Field(None, description="replaces this model in `onboard-hil`")


@dataclass(frozen=True, slots=True)
class MotionState:
    """State of the model: pose in the world, body twist, and the rates of both speeds [m/s^2, rad/s^2]."""

    pose: Pose
    twist: Twist = STOP
    dv_mps2: float = 0.0
    dw_radps2: float = 0.0


def load_plant(path: Path) -> Plant:
    """Return the plant in a file. Raises ConfigError naming file, field and limit."""
    with checked(path):
        plant = Plant.model_validate(read_toml(path))
    if plant.motion is None or not plant.motion.file:
        return plant
    file = str((path.parent / plant.motion.file).resolve())
    return plant.model_copy(update={"motion": plant.motion.model_copy(update={"file": file})})


@kernel
def stable_steps(dt_s: float, f_up: float, zeta_up: float, f_down: float, zeta_down: float) -> int:
    """Return in how many steps `dt_s` is integrated.

    The equation is unstable beyond f * dt = 2 (sqrt(zeta^2 + 1) - zeta), which is at least 1 / (zeta + 0.5). A faster
    axis, such as a quick loop behind a ramp, takes several steps, none longer than that bound. On the bound with
    zeta = 0.5 a single step takes the speed exactly to the command, where no limit acts.
    """
    fastest = max(f_up * (zeta_up + 0.5), f_down * (zeta_down + 0.5))
    return max(math.ceil(dt_s * fastest - 1e-9), 1)


@kernel
def step_axis(
    command: float, speed: float, rate: float, axis: npt.NDArray[np.float64], dt_s: float
) -> tuple[float, float]:
    """Return (speed, rate) of one axis after `dt_s`. axis: the (8,) array of `Axis.as_array`.

    A step that is too long for the axis is taken in several (`stable_steps`).
    """
    steps = stable_steps(dt_s, axis[0], axis[2], axis[1], axis[3])
    h = dt_s / steps
    for _ in range(steps):
        delta = command - speed
        if delta * speed > 0.0:
            f, zeta, most = axis[0], axis[2], axis[6]
        else:
            f, zeta, most = axis[1], axis[3], axis[7]
        rate += h * (f * f * delta - 2.0 * zeta * f * rate)
        rate = min(max(rate, -most), most)
        speed = min(max(speed + h * rate, axis[4]), axis[5])
    return speed, rate


def step(state: MotionState, command: Twist, plant: Plant, dt_s: float) -> MotionState:
    """Return the state after one step of `dt_s` with a constant command (the paper's fast loop: 1/30 s).

    The order is the paper's: speeds, then heading, then position along the new heading.
    """
    v, dv = step_axis(command.v_mps, state.twist.v_mps, state.dv_mps2, plant.linear.as_array(), dt_s)
    w, dw = step_axis(command.w_radps, state.twist.w_radps, state.dw_radps2, plant.angular.as_array(), dt_s)
    yaw = math.remainder(state.pose.yaw_rad + dt_s * w, 2.0 * math.pi)
    pose = Pose(
        state.pose.x_m + dt_s * v * math.cos(yaw),
        state.pose.y_m + dt_s * v * math.sin(yaw),
        yaw,
    )
    return replace(state, pose=pose, twist=Twist(v, w), dv_mps2=dv, dw_radps2=dw)
