"""Collision simulation: the plant's motion in a building, with contact without sliding.

A step that would move the footprint into a solid cell is rejected: the position stays, the speed becomes zero, rotation
continues. Contact is exact for square cells. The body stops at most one step (3.4 cm at 1 m/s) before the obstacle.

Moving bodies (`contact.Bodies`, at their positions at the end of the step) collide where heights overlap:

    contact  the step ends in a body and moves the robot nearer to it; the step is rejected
    bump     a body moved into the robot; counted separately, once until no body overlaps the footprint

The robot may drive out of a body that overlaps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import chessboard_distance, circle_overlaps
from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies, nearest_blocked, nearest_body, solid_between, step_into_body
from hil.physics.simulated_base import NS, STEP_NS, BaseState, base_at, send_command, step_base
from onboard.config.plant_model import Plant
from onboard.values.errors import InputError
from onboard.values.geometry import apply, distance
from onboard.values.messages import Pose, Twist

GROUND_CLEARANCE_M = 0.02
"""Obstacles lower than this pass under the body."""
RELEASE_M = 0.10
"""A contact ends when the body is this far from its position at the contact."""


@dataclass(frozen=True, slots=True)
class Body:
    """The robot's shape: an upright cylinder about the base frame's origin [m]."""

    radius_m: float = 0.25
    height_m: float = 1.0


@dataclass(frozen=True, slots=True)
class SimState:
    """The true state of the simulated robot.

    time_ns:    simulated time
    base:       the plant; `base.motion.pose` is the true pose in the map frame
    contacts:   number of contacts; a contact counts once, whatever its duration
    touched_at: pose at the current contact; None without contact
    path_m:     length of the driven path
    bumps:      number of times that a body moved into the robot; not included in `contacts`
    bumping:    whether a body overlaps the robot now
    """

    time_ns: int
    base: BaseState
    contacts: int = 0
    touched_at: Pose | None = None
    path_m: float = 0.0
    bumps: int = 0
    bumping: bool = False

    @property
    def pose(self) -> Pose:
        """True pose in the map frame."""
        return self.base.motion.pose

    @property
    def twist(self) -> Twist:
        """True velocity in the body frame."""
        return self.base.motion.twist


class Simulation:
    """Simulation of one body in one building. Holds constants only; methods take and return the state."""

    def __init__(self, world: World, plant: Plant, body: Body) -> None:
        self.world = world
        self.plant = plant
        self.body = body
        self._cell_m = world.cell_m
        self._grid_from_map = world.grid_from_map
        self._blocked = blocked_cells(world, body)
        self._gap = chessboard_distance(self._blocked)

    def start(self, pose: Pose, time_ns: int = 0) -> SimState:
        """Return the state of a body at rest. Raises InputError if it would overlap a solid cell."""
        if self.overlaps(pose):
            raise InputError(
                f"map {self.world.name}: start ({pose.x_m:.2f}, {pose.y_m:.2f}): "
                f"a body of radius {self.body.radius_m} m does not fit there"
            )
        return SimState(time_ns, base_at(pose))

    def overlaps(self, pose: Pose) -> bool:
        """Return whether the body at a pose in the map frame overlaps a solid cell of the building."""
        x, y = self._in_cells(pose)
        return bool(circle_overlaps(x, y, self.body.radius_m / self._cell_m, self._blocked, self._gap))

    def clearance_m(self, state: SimState, bodies: Bodies = NO_BODIES, at_most_m: float = math.inf) -> float:
        """Return the distance from the footprint to the nearest solid cell or body, at most `at_most_m`; 0 on overlap.

        Exact for square cells, up to rounding. For the minimum over a drive, pass the minimum so far as `at_most_m`:
        this shortens the search.
        """
        pose, body = state.pose, self.body
        x, y = self._in_cells(pose)
        reach_m = at_most_m + body.radius_m
        nearest_m = nearest_blocked(x, y, reach_m / self._cell_m, self._blocked, self._gap) * self._cell_m
        if len(bodies):
            nearest_m = nearest_body(pose.x_m, pose.y_m, GROUND_CLEARANCE_M, body.height_m, nearest_m, bodies)
        return min(max(nearest_m - body.radius_m, 0.0), at_most_m)

    def command(self, state: SimState, command: Twist) -> SimState:
        """Return the state after a command was sent to the base now."""
        return replace(state, base=send_command(state.base, command, state.time_ns, self.plant))

    def step(self, state: SimState, dt_ns: int = STEP_NS, bodies: Bodies = NO_BODIES) -> SimState:
        """Return the state one step later; `bodies` are at their positions at the end of the step."""
        base = step_base(state.base, state.time_ns, self.plant, dt_ns / NS)
        moved_m = distance(state.pose, base.motion.pose)
        contacts, touched_at = state.contacts, state.touched_at
        if moved_m > 0.0 and (self.overlaps(base.motion.pose) or self._touches(state.pose, base.motion.pose, bodies)):
            base, moved_m = _halted(base, state.pose), 0.0
            contacts, touched_at = contacts + (touched_at is None), touched_at or state.pose
        elif touched_at is not None and distance(touched_at, base.motion.pose) > RELEASE_M:
            touched_at = None
        bumping = self._is_overlapping(base.motion.pose, bodies)
        bumps = state.bumps + (bumping and not state.bumping)
        return SimState(state.time_ns + dt_ns, base, contacts, touched_at, state.path_m + moved_m, bumps, bumping)

    def _in_cells(self, pose: Pose) -> tuple[float, float]:
        x_m, y_m = apply(self._grid_from_map, (pose.x_m, pose.y_m))
        return x_m / self._cell_m, y_m / self._cell_m

    def _touches(self, before: Pose, after: Pose, bodies: Bodies) -> bool:
        """Return whether a step is a contact with a body."""
        if not len(bodies):
            return False
        way = before.x_m, before.y_m, after.x_m, after.y_m
        return bool(step_into_body(*way, self.body.radius_m, GROUND_CLEARANCE_M, self.body.height_m, bodies))

    def _is_overlapping(self, pose: Pose, bodies: Bodies) -> bool:
        """Return whether a body overlaps the footprint at a pose."""
        if not len(bodies):
            return False
        radius_m = self.body.radius_m
        band = GROUND_CLEARANCE_M, self.body.height_m
        return bool(nearest_body(pose.x_m, pose.y_m, *band, radius_m, bodies) < radius_m)


def blocked_cells(world: World, body: Body) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells that are solid in the height band of the body."""
    band = np.float32(GROUND_CLEARANCE_M), np.float32(body.height_m)
    return np.asarray(solid_between(world.low_m, world.high_m, *band))


def _halted(base: BaseState, pose: Pose) -> BaseState:
    """Return the base after a rejected step: position of `pose`, new heading and yaw rate, zero speed."""
    motion = replace(
        base.motion,
        pose=replace(base.motion.pose, x_m=pose.x_m, y_m=pose.y_m),
        twist=Twist(0.0, base.motion.twist.w_radps),
        dv_mps2=0.0,
    )
    return replace(base, motion=motion)
