"""R27 of `onboard/safety/limits.py`: missed ticks slow the robot down, in proportion to the time between two ticks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onboard.safety.limits import (
    OVERLOADED,
    WINDOW,
    Bounds,
    LimitedCommand,
    LimitsState,
    Reason,
    Situation,
    limit,
    overload,
)
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Twist
from tests.onboard.safety.limits_bench import AHEAD, BOUNDS, FREE, NOW_NS, TICK_NS, bounds_with, operator, scan_of

RUN = 2 * WINDOW
"""Slots of a run: twice the window."""


def after(
    every: int, wanted: Twist = AHEAD, slots: int = RUN, bounds: Bounds = BOUNDS, situation: Situation = FREE
) -> tuple[LimitsState, LimitedCommand]:
    """Return state and result after slots of which each `every`th runs; obstacles stay where `situation` has them."""
    state, result = LimitsState(), None
    for slot in range(0, slots, every):
        now_ns = NOW_NS + slot * TICK_NS
        scan = replace(situation.scan, stamp_ns=now_ns) if situation.scan else None
        teleop = replace(situation.teleop, arrival_ns=now_ns) if situation.teleop else None
        at = replace(
            situation, now_ns=now_ns, odometry_arrival_ns=now_ns, scan=scan, teleop=teleop, slot=slot, missed=every - 1
        )
        state, result = limit(state, wanted, at, bounds)
    assert result is not None
    return state, result


#   each n-th tick runs, share of the speed
SHARES = [(2, 1 / 2), (3, 1 / 3), (10, 1 / 10)]


@pytest.mark.parametrize(("every", "share"), SHARES)
@pytest.mark.parametrize("wanted", [AHEAD, Twist(0.5, 0.3), Twist(-0.2, 0.1)])
@pytest.mark.parametrize("who", ["policy", "operator"])
def test_r27_the_speed_falls_as_the_ticks_become_rare(every: int, share: float, wanted: Twist, who: str) -> None:
    drives = replace(FREE, teleop=operator(wanted)) if who == "operator" else FREE
    state, result = after(every, wanted, situation=drives)
    assert state.missed == WINDOW - WINDOW // every
    assert (result.twist.v_mps, result.twist.w_radps) == pytest.approx((wanted.v_mps * share, wanted.w_radps * share))
    assert result.reason is Reason.OVERLOAD


def test_r27_few_missed_ticks_leave_the_speed() -> None:
    def at(missed: int) -> Twist:
        return limit(LimitsState(), AHEAD, replace(FREE, slot=WINDOW, missed=missed), BOUNDS)[1].twist

    assert at(OVERLOADED - 1) == AHEAD
    assert at(OVERLOADED).v_mps == pytest.approx(1.0 - OVERLOADED / WINDOW)


def test_r27_a_ramp_does_not_add_to_it() -> None:
    _, result = after(2, slots=600, bounds=bounds_with(acceleration_mps2=0.5))
    assert result.twist.v_mps == pytest.approx(0.5)


def test_r27_without_a_missed_tick_the_command_is_the_wanted_one() -> None:
    state, result = after(1)
    assert (state.pauses, result.twist, result.reason) == ((), AHEAD, Reason.NONE)


def test_r27_before_an_obstacle_the_longest_pause_counts_as_latency() -> None:
    wall = replace(FREE, scan=scan_of((0.9, 0.0)))
    _, usual = after(1, situation=wall)
    pause = round(0.4 * NS_PER_S) // TICK_NS
    state, paused = after(pause, situation=wall)
    longer = replace(BOUNDS, reaction_s=BOUNDS.reaction_s + (pause - 1) * TICK_NS / NS_PER_S)
    _, slow_base = after(1, situation=wall, bounds=longer)
    assert paused.twist.v_mps < usual.twist.v_mps
    assert paused.twist.v_mps <= slow_base.twist.v_mps
    assert max(one.extra_s for one in state.pauses) == pytest.approx((pause - 1) * TICK_NS / NS_PER_S)


def test_r27_it_ends_when_the_window_has_no_missed_tick() -> None:
    state, _ = after(2)
    for slot in range(RUN - 1, RUN + WINDOW - 2):
        now_ns = NOW_NS + slot * TICK_NS
        at = replace(FREE, now_ns=now_ns, odometry_arrival_ns=now_ns, scan=scan_of(stamp_ns=now_ns), slot=slot)
        assert state.pauses
        state, result = limit(state, AHEAD, at, BOUNDS)
    assert (state.pauses, result.twist) == ((), AHEAD)


def test_r27_after_a_pause_longer_than_the_window_the_speed_rises_with_the_ticks() -> None:
    state, result = after(3 * WINDOW, slots=3 * WINDOW + 1)
    speeds_mps = [result.twist.v_mps]
    for slot in range(3 * WINDOW + 1, 4 * WINDOW + 1):
        now_ns = NOW_NS + slot * TICK_NS
        at = replace(FREE, now_ns=now_ns, odometry_arrival_ns=now_ns, scan=scan_of(stamp_ns=now_ns), slot=slot)
        state, result = limit(state, AHEAD, at, BOUNDS)
        speeds_mps.append(result.twist.v_mps)
    ran = [*range(1, WINDOW - OVERLOADED + 1), *(OVERLOADED + 1) * [WINDOW]]
    assert speeds_mps == pytest.approx([number / WINDOW for number in ran])


def test_r27_the_operator_reads_how_many_were_missed() -> None:
    assert overload(OVERLOADED - 1) == ""
    assert overload(30) == (
        "30 of the last 90 ticks were missed, so the robot drives at 67 % of its speed: this machine is overloaded"
    )
