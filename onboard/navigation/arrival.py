"""Arrival: the robot stops at a goal only if the filter's covariance says that the goal is reached. Pure.

A policy stops by the filter's pose. Between two fixes this pose drifts, so such a stop may be away from the goal.

A1   a stop of the policy within `goal.tolerance_m` of the goal, by the filter's pose, is an arrival; other stops pass
A2   the confidence of an arrival is the probability that the base is within `goal.tolerance_m` of the goal, by the
     filter's pose and covariance of x and y; it passes with at least `goal.arrival_confidence`
A3   without a covariance it passes: before the first fix, and while the start frame has no place in the map
A4   while fixes contradict the filter (`ekf.localised`), the confidence is 0
A5   an arrival that does not pass is held: the robot turns by TURN on the spot in place of the stop, until the policy's
     next decision. Some localisations send no fix at rest
A6   WAIT_S after the first held arrival of a goal, its arrivals pass, and an event states the confidence
off  with `goal.arrival_confidence` 0 all stops pass

The limits have the last word on the turn, as on any command.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from onboard.config.config import GoalSection
from onboard.navigation.ekf import LocalizationState, localised
from onboard.navigation.kalman import axes
from onboard.navigation.start_frame import Start
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import TURN_RAD, apply, inverse
from onboard.values.kernel import compilable
from onboard.values.messages import Twist

TURN = Twist(0.0, 1.0)
"""An action of the paper's, so that it can be the policy's previous action."""
WAIT_S = 10.0
"""Two fixes of the paper's slowest rate come in this time. It is below `recovery.HELD_S`."""


# ---- The rules' arithmetic, for the runtime and for simulation at speed

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
SD_RANGE = 8.0
LEAST_SD = 0.01
"""The bounds of the integral in standard deviations, and the least deviation in radii: a smaller one would need more
nodes, and changes nothing that matters within 2 mm of the default tolerance."""


@compilable
def confidence(x_m: float, y_m: float, xx: float, xy: float, yy: float, tolerance_m: float) -> float:
    """Return the confidence of a stop (A2); inf if it is no arrival (A1).

    x_m, y_m: from the base to the goal in the map frame; xx, xy, yy: the filter's covariance of x and y
    """
    return within(x_m, y_m, xx, xy, yy, tolerance_m) if math.hypot(x_m, y_m) <= tolerance_m else math.inf


@compilable
def is_held(since: float, now: float, wait: float) -> bool:
    """Return whether an arrival that does not pass is held (A5, A6). since: of the first one; any unit of time"""
    return now - since < wait


@compilable
def within(x_m: float, y_m: float, xx: float, xy: float, yy: float, radius_m: float) -> float:
    """Return the probability that a normal position lies in a circle, to 0.01; for equal deviations to 1e-3.

    Deviations below LEAST_SD radii count as that.

    x_m, y_m:   from the mean position to the centre of the circle
    xx, xy, yy: covariance of the position

    The integral runs along the direction of the larger deviation, by the sine of an angle, and across it in closed
    form.
    """
    large, small, angle = axes(xx, xy, yy)
    c, s = math.cos(angle), math.sin(angle)
    along_m, across_m = c * x_m + s * y_m, c * y_m - s * x_m
    sd_m, narrow_m = max(math.sqrt(large), LEAST_SD * radius_m), max(math.sqrt(small), LEAST_SD * radius_m)
    begin = math.asin(max(-1.0, min(1.0, (-SD_RANGE * sd_m - along_m) / radius_m)))
    end = math.asin(max(-1.0, min(1.0, (SD_RANGE * sd_m - along_m) / radius_m)))
    total = 0.0
    for i in range(len(NODES)):
        t = 0.5 * (begin + end) + 0.5 * (end - begin) * NODES[i]
        half_m = radius_m * math.cos(t)
        off = (along_m + radius_m * math.sin(t)) / sd_m
        density = math.exp(-0.5 * off * off) / (sd_m * math.sqrt(TURN_RAD))
        across = _below((across_m + half_m) / narrow_m) - _below((across_m - half_m) / narrow_m)
        total += WEIGHTS[i] * density * half_m * across
    return min(1.0, 0.5 * (end - begin) * total)


@compilable
def _below(value: float) -> float:
    """Return the standard normal distribution at a value."""
    return 0.5 * (1.0 + math.erf(value / math.sqrt(2.0)))


# ---- The arrivals of the runtime


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrivals of one goal.

    since_ns:   time of the first held arrival, monotonic; None before
    held:       whether the newest stop is held
    confidence: of the newest arrival; None before, and without a covariance
    overdue:    whether the newest arrival passed by A6
    """

    since_ns: int | None = None
    held: bool = False
    confidence: float | None = None
    overdue: bool = False


NO_ARRIVAL = Arrival()


def judge(
    arrival: Arrival,
    goal_xy_m: tuple[float, float],
    start: Start,
    localization: LocalizationState,
    section: GoalSection,
    now_ns: int,
) -> Arrival:
    """Return the arrival after a stop of the policy took effect.

    goal_xy_m: in the start frame
    """
    if section.arrival_confidence <= 0.0:
        return arrival
    found = confidence_of(goal_xy_m, start, localization, section.tolerance_m)
    if found is None or found >= section.arrival_confidence:
        return replace(arrival, held=False, confidence=found)
    since_ns = now_ns if arrival.since_ns is None else arrival.since_ns
    held = is_held(since_ns, now_ns, WAIT_S * NS_PER_S)
    return Arrival(since_ns, held, found, not held)


def confidence_of(
    goal_xy_m: tuple[float, float], start: Start, localization: LocalizationState, tolerance_m: float
) -> float | None:
    """Return the confidence of a stop (A2 to A4); None if it is no arrival (A1) or has no covariance (A3)."""
    place, covariance = localization.map_from_base, localization.covariance
    if start.start_from_map is None or place is None or covariance is None:
        return None
    x, y = apply(inverse(start.start_from_map), goal_xy_m)
    spread = float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])
    found = confidence(x - place.x_m, y - place.y_m, *spread, tolerance_m)
    if math.isinf(found):
        return None
    return float(found) if localised(localization) else 0.0
