"""One drive as the calibration of the wheels needs it, from a recording of ours, a bag, or a CSV file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.recordings.bags.bag import IMU, open_bag
from hil.recordings.bags.topics import ROLES, choose
from hil.recordings.csv_table import read_csv
from hil.recordings.locate import completed
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.config.config import OdometrySection
from onboard.drivers.dds.ros_convert import fix_from_ros, ns_from_time, odometry_from_ros
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import between, wrap
from onboard.values.messages import Fix, OdometryMessage, Pose, Scan

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOST_GAP_S = 0.5
USUAL_GAP = 3.0
"""A silence of the wheels longer than this, and than this many usual steps, is a gap: it hides the motion in it."""
FIX_SD = OdometrySection().localization_sd
"""Of poses that state none; only their ratio matters, because the fit finds the size."""
GRAVITY_MPS2 = 9.81
COLUMNS = ("t_s", "v", "w")
POSE = ("x", "y", "yaw")
MORE_COLUMNS = ("v_cmd", "w_cmd", *POSE, "imu_w")


@dataclass(frozen=True, slots=True)
class Fixes:
    """Poses of a reference. t_s: (n,); poses: (n, 3) of x, y, yaw [m, rad]; sd: (n, 3) their standard deviations."""

    t_s: Floats
    poses: Floats
    sd: Floats


NO_FIXES = Fixes(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)))


@dataclass(frozen=True, slots=True)
class Run:
    """One drive.

    t_s:      (n,) time of each odometry message, by its sender [s]
    way_m:    (n,) distance since the message before, by the base, without any correction
    turn_rad: (n,) turn since the message before; as way_m
    fixes:    localisation, by the same clock
    imu_rad:  (n,) turn since the message before by a gyroscope, with its bias; None without one
    scans:    (time [s], fused scan) in time order
    commanded_radps: (n,) commanded turn; None where no command is known
    gaps:     (n,) whether the motion since the message before is hidden; its way_m and turn_rad are 0
    """

    name: str
    t_s: Floats
    way_m: Floats
    turn_rad: Floats
    fixes: Fixes = NO_FIXES
    imu_rad: Floats | None = None
    scans: tuple[tuple[float, Scan], ...] = field(default=())
    commanded_radps: Floats | None = None
    gaps: Bools = field(default_factory=lambda: np.zeros(1, np.bool_))

    @property
    def silences(self) -> tuple[str, ...]:
        """Name the gaps, a line each."""
        t_s = self.t_s - self.t_s[0]
        return tuple(
            f"{self.name}: no odometry from {t_s[at - 1]:.2f} to {t_s[at]:.2f} s, a gap of {t_s[at] - t_s[at - 1]:.1f} "
            "s while the robot moved"
            for at in np.flatnonzero(self.gaps)
        )

    def has_gap(self, t_s: Floats) -> Bools:
        """Return (n - 1,) whether a gap lies between each of n times and the next."""
        if not self.gaps.any():
            return np.zeros(max(len(t_s) - 1, 0), np.bool_)
        at = np.flatnonzero(self.gaps)
        begin, end = self.t_s[at - 1], self.t_s[at]
        return np.asarray(((t_s[:-1, None] < end) & (t_s[1:, None] > begin)).any(axis=1))


def read_run(path: Path, *, scans: bool = False) -> Run:
    """Return the drive in a recording (.mcap of ours), a bag, or a CSV file.

    scans: keep the scans too. Raises InputError in one line that names the file.
    """
    if path.suffix.lower() == ".csv":
        return _from_csv(path)
    if path.is_dir() or path.suffix.lower() in (".bag", ".db3"):
        return _from_bag(path)
    return _from_recording(path, scans)


def _from_recording(path: Path, scans: bool) -> Run:
    messages: list[OdometryMessage] = []
    fixes: list[Fix] = []
    seen: list[tuple[float, Scan]] = []
    commands: list[tuple[int, float]] = []
    with completed(path) as file, open_recording(file) as recording:
        section = recording.config.odometry
        for tick in ticks_of(recording):
            messages += tick.inputs.odometry
            fixes += tick.inputs.fixes
            commands.append((tick.sent_ns, tick.command.w_radps))
            if scans and tick.scan.seen.any() and (not seen or tick.scan.stamp_ns > seen[-1][0]):
                seen.append((tick.scan.stamp_ns, tick.scan))
    run = _run(path, messages, fixes, section.localization_sd, use_pose=section.source == "pose")
    arrival_s = np.array([one.arrival_ns for one in _usable(messages)]) / NS_PER_S
    times_s = np.array([at_ns for at_ns, _ in seen]) / NS_PER_S
    stamps_s = np.interp(times_s, arrival_s, run.t_s) if seen else times_s
    sent_s, wanted = np.array([at_ns for at_ns, _ in commands]) / NS_PER_S, np.array([w for _, w in commands])
    given = np.interp(arrival_s, sent_s, wanted) if np.any(wanted != 0.0) else None
    kept = tuple((float(t_s), scan) for t_s, (_, scan) in zip(stamps_s, seen, strict=True))
    return Run(run.name, run.t_s, run.way_m, run.turn_rad, run.fixes, None, kept, given, run.gaps)


def _from_bag(path: Path) -> Run:
    with open_bag([path]) as bag:
        roles = {
            role.name: choose(role, bag.topics, None) for role in ROLES if role.name in ("odometry", "localization")
        }
        odometry, localization = roles["odometry"], roles["localization"]
        if odometry is None:
            raise InputError(f"{path}: no topic of type nav_msgs/msg/Odometry")
        imu = next((topic.name for topic in bag.topics if topic.kind == IMU), None)
        messages, fixes, gyro = [], [], list[tuple[float, ...]]()
        for one in bag.read({name for name in (odometry, localization, imu) if name}):
            if one.topic == odometry:
                messages.append(odometry_from_ros(one.sample, one.time_ns))
            elif one.topic == localization:
                fixes.append(fix_from_ros(one.sample, one.time_ns))
            else:
                rate, force = one.sample.angular_velocity, one.sample.linear_acceleration
                at_ns = ns_from_time(one.sample.header.stamp)
                gyro.append((at_ns / NS_PER_S, rate.x, rate.y, rate.z, force.x, force.y, force.z))
    run = _run(path, messages, fixes, FIX_SD, use_pose=False)
    if not gyro:
        return run
    table = np.array(gyro)
    w_radps = about_vertical(table[:, 1:4], table[:, 4:])
    return replace(run, imu_rad=_turned(path, table[:, 0], w_radps, run.t_s))


def about_vertical(rates_radps: Floats, forces_mps2: Floats) -> Floats:
    """Return (n,) the turn rate about the vertical of an IMU in any orientation.

    rates_radps, forces_mps2: (n, 3); the median force points up. Without an accelerometer z is up.
    """
    up = np.median(forces_mps2, axis=0)
    size = float(np.linalg.norm(up))
    upright = abs(size - GRAVITY_MPS2) > 0.3 * GRAVITY_MPS2
    return np.asarray(rates_radps[:, 2] if upright else rates_radps @ (up / size))


def _from_csv(path: Path) -> Run:
    """Return the drive of a table with the columns t_s, v, w; further x, y, yaw of a reference, imu_w, w_cmd."""
    read = read_csv(path, COLUMNS)
    names = [name for name in (*COLUMNS, *MORE_COLUMNS) if name in read.columns]
    table = {name: read.numbers(name, may_be_empty=name in POSE) for name in names}
    t_s = table["t_s"]
    _check_times(path, t_s)
    gaps, dt_s = _gaps(t_s, np.column_stack([table["v"], table["w"]]))
    fixes = NO_FIXES
    if set(POSE) <= set(table):
        poses = np.column_stack([table[name] for name in POSE])
        known = np.isfinite(poses).all(axis=1) & np.any(np.diff(poses, axis=0, prepend=np.inf) != 0.0, axis=1)
        fixes = Fixes(t_s[known], poses[known], np.tile(FIX_SD, (int(known.sum()), 1)))
    imu = table["imu_w"] * dt_s if "imu_w" in table else None
    return Run(str(path), t_s, table["v"] * dt_s, table["w"] * dt_s, fixes, imu, (), table.get("w_cmd"), gaps)


def _gaps(t_s: Floats, twists: Floats) -> tuple[Bools, Floats]:
    """Return (n,) whether a silence before a message hides motion, and (n,) its time since the one before [s].

    At such a gap the time is 0: nothing is known of the motion there.
    """
    dt_s = np.diff(t_s, prepend=t_s[0])
    usual_s = float(np.median(dt_s[1:]))
    moving = np.any(twists != 0.0, axis=1)
    gaps = (dt_s > max(MOST_GAP_S, USUAL_GAP * usual_s)) & (moving | np.roll(moving, 1))
    return gaps, np.where(gaps, 0.0, dt_s)


def _usable(messages: Sequence[OdometryMessage]) -> list[OdometryMessage]:
    """Return the messages without repeated ones."""
    return [
        message
        for number, message in enumerate(messages)
        if number == 0 or message.stamp_ns != messages[number - 1].stamp_ns
    ]


def _run(
    path: Path, messages: Sequence[OdometryMessage], fixes: Sequence[Fix], sd: Sequence[float], *, use_pose: bool
) -> Run:
    messages = _usable(messages)
    if len(messages) < 2:
        raise InputError(f"{path}: {len(messages)} odometry messages, at least 2 needed")
    t_s = np.array([message.stamp_ns for message in messages]) / NS_PER_S
    _check_times(path, t_s)
    twists = np.array([(message.twist.v_mps, message.twist.w_radps) for message in messages])
    _check_finite(path, t_s, twists)
    gaps, dt_s = _gaps(t_s, twists)
    way_m, turn_rad = twists[:, 0] * dt_s, twists[:, 1] * dt_s
    if use_pose:
        steps = [_step(a.pose, b.pose) for a, b in pairwise(messages)]
        way_m, turn_rad = (np.array([0.0, *column]) for column in zip(*steps, strict=True))
        _check_finite(path, t_s, np.column_stack([way_m, turn_rad]))
    way_m, turn_rad = np.where(gaps, 0.0, way_m), np.where(gaps, 0.0, turn_rad)
    return Run(str(path), t_s, way_m, turn_rad, _fixes(path, fixes, sd), gaps=gaps)


def _step(before: Pose | None, after: Pose | None) -> tuple[float, float]:
    """Return distance, negative backward, and turn between two poses of the base."""
    if before is None or after is None:
        return math.nan, math.nan
    step = between(before, after)
    return math.copysign(math.hypot(step.x_m, step.y_m), step.x_m), step.yaw_rad


def _fixes(path: Path, fixes: Sequence[Fix], least_sd: Sequence[float]) -> Fixes:
    if not fixes:
        return NO_FIXES
    ordered = sorted({fix.stamp_ns: fix for fix in fixes}.values(), key=lambda one: one.stamp_ns)
    poses = np.array([(one.pose.x_m, one.pose.y_m, one.pose.yaw_rad) for one in ordered])
    stated = [
        np.zeros(3) if one.covariance is None else np.sqrt(np.clip(np.diag(one.covariance), 0.0, None))
        for one in ordered
    ]
    t_s, sd = np.array([one.stamp_ns for one in ordered]) / NS_PER_S, np.maximum(np.array(stated), least_sd)
    _check_finite(path, t_s, poses, "the localisation")
    return Fixes(t_s, poses, sd)


def _turned(path: Path, t_s: Floats, w_radps: Floats, at_s: Floats) -> Floats:
    """Return the turn between the times `at_s` of a gyroscope's rates."""
    _check_finite(path, t_s, w_radps, "the gyroscope")
    order = np.argsort(t_s)
    t_s, w_radps = t_s[order], w_radps[order]
    yaw = np.concatenate([[0.0], np.cumsum(0.5 * (w_radps[1:] + w_radps[:-1]) * np.diff(t_s))])
    return np.diff(np.interp(at_s, t_s, yaw), prepend=np.interp(at_s[0], t_s, yaw))


def _check_times(path: Path, t_s: Floats) -> None:
    if len(t_s) < 2 or not np.isfinite(t_s).all():
        raise InputError(f"{path}: {len(t_s)} odometry rows with times, at least 2 with finite times needed")
    back = np.flatnonzero(np.diff(t_s) <= 0.0)
    if len(back):
        at, after = t_s[back[0]], t_s[back[0] + 1]
        raise InputError(f"{path}: times out of order: {after - t_s[0]:.3f} s follows {at - t_s[0]:.3f} s")


def _check_finite(path: Path, t_s: Floats, values: Floats, what: str = "the odometry") -> None:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(t_s), -1)).all(axis=1))
    if len(bad):
        raise InputError(f"{path}: {what} at {t_s[bad[0]] - t_s[0]:.2f} s is missing or not finite")


def yaw_of(angle_rad: Floats) -> Floats:
    """Return angles in (-pi, pi], as `geometry.wrap`."""
    return np.asarray(np.vectorize(wrap, otypes=[float])(angle_rad))
