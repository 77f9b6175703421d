"""Collision simulation: the plant's motion in a building, with contact without sliding.

A step that would move the footprint into a solid cell is rejected: the position stays, the speed becomes zero, rotation
continues. If a polygon's turn alone hits too, the heading stays as well. Contact is exact for square cells. The body
stops at most one step (3.4 cm at 1 m/s) before the obstacle.

Moving bodies (`contact.Bodies`, at their positions at the end of the step) collide where heights overlap:

    contact  the step ends in a body and moves the robot nearer to it; the step is rejected
    bump     a body moved into the robot; counted separately, once until no body overlaps the footprint

The robot may drive out of a body that overlaps it. A robot at rest makes no contact. With bodies, a contact ends also
when nothing is near the robot any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import chessboard_distance, circle_overlaps
from hil.maps.world_grid import World
from hil.physics.contact import NO_BODIES, Bodies, nearest_blocked, nearest_body, solid_between, step_into_body
from hil.physics.polygon_contact import body_distance, placed, polygon_clearance, polygon_into_body, polygon_overlaps
from hil.physics.simulated_base import NS, STEP_NS, BaseState, base_at, send_command, step_base
from onboard.config.config import RobotSection
from onboard.config.footprint import Corners, Footprint
from onboard.config.plant_model import Plant
from onboard.values.errors import InputError
from onboard.values.geometry import apply, distance
from onboard.values.messages import STOP, Pose, Twist

GROUND_CLEARANCE_M = 0.02
"""Obstacles lower than this pass under the body."""
RELEASE_M = 0.10
"""A contact ends when the body is this far from its position at the contact."""
GONE_M = 0.05
"""A contact ends when nothing is this near."""
REST_MPS = 0.02
"""A slower base rests: its speed is what is left of braking."""


@dataclass(frozen=True, slots=True)
class Body:
    """The robot's shape: an upright cylinder about the base frame's origin, or an upright prism [m].

    radius_m:  of the smallest circle about the origin that holds the body
    corners_m: of the prism's polygon, counter-clockwise; empty for a cylinder
    """

    radius_m: float = 0.25
    height_m: float = 1.0
    corners_m: Corners = ()

    @property
    def inner_m(self) -> float:
        """Return the radius of the largest circle about the origin inside the body."""
        return Footprint(0.0, self.corners_m).inner_m if self.corners_m else self.radius_m

    @property
    def half_width_m(self) -> float:
        """Return half the width of the narrowest passage through which the body can be driven [m]."""
        return Footprint(0.0, self.corners_m).half_width_m if self.corners_m else self.radius_m

    def corners(self) -> npt.NDArray[np.float64]:
        """Return (n, 2) the corners, for the kernels; (0, 2) for a cylinder."""
        return np.array(self.corners_m, np.float64).reshape(-1, 2)

    def overlaps(self, pose: Pose, cell_m: float, blocked: npt.NDArray[np.bool_], gap: npt.NDArray[np.uint8]) -> bool:
        """Return whether the body at a pose in the grid frame overlaps a blocked cell."""
        x, y = pose.x_m / cell_m, pose.y_m / cell_m
        if self.corners_m:
            return bool(polygon_overlaps(placed(self.corners(), x, y, pose.yaw_rad, cell_m), blocked, gap))
        return bool(circle_overlaps(x, y, self.radius_m / cell_m, blocked, gap))


def body_of(robot: RobotSection) -> Body:
    """Return the body of a configuration."""
    footprint = robot.footprint
    return Body(footprint.reach_m, robot.height_m, () if footprint.is_round else footprint.corners_m)


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
            raise no_room(self.world, self.body, pose)
        return SimState(time_ns, base_at(pose))

    def overlaps(self, pose: Pose) -> bool:
        """Return whether the body at a pose in the map frame overlaps a solid cell of the building."""
        return self.body.overlaps(self._in_grid(pose), self._cell_m, self._blocked, self._gap)

    def clearance_m(self, state: SimState, bodies: Bodies = NO_BODIES, at_most_m: float = math.inf) -> float:
        """Return the distance from the footprint to the nearest solid cell or body, at most `at_most_m`; 0 on overlap.

        Exact for square cells, up to rounding. For the minimum over a drive, pass the minimum so far as `at_most_m`:
        this shortens the search.
        """
        pose, body = state.pose, self.body
        there, cell_m, band = self._in_grid(pose), self._cell_m, (GROUND_CLEARANCE_M, body.height_m)
        x, y = there.x_m / cell_m, there.y_m / cell_m
        if body.corners_m:
            at, reach = placed(body.corners(), x, y, there.yaw_rad, cell_m), body.radius_m / cell_m
            nearest_m = polygon_clearance(at, x, y, reach, at_most_m / cell_m, self._blocked, self._gap) * cell_m
            return max(body_distance(self._placed(pose), *band, min(nearest_m, at_most_m), bodies), 0.0)
        reach_m = at_most_m + body.radius_m
        nearest_m = nearest_blocked(x, y, reach_m / cell_m, self._blocked, self._gap) * cell_m
        if len(bodies):
            nearest_m = nearest_body(pose.x_m, pose.y_m, *band, nearest_m, bodies)
        return min(max(nearest_m - body.radius_m, 0.0), at_most_m)

    def command(self, state: SimState, command: Twist) -> SimState:
        """Return the state after a command was sent to the base now."""
        return replace(state, base=send_command(state.base, command, state.time_ns, self.plant))

    def step(self, state: SimState, dt_ns: int = STEP_NS, bodies: Bodies = NO_BODIES) -> SimState:
        """Return the state one step later; `bodies` are at their positions at the end of the step."""
        base = step_base(state.base, state.time_ns, self.plant, dt_ns / NS)
        moved_m = distance(state.pose, base.motion.pose)
        contacts, touched_at = state.contacts, state.touched_at
        turns = bool(self.body.corners_m) and base.motion.pose.yaw_rad != state.pose.yaw_rad
        if (moved_m > 0.0 or turns) and self._hits(state.pose, base.motion.pose, bodies):
            moves = self._moved_m(state.pose, base.motion.pose) > REST_MPS * dt_ns / NS
            if moves or self.overlaps(base.motion.pose):
                contacts, touched_at = contacts + (touched_at is None), touched_at or state.pose
            base, moved_m = _halted(base, state.pose), 0.0
            if turns and self._hits(state.pose, base.motion.pose, bodies):
                base = _not_turned(base, state.pose)
        elif touched_at is not None:
            gone = len(bodies) > 0 and self.clearance_m(replace(state, base=base), bodies, RELEASE_M) > GONE_M
            if gone or self._moved_m(touched_at, base.motion.pose) > RELEASE_M:
                touched_at = None
        bumping = self._is_overlapping(base.motion.pose, bodies)
        bumps = state.bumps + (bumping and not state.bumping)
        return SimState(state.time_ns + dt_ns, base, contacts, touched_at, state.path_m + moved_m, bumps, bumping)

    def _in_grid(self, pose: Pose) -> Pose:
        return Pose(*apply(self._grid_from_map, (pose.x_m, pose.y_m)), pose.yaw_rad + self._grid_from_map.yaw_rad)

    def _placed(self, pose: Pose) -> npt.NDArray[np.float64]:
        """Return (n, 2) the corners in the map frame [m]."""
        corners: npt.NDArray[np.float64] = placed(self.body.corners(), pose.x_m, pose.y_m, pose.yaw_rad, 1.0)
        return corners

    def _moved_m(self, before: Pose, after: Pose) -> float:
        """Return the distance of two poses; of a polygon, at least the path of its farthest corner in the turn."""
        turn_rad = abs(math.remainder(after.yaw_rad - before.yaw_rad, 2.0 * math.pi)) if self.body.corners_m else 0.0
        return max(distance(before, after), self.body.radius_m * turn_rad)

    def _hits(self, before: Pose, after: Pose, bodies: Bodies) -> bool:
        return self.overlaps(after) or self._touches(before, after, bodies)

    def _touches(self, before: Pose, after: Pose, bodies: Bodies) -> bool:
        """Return whether a step is a contact with a body."""
        if not len(bodies):
            return False
        band = GROUND_CLEARANCE_M, self.body.height_m
        if self.body.corners_m:
            return bool(polygon_into_body(self._placed(before), self._placed(after), *band, bodies))
        way = before.x_m, before.y_m, after.x_m, after.y_m
        return bool(step_into_body(*way, self.body.radius_m, *band, bodies))

    def _is_overlapping(self, pose: Pose, bodies: Bodies) -> bool:
        """Return whether a body overlaps the footprint at a pose."""
        if not len(bodies):
            return False
        radius_m = self.body.radius_m
        band = GROUND_CLEARANCE_M, self.body.height_m
        if self.body.corners_m:
            return bool(body_distance(self._placed(pose), *band, 0.0, bodies) < 0.0)
        return bool(nearest_body(pose.x_m, pose.y_m, *band, radius_m, bodies) < radius_m)


def blocked_cells(world: World, body: Body) -> npt.NDArray[np.bool_]:
    """Return (rows, columns) bool: cells that are solid in the height band of the body."""
    band = np.float32(GROUND_CLEARANCE_M), np.float32(body.height_m)
    return np.asarray(solid_between(world.low_m, world.high_m, *band))


def no_room(world: World, body: Body, pose: Pose) -> InputError:
    """Return the error for a start where the body overlaps a solid cell."""
    size = (
        f"radius {body.radius_m} m"
        if not body.corners_m
        else f"corners {[list(corner_m) for corner_m in body.corners_m]} m"
    )
    return InputError(f"map {world.name}: start ({pose.x_m:.2f}, {pose.y_m:.2f}): a body of {size} does not fit there")


def _not_turned(base: BaseState, pose: Pose) -> BaseState:
    """Return the base after a rejected turn of a polygon: heading of `pose`, at rest."""
    motion = replace(base.motion, pose=replace(base.motion.pose, yaw_rad=pose.yaw_rad), twist=STOP, dw_radps2=0.0)
    return replace(base, motion=motion)


def _halted(base: BaseState, pose: Pose) -> BaseState:
    """Return the base after a rejected step: position of `pose`, new heading and yaw rate, zero speed."""
    motion = replace(
        base.motion,
        pose=replace(base.motion.pose, x_m=pose.x_m, y_m=pose.y_m),
        twist=Twist(0.0, base.motion.twist.w_radps),
        dv_mps2=0.0,
    )
    return replace(base, motion=motion)
