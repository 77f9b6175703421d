"""What a fast robot is given at the beginning: a free start, the table of its compiled ticks, the form of its drift."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hil.course import Course
from hil.grids import circle_overlaps
from hil.noise import DRIFT_COVARIANCE
from hil.plant import STEP_NS
from hil.setting import Setting
from hil.ticks import TickTable
from onboard.errors import InputError
from onboard.geometry import apply
from onboard.messages import Pose
from onboard.scheduler import NS_PER_S


def check_start(setting: Setting, course: Course, start: Pose) -> None:
    """Raise InputError where a body would overlap something, as `world.Simulation.start` does."""
    x_m, y_m = apply(course.grid_from_map, (start.x_m, start.y_m))
    cell_m, radius_m = setting.world.cell_m, setting.body.radius_m
    if circle_overlaps(x_m / cell_m, y_m / cell_m, radius_m / cell_m, course.blocked, course.gap):
        raise InputError(
            f"map {setting.world.name}: start ({start.x_m:.2f}, {start.y_m:.2f}): "
            f"a body of radius {radius_m} m does not fit there"
        )


def _drift_factor() -> npt.NDArray[np.float64]:
    """Return (2, 2): what numpy's `multivariate_normal` multiplies its standard normal numbers by."""
    directions, singular, _ = np.linalg.svd(np.array(DRIFT_COVARIANCE))
    return np.asarray((directions * np.sqrt(singular)).T)


DRIFT_FACTOR = _drift_factor()


def table_of(setting: Setting) -> TickTable:
    """Return what holds for a drive, for the compiled ticks."""
    section, recovery, grid = setting.config.odometry, setting.config.recovery, setting.world.grid_from_map
    return TickTable(
        grid_x_m=grid.x_m,
        grid_y_m=grid.y_m,
        grid_yaw=grid.yaw_rad,
        cell_m=setting.world.cell_m,
        radius_m=setting.body.radius_m,
        height_m=setting.body.height_m,
        driven_s=min(STEP_NS / NS_PER_S, section.max_gap_ms / 1e3),
        own_pose=float(section.source == "pose"),
        max_v=section.max_speed_mps,
        max_w=section.max_yaw_rate_radps,
        moving_mps=recovery.moving_mps,
        moving_radps=recovery.moving_radps,
        commanded_mps=recovery.commanded_mps,
        commanded_radps=recovery.commanded_radps,
        depth_every=setting.senses.depth_every,
    )
