"""Our values as ROS 2 messages and back. Pure: the wire, the recorder and the simulator use the same functions.

Input values pass unchanged, NaN included: the runtime checks them. An orientation becomes a heading by one function,
`geometry.yaw_from_quaternion`, NaN where it is none. Stamps of messages are wall time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount
from onboard.drivers.dds import ros_types as ros
from onboard.perception.laser_scan import Rays
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_from_yaw, yaw_from_quaternion
from onboard.values.interfaces import Diagnostic
from onboard.values.messages import BIN_RAD, BINS, Fix, GoalRequest, ImuSample, OdometryMessage, Pose, Scan, Twist

FIRST_BIN_RAD = -math.pi + BIN_RAD / 2.0
"""Centre of bin 0: -179 deg."""

FLOAT32 = 7
FLOATS = {FLOAT32: "f4", 8: "f8"}
"""Data types of a `PointField`."""
TIMES = {6: "u4", FLOAT32: "f4", 8: "f8"}
"""PointField.datatype of a point's time: UINT32, FLOAT32, FLOAT64."""
TIME_FIELDS = {"t": 1e-9, "time": 1.0, "timestamp": 1.0}
LONGEST_SWEEP_S = 0.5
MOST_POINTS = 500_000

FASTEST_RADPS = 35.0
"""A gyroscope's range, 2000 deg/s; more is no rate."""
STATED_VARIANCE = 1e-9, 10.0
"""Variances of rates outside of these are fillers, such as 0, -1 and 1e6."""
PLANAR = (0, 1, 5)
"""Rows of x, y and yaw in a ROS covariance of (x, y, z, roll, pitch, yaw)."""


def time_from_ns(stamp_ns: int) -> ros.Time:
    """Return a stamp as ROS splits it."""
    return ros.Time(stamp_ns // NS_PER_S, stamp_ns % NS_PER_S)


def ns_from_time(stamp: ros.Time) -> int:
    """Return a stamp [ns]."""
    return stamp.sec * NS_PER_S + stamp.nanosec


def header(wall_ns: int, frame_id: str) -> ros.Header:
    """Return a header."""
    return ros.Header(time_from_ns(wall_ns), frame_id)


def optical_frame(camera: str, prefix: str = "") -> str:
    """Return the name of a camera's optical frame. prefix: `DdsSection.frame_prefix`."""
    return f"{prefix}{camera}_optical_frame"


def ros_twist(twist: Twist) -> ros.Twist:
    """Return a velocity of the base."""
    return ros.Twist(ros.Vector3(x=twist.v_mps), ros.Vector3(z=twist.w_radps))


def twist_from_ros(twist: ros.Twist) -> Twist:
    """Return the two numbers of a planar base."""
    return Twist(twist.linear.x, twist.angular.z)


def ros_pose(pose: Pose) -> ros.Pose:
    """Return a planar pose."""
    return ros.Pose(ros.Point(pose.x_m, pose.y_m), ros.Quaternion(*quaternion_from_yaw(pose.yaw_rad)))


def pose_from_ros(pose: ros.Pose) -> Pose:
    """Return position and heading, without height, roll and pitch."""
    q = pose.orientation
    return Pose(pose.position.x, pose.position.y, yaw_from_quaternion((q.x, q.y, q.z, q.w)))


def ros_odometry(
    wall_ns: int, frame_id: str, child_frame_id: str, pose: Pose, twist: Twist, sd: Sequence[float] = (0.0, 0.0, 0.0)
) -> ros.Odometry:
    """Return a base's odometry; `sd` of x, y, yaw [m, m, rad]."""
    return ros.Odometry(
        header(wall_ns, frame_id),
        child_frame_id,
        ros.PoseWithCovariance(ros_pose(pose), _covariance(sd)),
        ros.TwistWithCovariance(ros_twist(twist)),
    )


def has_no_heading(pose: ros.Pose) -> bool:
    """Return whether the orientation was left empty: all zero."""
    q = pose.orientation
    return not any((q.x, q.y, q.z, q.w))


def odometry_from_ros(sample: ros.Odometry, arrival_ns: int) -> OdometryMessage:
    """Return a base's odometry. A pose that is all zero, the orientation too, is not filled: None."""
    pose, at = sample.pose.pose, sample.pose.pose.position
    filled = any((at.x, at.y, at.z)) or not has_no_heading(pose)
    return OdometryMessage(
        stamp_ns=ns_from_time(sample.header.stamp),
        arrival_ns=arrival_ns,
        pose=pose_from_ros(pose) if filled else None,
        twist=twist_from_ros(sample.twist.twist),
        yaw_variance=_variance(float(sample.twist.covariance[35])),
        speed_variance=_variance(float(sample.twist.covariance[0])),
    )


def imu_from_ros(sample: ros.Imu, up_in_imu: Sequence[float], arrival_ns: int) -> ImuSample | None:
    """Return the yaw rate of an IMU; None without a gyroscope (-1 in its covariance) or a finite, possible rate.

    up_in_imu: (3,) the base's z axis in the IMU's frame
    """
    rate, covariance = sample.angular_velocity, sample.angular_velocity_covariance
    yaw_radps = rate.x * up_in_imu[0] + rate.y * up_in_imu[1] + rate.z * up_in_imu[2]
    if covariance[0] == -1.0 or not abs(yaw_radps) <= FASTEST_RADPS:
        return None
    variance = _variance(sum(float(covariance[4 * axis]) * up_in_imu[axis] ** 2 for axis in range(3)))
    return ImuSample(ns_from_time(sample.header.stamp), arrival_ns, yaw_radps, variance)


def _variance(value: float) -> float | None:
    """Return a stated variance [m^2/s^2 or rad^2/s^2]; None for zeros and other values that state nothing."""
    least, most = STATED_VARIANCE
    return value if least <= value <= most else None


def ros_imu(wall_ns: int, frame_id: str, yaw_radps: float) -> ros.Imu:
    """Return the yaw rate of a level IMU, without accelerations."""
    return ros.Imu(header(wall_ns, frame_id), angular_velocity=ros.Vector3(0.0, 0.0, yaw_radps))


def ros_fix(wall_ns: int, frame_id: str, pose: Pose, sd: Sequence[float]) -> ros.PoseWithCovarianceStamped:
    """Return an external localisation; `sd` of x, y, yaw [m, m, rad]."""
    return ros.PoseWithCovarianceStamped(
        header(wall_ns, frame_id), ros.PoseWithCovariance(ros_pose(pose), _covariance(sd))
    )


def fix_from_ros(sample: ros.PoseWithCovarianceStamped, arrival_ns: int) -> Fix:
    """Return a localisation; an all-zero covariance, ROS's unknown, becomes None."""
    full = np.asarray(sample.pose.covariance, dtype=np.float64).reshape(6, 6)
    return Fix(
        stamp_ns=ns_from_time(sample.header.stamp),
        arrival_ns=arrival_ns,
        pose=pose_from_ros(sample.pose.pose),
        covariance=full[np.ix_(PLANAR, PLANAR)] if full.any() else None,
    )


def ros_goal(wall_ns: int, frame_id: str, pose: Pose) -> ros.PoseStamped:
    """Return a goal."""
    return ros.PoseStamped(header(wall_ns, frame_id), ros_pose(pose))


def _goal_pose(pose: ros.Pose) -> Pose:
    """Return a goal's pose. An orientation that is all zero means that any heading will do: 0."""
    return Pose(pose.position.x, pose.position.y, 0.0) if has_no_heading(pose) else pose_from_ros(pose)


def goal_from_ros(sample: ros.PoseStamped, arrival_ns: int, use_yaw: bool = False) -> GoalRequest:
    """Return a requested goal. use_yaw: its heading counts, unless its orientation is all zero."""
    stamp_ns, heading = ns_from_time(sample.header.stamp), use_yaw and not has_no_heading(sample.pose)
    return GoalRequest(stamp_ns, arrival_ns, sample.header.frame_id, _goal_pose(sample.pose), heading)


def goals_from_ros(sample: ros.Path, arrival_ns: int) -> GoalRequest:
    """Return a requested sequence; the last pose's heading counts, unless its orientation is all zero.

    A pose without a frame has that of the sequence. A sequence without poses is no valid goal: NaN.
    """
    poses = [(one.header.frame_id or sample.header.frame_id, one.pose) for one in sample.poses]
    stamp_ns = ns_from_time(sample.header.stamp)
    if not poses:
        return GoalRequest(stamp_ns, arrival_ns, sample.header.frame_id, Pose(math.nan, math.nan, 0.0))
    *through, (frame_id, last) = poses
    passed = tuple((frame, Pose(pose.position.x, pose.position.y, 0.0)) for frame, pose in through)
    return GoalRequest(stamp_ns, arrival_ns, frame_id, _goal_pose(last), not has_no_heading(last), passed)


def ros_goals(wall_ns: int, goals: Sequence[ros.PoseStamped]) -> ros.Path:
    """Return a sequence of goals."""
    return ros.Path(header(wall_ns, goals[0].header.frame_id if goals else ""), list(goals))


def ros_scan(wall_ns: int, frame_id: str, scan: Scan, range_max_m: float) -> ros.LaserScan:
    """Return the scan for RViz: NaN where no camera looks, inf where nothing was seen.

    range_max_m: the source's maximum range; a larger range in the scan raises it
    """
    farthest_m = float(np.max(scan.ranges_m, where=scan.seen & np.isfinite(scan.ranges_m), initial=range_max_m))
    return ros.LaserScan(
        header=header(wall_ns, frame_id),
        angle_min=FIRST_BIN_RAD,
        angle_max=FIRST_BIN_RAD + (BINS - 1) * BIN_RAD,
        angle_increment=BIN_RAD,
        range_max=farthest_m,
        ranges=np.where(scan.seen, scan.ranges_m, np.nan).tolist(),
    )


def rays_from_ros(sample: ros.LaserScan) -> Rays:
    """Return a laser's rays unchanged."""
    return Rays(
        angle_min_rad=sample.angle_min,
        angle_max_rad=sample.angle_max,
        increment_rad=sample.angle_increment,
        range_min_m=sample.range_min,
        range_max_m=sample.range_max,
        ranges_m=np.asarray(sample.ranges, dtype=np.float32),
        step_s=sample.time_increment,
    )


def points_from_ros(sample: ros.PointCloud2) -> npt.NDArray[np.float64]:
    """Return (n, 3) x, y, z of a cloud. Raises InputError for other fields, missing bytes, or too many points."""
    fields, order = {one.name: one for one in sample.fields}, ">" if sample.is_bigendian else "<"
    if any(name not in fields or fields[name].datatype not in FLOATS for name in "xyz"):
        names = ", ".join(fields) or "none"
        raise InputError(f"a cloud needs x, y and z of FLOAT32 or FLOAT64, its fields are {names}")
    if (count := sample.width * sample.height) > MOST_POINTS:
        raise InputError(f"the cloud has {count:,} points, limit {MOST_POINTS:,}: thin it out (a voxel filter)")
    offsets, formats = (
        [fields[name].offset for name in "xyz"],
        [order + FLOATS[fields[name].datatype] for name in "xyz"],
    )
    ends = [at + int(kind[-1]) for at, kind in zip(offsets, formats, strict=True)]
    if (
        max(ends) > sample.point_step
        or sample.row_step < sample.width * sample.point_step
        or len(sample.data) < sample.row_step * sample.height
    ):
        raise InputError(
            f"{len(sample.data)} bytes are not {sample.width}x{sample.height} points of {sample.point_step}"
        )
    kind = np.dtype({"names": list("xyz"), "formats": formats, "offsets": offsets, "itemsize": sample.point_step})
    shape, strides = (sample.height, sample.width), (sample.row_step, sample.point_step)
    cloud: npt.NDArray[np.void] = np.ndarray(shape, kind, sample.data, strides=strides)
    return np.stack([cloud[name].ravel().astype(np.float64) for name in "xyz"], axis=1)


def ages_from_ros(sample: ros.PointCloud2) -> npt.NDArray[np.float64] | None:
    """Return (n,) how long before its newest point each point of a cloud was taken [s]; None if it does not say.

    The field is `t` (ns) of Ouster, `time` (s) of Velodyne, or `timestamp` (s) of Hesai and others; `points_from_ros`
    has checked the cloud. A span above `LONGEST_SWEEP_S` is another unit and states nothing.
    """
    fields, order = {one.name: one for one in sample.fields}, ">" if sample.is_bigendian else "<"
    for name, unit_s in TIME_FIELDS.items():
        one = fields.get(name)
        kind = None if one is None else TIMES.get(one.datatype)
        if one is None or kind is None or one.offset + int(kind[-1]) > sample.point_step:
            continue
        shape, strides = (sample.height, sample.width), (sample.row_step, sample.point_step)
        times: npt.NDArray[Any] = np.ndarray(shape, order + kind, sample.data, one.offset, strides).ravel()
        taken_s = times.astype(np.float64) * unit_s
        age_s: npt.NDArray[np.float64] = np.nanmax(taken_s, initial=-np.inf) - taken_s
        age_s[~np.isfinite(age_s)] = 0.0
        return age_s if 0.0 < age_s.max(initial=0.0) <= LONGEST_SWEEP_S else None
    return None


def ros_cloud(wall_ns: int, frame_id: str, points_m: npt.NDArray[np.float32]) -> ros.PointCloud2:
    """Return (n, 3) points as a cloud in one row."""
    fields = [ros.PointField(name, 4 * number, FLOAT32, 1) for number, name in enumerate("xyz")]
    data = np.ascontiguousarray(points_m, "<f4").tobytes()
    return ros.PointCloud2(header(wall_ns, frame_id), 1, len(points_m), fields, False, 12, len(data), data, True)


def ros_rays(wall_ns: int, frame_id: str, rays: Rays) -> ros.LaserScan:
    """Return the message of a laser's rays."""
    return ros.LaserScan(
        header=header(wall_ns, frame_id),
        angle_min=rays.angle_min_rad,
        angle_max=rays.angle_max_rad,
        angle_increment=rays.increment_rad,
        range_min=rays.range_min_m,
        range_max=rays.range_max_m,
        ranges=rays.ranges_m.tolist(),
    )


def ros_speed_limit(wall_ns: int, limit_mps: float) -> ros.SpeedLimit:
    """Return a limit on the speed, 0 for none."""
    return ros.SpeedLimit(header(wall_ns, ""), False, limit_mps)


def speed_limit_from_ros(sample: ros.SpeedLimit, v_max_mps: float) -> float:
    """Return the limit [m/s], 0 for none, as in Nav2; percentages are of `v_max_mps`."""
    return float(sample.speed_limit * v_max_mps / 100.0 if sample.percentage else sample.speed_limit)


def ros_image(wall_ns: int, frame_id: str, encoding: str, image: npt.NDArray[np.generic]) -> ros.Image:
    """Return an image of shape (height, width) or (height, width, channels), rows without padding."""
    height, width = image.shape[:2]
    data = np.ascontiguousarray(image)
    return ros.Image(
        header(wall_ns, frame_id), height, width, encoding, step=data.nbytes // height, data=data.tobytes()
    )


def ros_camera_info(wall_ns: int, mount: Mount, prefix: str = "") -> ros.CameraInfo:
    """Return the intrinsics of a mount; images come rectified."""
    fx, fy, cx, cy = mount.fx, mount.fy, mount.cx, mount.cy
    return ros.CameraInfo(
        header=header(wall_ns, optical_frame(mount.name, prefix)),
        height=mount.height,
        width=mount.width,
        distortion_model="plumb_bob",
        d=[0.0] * 5,
        k=[fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
    )


def ros_transform(wall_ns: int, parent: str, child: str, parent_from_child: Pose) -> ros.TransformStamped:
    """Return a planar transform."""
    pose = ros_pose(parent_from_child)
    at = ros.Vector3(pose.position.x, pose.position.y, pose.position.z)
    return ros.TransformStamped(header(wall_ns, parent), child, ros.Transform(at, pose.orientation))


def ros_mount_transform(wall_ns: int, base_frame: str, mount: Mount, prefix: str = "") -> ros.TransformStamped:
    """Return a camera's mount: base to its optical frame."""
    frame, at = optical_frame(mount.name, prefix), mount.base_from_camera[:3, 3].tolist()
    return ros_placed(wall_ns, base_frame, frame, at, mount.rotation_xyzw)


def ros_placed(
    wall_ns: int, base_frame: str, frame: str, at_m: Sequence[float], turned_xyzw: Sequence[float]
) -> ros.TransformStamped:
    """Return the transform of a frame at a fixed place of the base."""
    fixed = ros.Transform(ros.Vector3(*at_m), ros.Quaternion(*turned_xyzw))
    return ros.TransformStamped(header(wall_ns, base_frame), frame, fixed)


def ros_diagnostics(wall_ns: int, hardware_id: str, entries: Sequence[Diagnostic]) -> ros.DiagnosticArray:
    """Return entries for tools such as `rqt_robot_monitor`."""
    status = [
        ros.DiagnosticStatus(
            level, name, message, hardware_id, [ros.KeyValue(key, str(value)) for key, value in values.items()]
        )
        for name, level, message, values in entries
    ]
    return ros.DiagnosticArray(header(wall_ns, ""), status)


def _covariance(sd: Sequence[float]) -> list[float]:
    """Return the (6, 6) ROS covariance, row by row, of independent x, y and yaw."""
    full = np.zeros((6, 6))
    for row, deviation in zip(PLANAR, sd, strict=True):
        full[row, row] = deviation * deviation
    return [float(value) for value in full.flat]
