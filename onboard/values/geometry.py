"""Planar and spatial transforms. A transform is named `target_from_source` and maps source points to target."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onboard.values.kernel import compilable
from onboard.values.messages import Pose

IDENTITY = Pose(0.0, 0.0, 0.0)
TURN_RAD = 2.0 * math.pi

Numbers = tuple[float, float, float]
"""x, y [m] and yaw [rad] of a pose, for kernels."""


@compilable
def wrap(angle_rad: float) -> float:
    """Return the angle in (-pi, pi], exactly."""
    if -math.pi < angle_rad <= math.pi:
        return angle_rad
    left = abs(angle_rad) % TURN_RAD
    if left > math.pi:
        left -= TURN_RAD
    if angle_rad > 0.0:
        return left
    return math.pi if left == math.pi else -left


@compilable
def composed(x_m: float, y_m: float, yaw_rad: float, dx_m: float, dy_m: float, dyaw_rad: float) -> Numbers:
    """Return a_from_c of the numbers of a_from_b and b_from_c."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return x_m + c * dx_m - s * dy_m, y_m + s * dx_m + c * dy_m, wrap(yaw_rad + dyaw_rad)


@compilable
def inverted(x_m: float, y_m: float, yaw_rad: float) -> Numbers:
    """Return b_from_a of the numbers of a_from_b."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    return -c * x_m - s * y_m, s * x_m - c * y_m, wrap(-yaw_rad)


@compilable
def seen_from(x_m: float, y_m: float, yaw_rad: float, to_x_m: float, to_y_m: float, to_yaw_rad: float) -> Numbers:
    """Return b_from_c of the numbers of a_from_b and a_from_c."""
    x, y, yaw = inverted(x_m, y_m, yaw_rad)
    return composed(x, y, yaw, to_x_m, to_y_m, to_yaw_rad)


def compose(a_from_b: Pose, b_from_c: Pose) -> Pose:
    """Return a_from_c."""
    return Pose(*composed(a_from_b.x_m, a_from_b.y_m, a_from_b.yaw_rad, b_from_c.x_m, b_from_c.y_m, b_from_c.yaw_rad))


def inverse(a_from_b: Pose) -> Pose:
    """Return b_from_a."""
    return Pose(*inverted(a_from_b.x_m, a_from_b.y_m, a_from_b.yaw_rad))


def between(a_from_b: Pose, a_from_c: Pose) -> Pose:
    """Return b_from_c: the pose of c seen from b."""
    return compose(inverse(a_from_b), a_from_c)


def apply(a_from_b: Pose, point_b_m: tuple[float, float]) -> tuple[float, float]:
    """Return the point of frame b in frame a."""
    moved = compose(a_from_b, Pose(point_b_m[0], point_b_m[1], 0.0))
    return moved.x_m, moved.y_m


def distance(a: Pose, b: Pose) -> float:
    """Return the distance between two positions [m]."""
    return math.hypot(a.x_m - b.x_m, a.y_m - b.y_m)


def interpolate(start: Pose, end: Pose, fraction: float) -> Pose:
    """Return the pose between start (fraction 0) and end (1): linear in position and in the shorter rotation."""
    return Pose(
        start.x_m + fraction * (end.x_m - start.x_m),
        start.y_m + fraction * (end.y_m - start.y_m),
        wrap(start.yaw_rad + fraction * wrap(end.yaw_rad - start.yaw_rad)),
    )


def rotation_from_quaternion(xyzw: tuple[float, float, float, float]) -> npt.NDArray[np.float64]:
    """Return the (3, 3) rotation of a unit quaternion (x, y, z, w), ROS order. The caller checks the norm."""
    x, y, z, w = xyzw
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_from_rpy(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Return (x, y, z, w) of rotations about the fixed axes x, y, z in this order [rad], as in URDF and tf2."""
    about_x = (math.sin(roll / 2), 0.0, 0.0, math.cos(roll / 2))
    about_y = (0.0, math.sin(pitch / 2), 0.0, math.cos(pitch / 2))
    return quaternion_product(quaternion_product(quaternion_from_yaw(yaw), about_y), about_x)


def quaternion_product(
    left: tuple[float, float, float, float], right: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Return the quaternion (x, y, z, w) that rotates by `right`, then by `left`."""
    (a, b, c, d), (x, y, z, w) = left, right
    return (
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
        d * w - a * x - b * y - c * z,
    )


def quaternion_from_yaw(yaw_rad: float) -> tuple[float, float, float, float]:
    """Return (x, y, z, w) of a rotation about z."""
    return 0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2)


NORM_TOLERANCE = 0.1
LEAST_UPRIGHT = 0.5
"""Cosine of the largest tilt of a base, 60 deg: beyond it the parts are in another order, such as w first."""


def yaw_from_quaternion(xyzw: tuple[float, float, float, float]) -> float:
    """Return the heading of a quaternion (x, y, z, w), normalised. Ignores roll and pitch: robots drive on ramps.

    NaN if the norm is off 1 by more than `NORM_TOLERANCE` (zero, NaN, without w), or the base is not upright.
    """
    x, y, z, w = xyzw
    squared = x * x + y * y + z * z + w * w
    upright = (squared - 2 * (x * x + y * y)) >= LEAST_UPRIGHT * squared
    if not (abs(math.sqrt(squared) - 1.0) <= NORM_TOLERANCE and upright):
        return math.nan
    return math.atan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)
