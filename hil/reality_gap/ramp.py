"""The field trial of paper 2 in simulation: an Ackermann vehicle drives to two waypoints; "reality" has a ramp."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from hil.physics.state_kernels.kernel_set import KernelArrays, effect
from hil.physics.state_kernels.state_table import Array
from hil.physics.state_kernels.transitions import Ints, Log
from hil.reality_gap.five_runs import Policy, RunResult
from onboard.config.toml_file import Finite, Fraction, NonNegative, Positive, Section
from onboard.values.kernel import kernel

Count = Annotated[int, Field(ge=1)]
Pair = Annotated[list[Finite], Field(min_length=2, max_length=2)]
Pairs = Annotated[list[Pair], Field(min_length=1)]
PerAction = Annotated[list[Positive], Field(min_length=2, max_length=2)]
DIMENSIONS = 5


class Mission(Section):
    """Waypoints in order, with one deadline."""

    waypoints_m: Pairs
    start_m: NonNegative
    start_rad: NonNegative
    accuracy_m: Positive
    deadline_s: Positive
    reward: Positive
    missions: Count


class Vehicle(Section):
    """A bicycle model with uniform noise on steering and speed."""

    wheelbase_m: Positive
    most_steering_rad: Annotated[float, Field(gt=0.0, lt=math.pi / 2.0)]
    speed_noise: Fraction
    steering_noise_rad: NonNegative


class Controller(Section):
    """Saturated spring and bicycle pursuit."""

    control_s: Positive
    gps_s: Positive
    log_s: Positive
    spring: PerAction
    saturation_mps: PerAction
    explore: Fraction
    pitch_rad: Positive


class Ramp(Section):
    """A ramp with its top at one x: up toward it from larger x, down behind it."""

    top_x_m: Finite
    half_m: Positive
    width_m: Pair
    slope_rad: Positive
    drag_mps: NonNegative
    least_mps: NonNegative


class RampSettings(Section):
    """`hil/reality_gap/ramp.toml`."""

    mission: Mission
    vehicle: Vehicle
    controller: Controller
    ramp: Ramp


class Numbers(NamedTuple):
    """Settings for the compiled loop; steps of control up to the deadline, between two fixes, and between two rows."""

    waypoints_m: Array
    start_m: float
    start_rad: float
    accuracy_m: float
    steps: int
    reward: float
    wheelbase_m: float
    most_steering: float
    speed_noise: float
    steering_noise: float
    control_s: float
    gps_steps: int
    log_steps: int
    spring: Array
    saturation: Array
    explore: float
    pitch: float
    real: bool
    top_x_m: float
    half_m: float
    width_m: Array
    slope: float
    drag: float
    least: float


@kernel
def _pitch(x: float, y: float, heading: float, numbers: Numbers) -> float:
    """Return the pitch on the ramp, positive uphill; 0 beside it and in the simulator."""
    away = x - numbers.top_x_m
    if not numbers.real or abs(away) > numbers.half_m or not numbers.width_m[0] <= y <= numbers.width_m[1]:
        return 0.0
    uphill = -math.cos(heading) if away > 0.0 else math.cos(heading)
    return numbers.slope * uphill


@kernel
def _around(value: float, rng: np.random.Generator) -> float:
    return value * (2.0 * rng.random() - 1.0)


@kernel
def _put(state: Array, x: float, y: float, heading: float, pitch: float, way: float) -> None:
    state[0], state[1], state[2], state[3], state[4] = x, y, heading, pitch, way


@kernel
def _drive(
    missions: int, policy: Ints, numbers: Numbers, kernels: KernelArrays, rng: np.random.Generator
) -> tuple[Array, Array, Ints, Array, Array, Ints, int, int]:
    """Drive missions. policy: (2,) action on the flat, and above the pitch of the redesign.

    Return the reward of each mission; states, actions, rewards, nexts and missions of all transitions; their number;
    and the number of effects of kernels. A reward after the last full transition of a mission counts to it.
    """
    most = missions * (numbers.steps // numbers.log_steps + 1)
    states, nexts = np.empty((most, DIMENSIONS)), np.empty((most, DIMENSIONS))
    actions, runs, rewards = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(most)
    total = np.zeros(missions)
    count, effects = 0, 0
    for mission in range(missions):
        x, y = _around(numbers.start_m, rng), _around(numbers.start_m, rng)
        target = numbers.waypoints_m[0]
        heading = math.atan2(target[1] - y, target[0] - x) + _around(numbers.start_rad, rng)
        seen_x, seen_y, seen_heading, gps_x, gps_y = x, y, heading, x, y
        pitch = _pitch(x, y, heading, numbers)
        way, action, since = 0, 0, 0.0
        for step in range(numbers.steps + 1):
            if step % numbers.gps_steps == 0 and step > 0:
                if math.hypot(x - gps_x, y - gps_y) > 0.0:
                    seen_heading = math.atan2(y - gps_y, x - gps_x)
                seen_x, seen_y, gps_x, gps_y = x, y, x, y
            if step % numbers.log_steps == 0:
                if step > 0:
                    following = nexts[count]
                    _put(following, x, y, seen_heading, pitch, way)
                    drawn = rng.random()
                    if len(kernels.centers) > 0 and effect(states[count], action, kernels, drawn, following) >= 0:
                        effects += 1
                        x, y, heading, pitch = following[0], following[1], following[2], following[3]
                        seen_x, seen_y, seen_heading, gps_x, gps_y = x, y, heading, x, y
                    actions[count], rewards[count], runs[count] = action, since, mission
                    count, since = count + 1, 0.0
                action = policy[1] if pitch > numbers.pitch else policy[0]
                if rng.random() < numbers.explore:
                    action = int(rng.random() * len(numbers.spring))
                if step < numbers.steps:
                    state = states[count]
                    _put(state, x, y, seen_heading, pitch, way)
            reward = 0.0
            if math.hypot(target[0] - x, target[1] - y) <= numbers.accuracy_m:
                reward = numbers.reward
                way += 1
            elif step == numbers.steps:
                reward = -numbers.reward
            total[mission] += reward
            since += reward
            if reward < 0.0 or way == len(numbers.waypoints_m):
                break
            target = numbers.waypoints_m[way]
            to_go = math.hypot(target[0] - seen_x, target[1] - seen_y)
            speed = min(numbers.spring[action] * to_go, numbers.saturation[action])
            bearing = math.atan2(target[1] - seen_y, target[0] - seen_x) - seen_heading
            steering = math.atan(2.0 * numbers.wheelbase_m * math.sin(bearing) / max(to_go, numbers.wheelbase_m))
            if math.cos(bearing) < 0.0:
                steering = math.copysign(numbers.most_steering, math.sin(bearing))
            steering = min(max(steering, -numbers.most_steering), numbers.most_steering)
            seen_heading += numbers.control_s * speed * math.tan(steering) / numbers.wheelbase_m
            seen_x += numbers.control_s * speed * math.cos(seen_heading)
            seen_y += numbers.control_s * speed * math.sin(seen_heading)
            speed *= 1.0 + _around(numbers.speed_noise, rng)
            uphill = _pitch(x, y, heading, numbers)
            if uphill > 0.0:
                speed = max(speed - numbers.drag * uphill / numbers.slope, numbers.least)
            turned = steering + _around(numbers.steering_noise, rng)
            heading += numbers.control_s * speed * math.tan(turned) / numbers.wheelbase_m
            x += numbers.control_s * speed * math.cos(heading)
            y += numbers.control_s * speed * math.sin(heading)
            if numbers.real or (step + 1) % numbers.log_steps == 0:
                pitch = _pitch(x, y, heading, numbers)  # what a kernel has set holds until the next row
        if since != 0.0 and count > 0:
            rewards[count - 1] += since
    return total, states, actions, rewards, nexts, runs, count, effects


class RampVehicle:
    """The vehicle of one seed. A policy is (2,): the action on the flat, and above the pitch of the redesign."""

    name = "ramp"
    kernels_file = Path(__file__).with_name("ramp_kernels.toml")

    def __init__(self, settings: RampSettings, seed: int) -> None:
        mission, vehicle, controller, ramp = settings.mission, settings.vehicle, settings.controller, settings.ramp
        self._missions = mission.missions
        self._numbers = Numbers(
            np.array(mission.waypoints_m), mission.start_m, mission.start_rad, mission.accuracy_m,
            round(mission.deadline_s / controller.control_s), mission.reward, vehicle.wheelbase_m,
            vehicle.most_steering_rad, vehicle.speed_noise, vehicle.steering_noise_rad, controller.control_s,
            round(controller.gps_s / controller.control_s), round(controller.log_s / controller.control_s),
            np.array(controller.spring), np.array(controller.saturation_mps), controller.explore, controller.pitch_rad,
            False, ramp.top_x_m, ramp.half_m, np.array(ramp.width_m), ramp.slope_rad, ramp.drag_mps, ramp.least_mps,
        )  # fmt: skip

    @property
    def design(self) -> Policy:
        """The designed controller: action 0 everywhere."""
        return np.zeros(2, np.int64)

    def drive(self, policy: Policy, real: bool, kernels: KernelArrays, rng: np.random.Generator) -> RunResult:
        """Drive the missions. real: with the ramp"""
        numbers = self._numbers._replace(real=real)
        total, states, actions, rewards, nexts, runs, n, effects = _drive(self._missions, policy, numbers, kernels, rng)
        return RunResult(total, Log(states[:n], actions[:n], rewards[:n], nexts[:n], runs[:n]), effects)

    def redesign(self, kernels: KernelArrays, rng: np.random.Generator) -> tuple[Policy, Array]:
        """Return the redesign by hand, which needs no learning: action 1 above the pitch."""
        return np.array([0, 1]), np.zeros(0)
