"""What a body in a building does: the plant's motion, and contact without sliding.

A step that would bring the footprint into something solid is refused: the position stays, the speed is zero, turning
goes on. Contact is exact for the cells as squares; the body stops at most one step's way (3.4 cm at 1 m/s) before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.grids import circle_overlaps
from hil.maps import World
from hil.plant import NS, STEP_NS, BaseState, base_at, send_command, step_base
from onboard.errors import InputError
from onboard.geometry import apply, distance
from onboard.messages import Pose, Twist
from onboard.motion import Plant

GROUND_CLEARANCE_M = 0.02
"""What is lower than this passes under the body."""
RELEASE_M = 0.10
"""A contact is over once the body has come this far from where it was; until then it is the same contact."""


@dataclass(frozen=True, slots=True)
class Body:
    """The robot's outer shape: a circle about the base frame's origin, standing up to a height [m]."""

    radius_m: float = 0.25
    height_m: float = 1.0


@dataclass(frozen=True, slots=True)
class SimState:
    """The truth.

    time_ns:    simulated time
    base:       the plant; `base.motion.pose` is the true pose in the map frame
    contacts:   contacts so far, each counted once however long it lasts
    touched_at: position of the last contact while that lasts, else None
    path_m:     length of the way so far
    """

    time_ns: int
    base: BaseState
    contacts: int = 0
    touched_at: Pose | None = None
    path_m: float = 0.0

    @property
    def pose(self) -> Pose:
        """True pose in the map frame."""
        return self.base.motion.pose

    @property
    def twist(self) -> Twist:
        """True velocity in the body frame."""
        return self.base.motion.twist


class Simulation:
    """One body in one building. Holds what does not change; the state is passed in and returned."""

    def __init__(self, world: World, plant: Plant, body: Body) -> None:
        self.world = world
        self.plant = plant
        self.body = body
        self._blocked = blocked_cells(world, body)

    def start(self, pose: Pose, time_ns: int = 0) -> SimState:
        """Return the state of a body put down at rest. Raises InputError where it would overlap something."""
        if self.overlaps(pose):
            raise InputError(
                f"map {self.world.name}: start ({pose.x_m:.2f}, {pose.y_m:.2f}): "
                f"a body of radius {self.body.radius_m} m does not fit there"
            )
        return SimState(time_ns, base_at(pose))

    def overlaps(self, pose: Pose) -> bool:
        """Return whether a body at a pose of the map frame would reach into something solid."""
        x, y = apply(self.world.grid_from_map, (pose.x_m, pose.y_m))
        cell = self.world.cell_m
        return bool(circle_overlaps(x / cell, y / cell, self.body.radius_m / cell, self._blocked, self.world.gap))

    def command(self, state: SimState, command: Twist) -> SimState:
        """Return the state with a command sent to the base now."""
        return replace(state, base=send_command(state.base, command, state.time_ns, self.plant))

    def step(self, state: SimState, dt_ns: int = STEP_NS) -> SimState:
        """Return the state one step later."""
        base = step_base(state.base, state.time_ns, self.plant, dt_ns / NS)
        time_ns = state.time_ns + dt_ns
        moved_m = distance(state.pose, base.motion.pose)
        touched_at = state.touched_at
        if moved_m > 0.0 and self.overlaps(base.motion.pose):
            contacts = state.contacts + (touched_at is None)
            return SimState(time_ns, _halted(base, state.pose), contacts, touched_at or state.pose, state.path_m)
        if touched_at is not None and distance(touched_at, base.motion.pose) > RELEASE_M:
            touched_at = None
        return SimState(time_ns, base, state.contacts, touched_at, state.path_m + moved_m)


def blocked_cells(world: World, body: Body) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells with something solid in the way of the body."""
    return world.overlapping(GROUND_CLEARANCE_M, body.height_m)


def _halted(base: BaseState, pose: Pose) -> BaseState:
    """Return the base after a refused step: it stands at `pose` with its new heading and turning, without speed."""
    motion = replace(
        base.motion,
        pose=replace(base.motion.pose, x_m=pose.x_m, y_m=pose.y_m),
        twist=Twist(0.0, base.motion.twist.w_radps),
        dv_mps2=0.0,
    )
    return replace(base, motion=motion)
