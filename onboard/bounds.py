"""The numbers of one robot by which `limits.py` judges its commands."""

from __future__ import annotations

from dataclasses import dataclass

from onboard.config import LimitsSection
from onboard.motion import Plant
from onboard.scheduler import NS_PER_S

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers of one robot, in SI units and nanoseconds.

    swept_radius_m: footprint and stop margin; slow_radius_m: footprint and slow margin
    braking_mps2:   what the base brakes with
    ramp_mps2, ramp_radps2: None where the base's own loop is the slower one
    """

    v_min_mps: float
    v_max_mps: float
    w_max_radps: float
    ramp_mps2: float | None
    ramp_radps2: float | None
    braking_mps2: float
    reaction_s: float
    footprint_radius_m: float
    swept_radius_m: float
    slow_radius_m: float
    slow_mps: float
    creep_mps: float
    time_to_contact_s: float
    dead_man_ns: int
    odometry_stale_ns: int
    scan_stale_ns: int
    remember_ns: int


def bounds_of(section: LimitsSection, plant: Plant, footprint_radius_m: float, odometry_stale_ms: float) -> Bounds:
    """Return the numbers of one robot; built once, at load."""
    base_mps2, base_radps2 = plant.linear.acceleration_max, plant.angular.acceleration_max
    limit_mps2, limit_radps2 = section.acceleration_mps2, section.angular_acceleration_radps2
    return Bounds(
        v_min_mps=section.v_min_mps,
        v_max_mps=section.v_max_mps,
        w_max_radps=section.w_max_radps,
        ramp_mps2=limit_mps2 if limit_mps2 < base_mps2 else None,
        ramp_radps2=limit_radps2 if limit_radps2 < base_radps2 else None,
        braking_mps2=min(limit_mps2, base_mps2),
        reaction_s=section.reaction_s,
        footprint_radius_m=footprint_radius_m,
        swept_radius_m=footprint_radius_m + section.stop_margin_m,
        slow_radius_m=footprint_radius_m + section.slow_margin_m,
        slow_mps=section.slow_fraction * section.v_max_mps,
        creep_mps=section.creep_mps,
        time_to_contact_s=section.time_to_contact_s,
        dead_man_ns=round(section.teleop_dead_man_s * NS_PER_S),
        odometry_stale_ns=round(odometry_stale_ms * NS_PER_MS),
        scan_stale_ns=round(section.scan_stale_ms * NS_PER_MS),
        remember_ns=round(section.remember_s * NS_PER_S),
    )
