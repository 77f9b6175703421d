"""What lanes see: the policy's scan, and the obstacles near by for limits and recovery.

Obstacles are found for each fan of `FAN` bins, so that a GPU casts the fans of all lanes at the same time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engines.train.batched.lane_values import (
    BACK,
    GOLDEN,
    LIMITS,
    MIX_A,
    REAR,
    Lanes,
    Rules,
    Site,
    fraction_of,
    mixed,
)
from hil.drive.fast.limits_kernel import REACH, ZONES
from hil.maps.cell_kernels import floored
from hil.sensors.direct_scan_kernels import FAN, empty_length, sector_length
from onboard.perception.collision import UNIT, contact_mps, point_travel_m, ring_mps, stoppable_mps
from onboard.perception.kernels import EDGES
from onboard.values.geometry import TURN_RAD
from onboard.values.kernel import kernel
from onboard.values.messages import BINS

FANS = BINS // FAN
REAR_SLACK_M = 0.1
"""The space behind is searched this much farther than a try needs."""


@kernel
def sector_m(
    bin: int, x: float, y: float, c: float, s: float, empty: float, radius: float, cell_m: float, site: Site
) -> float:
    """Return the range of one bin [m], inf beyond `radius`. x, y, empty, radius in cells; c, s: of the heading."""
    ax, ay = c * EDGES[bin, 0] - s * EDGES[bin, 1], s * EDGES[bin, 0] + c * EDGES[bin, 1]
    bx, by = c * EDGES[bin + 1, 0] - s * EDGES[bin + 1, 1], s * EDGES[bin + 1, 0] + c * EDGES[bin + 1, 1]
    if abs(ax + bx) >= abs(ay + by):
        return cell_m * sector_length(x, y, ax, ay, bx, by, empty, radius, site.by_column, site.gap.T)
    return cell_m * sector_length(y, x, ay, ax, by, bx, empty, radius, site.by_row, site.gap)


@kernel
def fan_cells(first: int, x: float, y: float, c: float, s: float, radius: float, site: Site) -> float:
    """Return a distance up to which the `FAN` bins from `first` are empty [cells]."""
    ax, ay = c * EDGES[first, 0] - s * EDGES[first, 1], s * EDGES[first, 0] + c * EDGES[first, 1]
    last = first + FAN
    bx, by = c * EDGES[last, 0] - s * EDGES[last, 1], s * EDGES[last, 0] + c * EDGES[last, 1]
    if abs(ax + bx) >= abs(ay + by):
        return empty_length(x, y, ax, ay, bx, by, radius, site.gap.T)
    return empty_length(y, x, ay, ax, by, bx, radius, site.gap)


@kernel
def seen_value(bin: int, lane: int, lanes: Lanes, rules: Rules, site: Site) -> float:
    """Return a value of the policy's scan: the range over `far_m`, 1 where nothing was seen, 0 where nothing looks."""
    if not site.seen[bin]:
        return 0.0
    s, m = lanes.states[lane], lanes.more[lane]
    x, y, cell_m = s.seen_x_m / rules.cell_m, s.seen_y_m / rules.cell_m, rules.cell_m
    c, n = math.cos(s.seen_yaw), math.sin(s.seen_yaw)
    far_m = sector_m(bin, x, y, c, n, 0.0, rules.far_m / cell_m, cell_m, site)
    first = mixed(lanes.random[lane] + np.uint64(bin + 1) * MIX_A)
    if not far_m <= rules.far_m or fraction_of(first) < m.holes:
        return 1.0
    second, third = mixed(first + GOLDEN), mixed(first + GOLDEN + GOLDEN)
    error = math.sqrt(-2.0 * math.log(1.0 - fraction_of(second))) * math.cos(TURN_RAD * fraction_of(third))
    noisy_m: float = far_m * (1.0 + m.noise * error)
    return min(max(noisy_m, 0.0), rules.far_m) / rules.far_m


@kernel
def is_clear(s: Any, reach_m: float, rules: Rules, site: Site) -> bool:
    """Return whether nothing solid is within `reach_m` of the newest scan's place."""
    column, row = floored(s.seen_x_m / rules.cell_m), floored(s.seen_y_m / rules.cell_m)
    return (int(site.gap[row, column]) - 1) * rules.cell_m > reach_m


@kernel
def allowed_mps(s: Any, first: int, row: int, steps: int, rules: Rules, site: Site) -> float:
    """Return the highest speed that a fan's obstacles allow along the command of a row of `ways`; inf without one."""
    ways = site.ways[steps, row]
    reach_m, cell_m = ways[REACH], rules.cell_m
    x, y, c, n = s.seen_x_m / cell_m, s.seen_y_m / cell_m, math.cos(s.seen_yaw), math.sin(s.seen_yaw)
    empty = fan_cells(first, x, y, c, n, reach_m / cell_m, site)
    if empty * cell_m > reach_m:
        return math.inf
    v, w = ways[0], ways[1]
    stop_m = contact_m = slow_mps = math.inf
    for i in range(first, first + FAN):
        if not site.seen[i]:
            continue
        far_m = sector_m(i, x, y, c, n, empty, reach_m / cell_m, cell_m, site)
        if far_m <= reach_m:
            ahead, aside = UNIT[i, 0] * far_m, UNIT[i, 1] * far_m
            # A point whose straight way is longer than a zone's way cannot bind.
            if far_m - ways[ZONES] <= ways[ZONES + 1]:
                stop_m = min(stop_m, point_travel_m(ahead, aside, v, w, ways[ZONES]))
            if ways[ZONES + 2] > 0.0 and far_m - ways[ZONES + 2] <= ways[ZONES + 3]:
                for ring in range(site.ring_m.shape[1]):
                    radius_m = site.ring_m[steps, ring]
                    if radius_m > 0.0:
                        way_m = point_travel_m(ahead, aside, v, w, radius_m)
                        slow_mps = min(slow_mps, ring_mps(way_m, ways[ZONES + 3], site.ring_mps[steps, ring]))
            if far_m - ways[ZONES + 4] <= ways[ZONES + 5]:
                contact_m = min(contact_m, point_travel_m(ahead, aside, v, w, ways[ZONES + 4]))
    allowed_mps = min(stoppable_mps(stop_m, rules.braking_mps2, rules.reaction_s), slow_mps)
    return min(allowed_mps, contact_mps(contact_m, rules.contact_s))


@kernel
def rear_free_m(s: Any, first: int, rules: Rules, site: Site) -> float:
    """Return how far a fan's obstacles let the robot go straight back [m]; inf beyond what a whole try needs."""
    radius_m, cell_m = rules.clearance_m + rules.way_m + REAR_SLACK_M + rules.swept_m, rules.cell_m
    x, y, c, n = s.seen_x_m / cell_m, s.seen_y_m / cell_m, math.cos(s.seen_yaw), math.sin(s.seen_yaw)
    free_m = math.inf
    for i in range(first, first + FAN):
        if site.seen[i] and UNIT[i, 0] < 0.0:
            far_m = sector_m(i, x, y, c, n, 0.0, radius_m / cell_m, cell_m, site)
            if far_m <= radius_m:
                free_m = min(free_m, point_travel_m(UNIT[i, 0] * far_m, UNIT[i, 1] * far_m, -1.0, 0.0, rules.swept_m))
    return free_m


@kernel
def near(lane: int, fan: int, lanes: Lanes, rules: Rules, site: Site) -> tuple[float, float, float]:
    """Return what a fan's obstacles allow, as in `Lanes.near`; inf where the lane does not ask."""
    s, m = lanes.states[lane], lanes.more[lane]
    speed_mps = free_m = back_mps = math.inf
    asks = int(m.asks)
    if asks & LIMITS:
        speed_mps = allowed_mps(s, fan * FAN, int(m.asked), int(m.steps), rules, site)
    if asks & REAR:
        free_m = rear_free_m(s, fan * FAN, rules, site)
        back_mps = allowed_mps(s, fan * FAN, BACK, int(m.steps), rules, site)
    return speed_mps, free_m, back_mps
