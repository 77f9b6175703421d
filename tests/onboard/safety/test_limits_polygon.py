"""R25, R26: a polygon's turn in place, and what a polygon may do that its circle may not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from onboard.config.config import LimitsSection
from onboard.config.footprint import Footprint, polygon
from onboard.perception.collision import braking_m, obstacles, stoppable_mps, turn_rad
from onboard.safety.keepout_zones import Zone
from onboard.safety.limits import MEMORY_M, LimitsState, Reason, bounds_of, limit
from onboard.values.messages import BINS, Scan, Teleop, Twist
from tests.onboard.safety.limits_bench import FREE, NOW_NS, PLANT

LONG = polygon(((0.6, 0.25), (-0.6, 0.25), (-0.6, -0.25), (0.6, -0.25)))
BOUNDS = bounds_of(LimitsSection(), PLANT, LONG, 200.0)
CIRCLE = bounds_of(LimitsSection(), PLANT, Footprint(LONG.reach_m), 200.0)
BRAKE = BOUNDS.braking_radps2, BOUNDS.reaction_s
TURN = Twist(0.0, 2.0)


def scan_of(*points: tuple[float, float], blind: bool = False) -> Scan:
    ranges = np.full(BINS, inf, np.float32)
    for x, y in points:
        ranges[int((np.degrees(np.arctan2(y, x)) + 180.0) // 2.0) % BINS] = np.hypot(x, y)
    seen = np.ones(BINS, np.bool_)
    seen[40:50] = not blind
    return Scan(NOW_NS, ranges, seen)


def got(wanted: Twist, bounds=BOUNDS, **changes):
    return limit(LimitsState(), wanted, replace(FREE, policy_scan=None, **changes), bounds)[1]


def test_r25_in_free_space_it_turns_as_wanted() -> None:
    assert (got(TURN, scan=scan_of()).twist, got(TURN, scan=scan_of()).reason) == (TURN, Reason.NONE)


def test_r25_it_turns_so_slowly_that_it_stops_before_its_corner_meets_something() -> None:
    scan = scan_of((0.0, 0.5))
    angle = turn_rad(obstacles(scan), 1.0, BOUNDS.swept)
    turned = got(TURN, scan=scan)
    assert 0.0 < turned.twist.w_radps <= stoppable_mps(angle, *BRAKE) + 1e-9
    assert braking_m(turned.twist.w_radps, *BRAKE) <= angle + 1e-9
    assert turned.twist.v_mps == 0.0


#   name            changes                                               reason
STOPS = [
    ("seen",        {"scan": scan_of((0.4, 0.29))},                        Reason.ZONE_STOP),
    ("remembered",  {"scan": scan_of(), "out_of_view": np.array([(0.4, 0.29)])}, Reason.REMEMBERED),
    ("keep-out",    {"scan": scan_of(), "zone": Zone(True, np.array([(0.4, 0.29)]))}, Reason.KEEP_OUT),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), [row[1:] for row in STOPS], ids=[row[0] for row in STOPS])
def test_r25_it_does_not_turn_its_side_towards_something_within_the_margin(changes, reason) -> None:
    assert (got(TURN, **changes).twist.w_radps, got(TURN, **changes).reason) == (0.0, reason)
    assert got(Twist(0.0, -2.0), **changes).twist.w_radps < 0.0, "away from it, it may"
    assert got(TURN, CIRCLE, **changes).twist == TURN, "a circle sweeps nothing (R13)"


def test_r26_beside_a_blind_sector_its_corners_move_as_slowly_as_in_the_slow_zone_ahead() -> None:
    turned = got(TURN, scan=scan_of(blind=True))
    assert (turned.twist.w_radps, turned.reason) == (pytest.approx(0.3 / 0.65), Reason.BLIND_FLANK)
    assert got(TURN, scan=scan_of()).twist == TURN


def test_r26_in_a_turn_a_remembered_obstacle_has_the_margin_of_drifting_wheels() -> None:
    """A door post beside the corner's path: the robot has seen it, drove on, and the wheels drifted since."""
    post = np.array([(0.3, 0.72)])
    for way in (1.0, -1.0):
        clear_rad = turn_rad(post * [1.0, way], way, BOUNDS.swept)
        assert clear_rad == inf, "as a visible obstacle it would be clear of the turn"
        stopped = got(Twist(0.0, 2.0 * way), scan=scan_of(blind=True), out_of_view=post * [1.0, way])
        angle = turn_rad(post * [1.0, way], way, LONG.grown(0.05 + MEMORY_M))
        assert braking_m(abs(stopped.twist.w_radps), *BRAKE) <= angle + 1e-9 < inf
    assert got(TURN, CIRCLE, scan=scan_of(blind=True), out_of_view=post).twist == TURN


def test_r26_an_operator_turns_no_faster() -> None:
    operator = Teleop(NOW_NS, TURN)
    turned = got(Twist(0.0, 0.0), scan=scan_of(blind=True), teleop=operator)
    assert turned.twist.w_radps == pytest.approx(0.3 / 0.65)


def test_r25_the_turn_that_is_left_of_an_arc_is_judged_too() -> None:
    """R23 leaves the turn of a command; something beside the robot stops that turn."""
    turned = got(Twist(0.5, 1.0), scan=scan_of((0.4, 0.29)), obstacle=True)
    assert turned.twist == Twist(0.0, 0.0)


def test_r25_between_two_walls_it_drives_straight_where_its_circle_cannot() -> None:
    walls = scan_of(*((x, side) for x in (0.0, 0.2, 0.5, 0.8, 1.2) for side in (0.35, -0.35)))
    assert got(Twist(0.25, 0.0), scan=walls).twist == Twist(0.25, 0.0)
    assert got(Twist(0.25, 0.0), CIRCLE, scan=walls).twist.v_mps == 0.0
