"""A setting prepared for many drives: values that are computed once and shared by all drives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.drive.fast.limits_kernel import FastLimits
from hil.drive.robot import TICK_HZ
from hil.drive.setting import Setting
from hil.maps.cell_kernels import chessboard_distance
from hil.physics.collision_world import blocked_cells
from hil.physics.contact import solid_between
from hil.physics.motion.motion_model import MotionModel, motion_of
from hil.sensors.direct_scan import DirectScan, direct_scan, looked_at
from onboard.safety.limits import Bounds, bounds_of
from onboard.values.errors import InputError
from onboard.values.messages import Pose

EDGE_M = 1e-6
"""The height band of the scan is widened by this at both ends: more than any rounding error."""


@dataclass(frozen=True, slots=True)
class Course:
    """Values that all drives of one setting share, independent of its senses, crowd and look.

    blocked:          (rows, columns) bool; cells where the body cannot be, as in `collision_world.Simulation`
    gap:              (rows, columns) chessboard distance to the nearest blocked cell [cells]
    linear, angular:  (8,) the axes of the plant
    motion:           the motion model of the plant
    scan:             the policy's scan; limits_scan: the scan of the limits
    limits:           compiled limits; None if the limits are not active
    solid:            (rows, columns) bool; cells that the scan of the limits can see
    solid_gap:        (rows, columns) lower bound of the chessboard distance to the nearest solid cell [cells]
    ramped:           whether the limits ramp, so that each tick's command depends on the command before
    """

    blocked: npt.NDArray[np.bool_]
    gap: npt.NDArray[np.uint8]
    linear: npt.NDArray[np.float64]
    angular: npt.NDArray[np.float64]
    motion: MotionModel
    scan: DirectScan
    limits_scan: DirectScan
    bounds: Bounds
    limits: FastLimits | None
    solid: npt.NDArray[np.bool_]
    solid_gap: npt.NDArray[np.uint8]
    ramped: bool
    grid_from_map: Pose


def make_course(setting: Setting) -> Course:
    """Return the shared values of a setting."""
    config, plant, world = setting.config, setting.plant, setting.world
    bounds = bounds_of(config.limits, plant, config.robot.footprint, config.odometry.stale_ms)
    seen = direct_scan(world, setting.mounts, config.scan, setting.scan)
    guarded = seen
    if config.own_scan is not None:
        guarded = direct_scan(world, setting.mounts, config.own_scan, setting.scan)
    blocked = blocked_cells(world, setting.body)
    return Course(
        blocked=blocked,
        gap=chessboard_distance(blocked),
        linear=setting.base_plant.linear.as_array(),
        angular=setting.base_plant.angular.as_array(),
        motion=motion_of(setting.base_plant),
        scan=seen,
        limits_scan=guarded,
        bounds=bounds,
        limits=FastLimits(bounds, guarded.seen) if setting.limits else None,
        solid=solid_between(world.low_m, world.high_m, guarded.z_min_m - EDGE_M, guarded.z_max_m + EDGE_M),
        solid_gap=world.gap,
        ramped=setting.limits and not (bounds.ramp_mps2 is None and bounds.ramp_radps2 is None),
        grid_from_map=world.grid_from_map,
    )


def varied(course: Course, setting: Setting) -> Course:
    """Return a course in the same building for another plant, configuration or mounts. It shares the building's arrays.

    For training, where every drive has another robot. Raises InputError in these cases: the scan has another height
    band, the limits have a separate scan, or the rates do not fit the simulated robot.
    """
    _check_rates(setting)
    config, plant = setting.config, setting.plant
    if config.limits_scan is not None or (config.scan.z_min_m, config.scan.z_max_m) != (
        course.scan.z_min_m,
        course.scan.z_max_m,
    ):
        raise InputError("scan: all robots in the same building must have one scan with the same heights")
    bounds = bounds_of(config.limits, plant, config.robot.footprint, config.odometry.stale_ms)
    seen = looked_at(setting.mounts, config.scan)
    scan = replace(course.scan, far_m=config.scan.far_m, seen=seen, blind=~seen)
    return replace(
        course,
        linear=setting.base_plant.linear.as_array(),
        angular=setting.base_plant.angular.as_array(),
        motion=motion_of(setting.base_plant),
        scan=scan,
        limits_scan=scan,
        bounds=bounds,
        limits=FastLimits(bounds, seen) if setting.limits else None,
        ramped=setting.limits and not (bounds.ramp_mps2 is None and bounds.ramp_radps2 is None),
    )


def course_of(setting: Setting) -> Course:
    """Return the course of a setting. If only senses, crowd or look changed since the last call, reuse its course.

    The cache holds a single course, because a course holds its whole building. Raises InputError if the rates do not
    fit the simulated robot, or if the configuration has zones of the map.
    """
    _check_rates(setting)
    _check_zones(setting)
    if not _LAST or not _same_course(_LAST[0][0], setting):
        _LAST.clear()
        _LAST.append((setting, make_course(setting)))
    return _LAST[0][1]


_LAST: list[tuple[Setting, Course]] = []


def _same_course(one: Setting, other: Setting) -> bool:
    parts = ("world", "plant", "true_plant", "mounts", "config")
    same = all(getattr(one, part) is getattr(other, part) for part in parts)
    return same and (one.body, one.scan, one.limits) == (other.body, other.scan, other.limits)


def _check_zones(setting: Setting) -> None:
    zones = setting.config.zones
    if zones.keep_out is not None or zones.speed is not None:
        raise InputError("[zones]: a drive without the runtime ignores zones of the map: add --runtime")


def _check_rates(setting: Setting) -> None:
    rates, limits, senses = setting.config.rates, setting.config.limits, setting.senses
    if rates.control_hz != TICK_HZ:
        raise InputError(f"rates.control_hz is {rates.control_hz:g}, the simulated robot runs at {TICK_HZ}")
    if senses.depth_every / TICK_HZ * 1e3 > limits.scan_stale_ms:
        raise InputError(
            f"a scan comes every {senses.depth_every} ticks of 1/{TICK_HZ} s, "
            f"but the limits accept none older than {limits.scan_stale_ms:g} ms (limits.scan_stale_ms)"
        )
