"""What a body in a building does: the plant's motion, and contact without sliding.

A step that would bring the footprint into something solid is refused: the position stays, the speed is zero, turning
goes on. Contact is exact for the cells as squares; the body stops at most one step's way (3.4 cm at 1 m/s) before it.

Bodies that move (`bodies.Bodies`, where they are at the end of the step) touch where heights overlap. A step is a
contact, and refused, when it ends in a body and brings the robot nearer to it. What else overlaps the footprint has
walked into it, while it stood or drove away: that is a bump, counted apart, once until nothing overlaps any more. The
robot may leave a body that stands in it.
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
    bumps:      times that something walked into the robot; not among the contacts
    bumping:    whether something that walked into it still overlaps it
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
    """One body in one building. Holds what does not change; the state is passed in and returned."""

    def __init__(self, world: World, plant: Plant, body: Body) -> None:
        self.world = world
        self.plant = plant
        self.body = body
        self._cell_m = world.cell_m
        self._grid_from_map = world.grid_from_map
        self._blocked = blocked_cells(world, body)
        self._gap = chessboard_distance(self._blocked)

    def start(self, pose: Pose, time_ns: int = 0) -> SimState:
        """Return the state of a body put down at rest. Raises InputError where it would overlap something."""
        if self.overlaps(pose):
            raise InputError(
                f"map {self.world.name}: start ({pose.x_m:.2f}, {pose.y_m:.2f}): "
                f"a body of radius {self.body.radius_m} m does not fit there"
            )
        return SimState(time_ns, base_at(pose))

    def overlaps(self, pose: Pose) -> bool:
        """Return whether a body at a pose of the map frame would reach into something solid of the building."""
        x, y = self._in_cells(pose)
        return bool(circle_overlaps(x, y, self.body.radius_m / self._cell_m, self._blocked, self._gap))

    def clearance_m(self, state: SimState, bodies: Bodies = NO_BODIES, at_most_m: float = math.inf) -> float:
        """Return the distance from the footprint to the nearest solid thing, building or body; 0 where they overlap.

        Exact for the cells as squares, to rounding. It is `at_most_m` where all is farther: to keep a least clearance
        over a drive, pass the least so far, which mostly spares the search.
        """
        pose, body = state.pose, self.body
        x, y = self._in_cells(pose)
        reach_m = at_most_m + body.radius_m
        nearest_m = nearest_blocked(x, y, reach_m / self._cell_m, self._blocked, self._gap) * self._cell_m
        if len(bodies):
            nearest_m = nearest_body(pose.x_m, pose.y_m, GROUND_CLEARANCE_M, body.height_m, nearest_m, bodies)
        return min(max(nearest_m - body.radius_m, 0.0), at_most_m)

    def command(self, state: SimState, command: Twist) -> SimState:
        """Return the state with a command sent to the base now."""
        return replace(state, base=send_command(state.base, command, state.time_ns, self.plant))

    def step(self, state: SimState, dt_ns: int = STEP_NS, bodies: Bodies = NO_BODIES) -> SimState:
        """Return the state one step later, among bodies where they are by then."""
        base = step_base(state.base, state.time_ns, self.plant, dt_ns / NS)
        moved_m = distance(state.pose, base.motion.pose)
        contacts, touched_at = state.contacts, state.touched_at
        if moved_m > 0.0 and (self.overlaps(base.motion.pose) or self._into(state.pose, base.motion.pose, bodies)):
            base, moved_m = _halted(base, state.pose), 0.0
            contacts, touched_at = contacts + (touched_at is None), touched_at or state.pose
        elif touched_at is not None and distance(touched_at, base.motion.pose) > RELEASE_M:
            touched_at = None
        bumping = self._inside(base.motion.pose, bodies)
        bumps = state.bumps + (bumping and not state.bumping)
        return SimState(state.time_ns + dt_ns, base, contacts, touched_at, state.path_m + moved_m, bumps, bumping)

    def _in_cells(self, pose: Pose) -> tuple[float, float]:
        x_m, y_m = apply(self._grid_from_map, (pose.x_m, pose.y_m))
        return x_m / self._cell_m, y_m / self._cell_m

    def _into(self, before: Pose, after: Pose, bodies: Bodies) -> bool:
        """Return whether a step leads into a body."""
        if not len(bodies):
            return False
        way = before.x_m, before.y_m, after.x_m, after.y_m
        return bool(step_into_body(*way, self.body.radius_m, GROUND_CLEARANCE_M, self.body.height_m, bodies))

    def _inside(self, pose: Pose, bodies: Bodies) -> bool:
        """Return whether a body overlaps the footprint at a pose."""
        if not len(bodies):
            return False
        radius_m = self.body.radius_m
        band = GROUND_CLEARANCE_M, self.body.height_m
        return bool(nearest_body(pose.x_m, pose.y_m, *band, radius_m, bodies) < radius_m)


def blocked_cells(world: World, body: Body) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells with something solid in the way of the body."""
    band = np.float32(GROUND_CLEARANCE_M), np.float32(body.height_m)
    return np.asarray(solid_between(world.low_m, world.high_m, *band))


def _halted(base: BaseState, pose: Pose) -> BaseState:
    """Return the base after a refused step: it stands at `pose` with its new heading and turning, without speed."""
    motion = replace(
        base.motion,
        pose=replace(base.motion.pose, x_m=pose.x_m, y_m=pose.y_m),
        twist=Twist(0.0, base.motion.twist.w_radps),
        dv_mps2=0.0,
    )
    return replace(base, motion=motion)
