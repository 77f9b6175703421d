"""Computes the twin's pose from the robot's pose: equation (1) of paper 4, with reset, pause and resume. Pure.

The robot's pose is in a frame that must not jump (odometry, motion capture). The twin's pose is in its map:

    WD_k = R (WP_k - WP_0) + WD_0        yaw_D = yaw(R) + yaw_P

WP_k is the robot's position and WD_k the twin's position now. WP_0 and WD_0 are their positions at the last reset or
resume. R is the rotation between both headings at that time. A paused twin stands still. At resume, the new offset lets
the twin continue exactly where it stood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onboard.values.geometry import wrap
from onboard.values.messages import Pose


@dataclass(frozen=True, slots=True)
class Offset:
    """Offset between robot and twin: WP_0 and WD_0 [m], and the rotation from the robot's to the twin's heading."""

    robot_xy_m: tuple[float, float]
    twin_xy_m: tuple[float, float]
    turn_rad: float


@dataclass(frozen=True, slots=True)
class Coupling:
    """Coupling of the twin to the robot. frozen: pose of the paused twin in its map; None while it follows."""

    offset: Offset
    frozen: Pose | None = None


def offset_of(robot: Pose, twin: Pose) -> Offset:
    """Return the offset that maps the robot's pose `robot` to the twin's pose `twin`."""
    return Offset((robot.x_m, robot.y_m), (twin.x_m, twin.y_m), wrap(twin.yaw_rad - robot.yaw_rad))


def moved(offset: Offset, robot: Pose) -> Pose:
    """Return the twin's pose for the robot's pose `robot`, by equation (1)."""
    c, s = math.cos(offset.turn_rad), math.sin(offset.turn_rad)
    dx, dy = robot.x_m - offset.robot_xy_m[0], robot.y_m - offset.robot_xy_m[1]
    x, y = offset.twin_xy_m
    return Pose(x + c * dx - s * dy, y + s * dx + c * dy, wrap(offset.turn_rad + robot.yaw_rad))


def reset(robot: Pose, start: Pose) -> Coupling:
    """Return the coupling of a following twin that is at `start` while the robot is at `robot`."""
    return Coupling(offset_of(robot, start))


def follow(coupling: Coupling, robot: Pose) -> Pose:
    """Return the twin's pose while the robot is at `robot`. For a paused twin, return the frozen pose."""
    return coupling.frozen or moved(coupling.offset, robot)


def pause(coupling: Coupling, robot: Pose) -> Coupling:
    """Return the coupling of a twin that stands at its present pose. A second pause has no effect."""
    return replace(coupling, frozen=follow(coupling, robot))


def resume(coupling: Coupling, robot: Pose) -> Coupling:
    """Return the coupling of a twin that follows again, from its frozen pose. Without a pause, nothing changes."""
    return coupling if coupling.frozen is None else reset(robot, coupling.frozen)
