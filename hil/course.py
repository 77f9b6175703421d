"""A setting made ready for many drives: what is computed once and shared by all of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.direct_scan import DirectScan, direct_scan
from hil.grids import chessboard_distance
from hil.limit_gate import LimitGate
from hil.robot import TICK_HZ
from hil.setting import Setting
from hil.world import blocked_cells
from onboard.errors import InputError
from onboard.limits import Bounds, bounds_of
from onboard.messages import Pose
from onboard.scheduler import NS_PER_S

SETTLE_S = 2.5
"""Time before the goal, in which the first fixes come."""
KEPT = 4
"""Courses that are kept for the next drive; more would hold the worlds of a whole campaign in memory."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the drives of one setting share, whatever its senses, crowd and look.

    blocked, gap:     (rows, columns) where the body cannot be, and how far that is, as `world.Simulation` has them
    linear, angular:  (7,) the plant's axes
    scan, limits_scan: what the policy sees, and what the limits look at
    gate:             of the limits; None where they are not in force
    ramped:           whether the limits ramp, so that every tick's command depends on the last
    """

    blocked: npt.NDArray[np.bool_]
    gap: npt.NDArray[np.uint8]
    linear: npt.NDArray[np.float64]
    angular: npt.NDArray[np.float64]
    scan: DirectScan
    limits_scan: DirectScan
    bounds: Bounds
    gate: LimitGate | None
    ramped: bool
    grid_from_map: Pose


def make_course(setting: Setting) -> Course:
    """Return the setting made ready. Raises InputError where its rates do not fit the simulated robot."""
    config, plant = setting.config, setting.plant
    _check_rates(setting)
    bounds = bounds_of(config.limits, plant, config.robot.footprint_radius_m, config.odometry.stale_ms)
    seen = direct_scan(setting.world, setting.mounts, config.scan, setting.scan)
    guarded = seen
    if config.limits_scan is not None:
        guarded = direct_scan(setting.world, setting.mounts, config.limits_scan, setting.scan)
    blocked = blocked_cells(setting.world, setting.body)
    return Course(
        blocked=blocked,
        gap=chessboard_distance(blocked),
        linear=plant.linear.as_array(),
        angular=plant.angular.as_array(),
        scan=seen,
        limits_scan=guarded,
        bounds=bounds,
        gate=LimitGate(bounds, guarded.seen) if setting.limits else None,
        ramped=setting.limits and not (bounds.ramp_mps2 is None and bounds.ramp_radps2 is None),
        grid_from_map=setting.world.grid_from_map,
    )


def course_of(setting: Setting) -> Course:
    """Return the setting made ready, the one made before where only senses, crowd or look differ."""
    parts = (setting.world, setting.plant, setting.mounts, setting.config)
    key = (*(id(part) for part in parts), setting.body, setting.scan, setting.limits)
    if key not in _KEPT:
        while len(_KEPT) >= KEPT:
            _KEPT.popitem(last=False)
        _KEPT[key] = make_course(setting), parts
    _KEPT.move_to_end(key)
    return _KEPT[key][0]


_KEPT: OrderedDict[tuple[object, ...], tuple[Course, tuple[object, ...]]] = OrderedDict()
"""Each with the parts by whose identity it is found, so that no others can take their place."""


def goal_tick(ticks_per_decision: int) -> int:
    """Return the tick in which a drive's goal comes: after `SETTLE_S`, just before the first decision.

    Until then the robot stands, and the first fixes of its localisation come.
    """
    settled = -(-round(SETTLE_S * NS_PER_S) // round(NS_PER_S / TICK_HZ))
    return settled + (-settled - 1) % ticks_per_decision


def _check_rates(setting: Setting) -> None:
    rates, limits, senses = setting.config.rates, setting.config.limits, setting.senses
    if rates.control_hz != TICK_HZ:
        raise InputError(f"rates.control_hz is {rates.control_hz:g}, the simulated robot lives at {TICK_HZ}")
    if senses.depth_every / TICK_HZ * 1e3 > limits.scan_stale_ms:
        raise InputError(
            f"a scan comes every {senses.depth_every} ticks of 1/{TICK_HZ} s, "
            f"the limits take none older than {limits.scan_stale_ms:g} ms (limits.scan_stale_ms)"
        )
