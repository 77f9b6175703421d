"""Kernels on the simulated base: once a period, the first active kernel may set the base's pose.

Wheels do not notice it, as with slip: the odometry continues from the twist. A pose in which the body overlaps a solid
cell is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hil.physics.simulated_base import STEP_S
from hil.physics.state_kernels.kernel_set import KernelSet, effect, load_kernels
from hil.physics.state_kernels.state_table import ActionGrid, Array, StateTable
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist

STATE = ("x_m", "y_m", "yaw_rad", "v_mps", "w_radps")
SETTABLE = STATE[:3]
WHOLE = 1e-6


def check_robot_table(table: StateTable, source: object) -> None:
    """Raise InputError if a table does not describe the simulated base. source: file that the message names."""
    for name, one in table.state.items():
        if name not in STATE:
            raise InputError(f"{source}: state.{name}: the simulated robot has only {', '.join(STATE)}")
        if one.settable and name not in SETTABLE:
            raise InputError(f"{source}: state.{name}.settable: only {', '.join(SETTABLE)} of the robot can be set")
    if table.action is None:
        raise InputError(f"{source}: action: the simulated robot needs set points, linear_mps and angular_radps")
    ticks = table.period_s / STEP_S
    if abs(ticks - round(ticks)) > WHOLE * ticks or round(ticks) < 1:
        raise InputError(f"{source}: period_s: {table.period_s:g}, must be a whole number of ticks of 1/30 s")


def load_robot_kernels(path: Path | None) -> KernelSet | None:
    """Return the kernels of a file for the simulated base, None for None. Raises InputError naming the file."""
    if path is None:
        return None
    kernels = load_kernels(path)
    check_robot_table(kernels.table, path)
    return kernels


def period_ticks(table: StateTable) -> int:
    """Return the period in control ticks."""
    return round(table.period_s / STEP_S)


def state_vector(table: StateTable, pose: Pose, twist: Twist) -> Array:
    """Return (d,) the state in the order of the table."""
    values = dict(zip(STATE, (pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps), strict=True))
    return np.array([values[name] for name in table.names])


def action_of(grid: ActionGrid, command: Twist) -> int:
    """Return the number of the nearest set point."""
    linear = int(np.argmin(np.abs(np.array(grid.linear_mps) - command.v_mps)))
    angular = int(np.argmin(np.abs(np.array(grid.angular_radps) - command.w_radps)))
    return linear * len(grid.angular_radps) + angular


@dataclass(frozen=True, slots=True)
class Effect:
    """What a kernel did. tick: since the start; kernel: its number; refused: there was no room, the base stayed."""

    tick: int
    kernel: int
    before: Pose
    after: Pose
    refused: bool


class BaseKernels:
    """The manager of one drive. effects: what kernels did so far, oldest first."""

    def __init__(self, kernels: KernelSet, seed: int, overlaps: Callable[[Pose], bool]) -> None:
        """overlaps: whether the body at a pose in the map frame overlaps a solid cell."""
        self._kernels, self._overlaps = kernels, overlaps
        self._rng = np.random.default_rng((seed, len(kernels)))
        self._begun: tuple[Array, int] | None = None
        self.every = period_ticks(kernels.table)
        self.effects: list[Effect] = []

    @property
    def poses_set(self) -> int:
        """Return how many poses kernels have set; refused ones do not count."""
        return sum(not one.refused for one in self.effects)

    def due(self, tick: int) -> bool:
        """Return whether a period ends, and the next begins, at a tick."""
        return tick % self.every == 0

    def pose_at(self, tick: int, pose: Pose, twist: Twist) -> Pose:
        """Return the pose at the end of a period: the kernel's, or `pose`. Call `begin` after it."""
        if self._begun is None:
            return pose
        table = self._kernels.table
        state, action = self._begun
        out = state_vector(table, pose, twist)
        number = effect(state, action, self._kernels.arrays, self._rng.random(), out)
        if number < 0:
            return pose
        set_to = dict(zip(table.names, out.tolist(), strict=True))
        after = Pose(*(set_to.get(name, getattr(pose, name)) for name in SETTABLE))
        refused = self._overlaps(after)
        self.effects.append(Effect(tick, number, pose, after, refused))
        return pose if refused else after

    def begin(self, pose: Pose, twist: Twist, command: Twist) -> None:
        """Begin a period. command: what the base follows from now on"""
        table = self._kernels.table
        assert table.action is not None
        self._begun = state_vector(table, pose, twist), action_of(table.action, command)
