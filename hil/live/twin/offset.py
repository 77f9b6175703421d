"""Where the twin is, from where the robot is: equation (1) of paper 4, and reset, pause and resume. Pure.

The robot's pose is in a frame of its own that must not jump (odometry, motion capture), the twin's in its map:

    WD_k = R (WP_k - WP_0) + WD_0        yaw_D = yaw(R) + yaw_P

WP_0 and WD_0 are both positions at the last reset or resume, R the rotation between both headings then. While paused
the twin stands still; on resume the offset is such that it goes on from exactly where it stood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onboard.values.geometry import wrap
from onboard.values.messages import Pose


@dataclass(frozen=True, slots=True)
class Offset:
    """Robot and twin at the same moment: WP_0, WD_0 [m] and the rotation from the robot's headings to the twin's."""

    robot_xy_m: tuple[float, float]
    twin_xy_m: tuple[float, float]
    turn_rad: float


@dataclass(frozen=True, slots=True)
class Coupling:
    """How the twin hangs on the robot. frozen: where it stands while paused, None while it follows."""

    offset: Offset
    frozen: Pose | None = None


def offset_of(robot: Pose, twin: Pose) -> Offset:
    """Return the offset with which the twin is at `twin` while the robot is at `robot`."""
    return Offset((robot.x_m, robot.y_m), (twin.x_m, twin.y_m), wrap(twin.yaw_rad - robot.yaw_rad))


def moved(offset: Offset, robot: Pose) -> Pose:
    """Return the twin's pose: the equation."""
    c, s = math.cos(offset.turn_rad), math.sin(offset.turn_rad)
    dx, dy = robot.x_m - offset.robot_xy_m[0], robot.y_m - offset.robot_xy_m[1]
    x, y = offset.twin_xy_m
    return Pose(x + c * dx - s * dy, y + s * dx + c * dy, wrap(offset.turn_rad + robot.yaw_rad))


def reset(robot: Pose, start: Pose) -> Coupling:
    """Return the twin at a start, following."""
    return Coupling(offset_of(robot, start))


def follow(coupling: Coupling, robot: Pose) -> Pose:
    """Return the twin's pose while the robot is at `robot`."""
    return coupling.frozen or moved(coupling.offset, robot)


def pause(coupling: Coupling, robot: Pose) -> Coupling:
    """Return the twin standing where it is. Pausing twice is pausing once."""
    return replace(coupling, frozen=follow(coupling, robot))


def resume(coupling: Coupling, robot: Pose) -> Coupling:
    """Return the twin following again, from exactly where it stood; one that was not paused is not touched."""
    return coupling if coupling.frozen is None else reset(robot, coupling.frozen)
