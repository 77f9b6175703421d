"""Recovery in the runtime: its start, its command, the next decision, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.state import TickRecord
from onboard.values.messages import STOP, Twist
from tests.rigs.runtime_bench import FORWARD, NEAR_MM, SLOW, Bench, Puppet, commands

AHEAD = ACTIONS[FORWARD]
BACK = Twist(-0.2, 0.0)


def backing(ticks: list[TickRecord]) -> list[int]:
    """Return the slots in which the recovery backed off."""
    return [tick.slot.number for tick in ticks if tick.recovery]


@pytest.mark.parametrize("obstacle", [True, None], ids=["notice of an obstacle", "a command that moves nothing"])
def test_blocked_for_five_seconds_it_backs_off_for_two_and_the_policy_begins_anew(obstacle: bool | None) -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy).driving()
    bench.stuck, bench.obstacle = True, obstacle
    ticks = bench.seconds(5.2)
    assert len(backing(ticks)) > 0
    bench.stuck, bench.obstacle = False, None
    ticks += bench.seconds(3.5)
    slots = backing(ticks)
    stopped = ticks[0].slot.number
    assert slots[0] - stopped == pytest.approx(5 * 30, abs=2)
    assert slots == list(range(slots[0], slots[-1] + 1))
    assert len(slots) == pytest.approx(2 * 30, abs=1)
    inside = [tick for tick in ticks if tick.recovery]
    assert {(tick.command, tick.reason, tick.state) for tick in inside} == {(BACK, "none", "recovering")}
    after = [tick for tick in ticks if tick.slot.number > slots[-1]]
    begun = next(tick for tick in after if tick.sensed)
    assert begun.sensed.memory_reset == "sequence_start"
    assert begun.sensed.observation.previous_action == NO_ACTION
    assert set(commands([tick for tick in after if tick.slot.number < begun.slot.number + 3])) == {STOP}
    assert (after[-1].command, after[-1].state) == (AHEAD, "navigating")
    assert bench.runtime.counters.recoveries == 1


def test_nothing_is_decided_while_it_backs_off() -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy).driving()
    bench.stuck = True
    while not bench.tick().recovery:
        pass
    before = len(policy.seen)
    assert [tick.sensed for tick in bench.seconds(1.5)] == [None] * 45
    assert len(policy.seen) == before


def test_three_tries_then_it_stops_with_the_reason() -> None:
    bench = Bench().driving()
    bench.stuck = True
    ticks = bench.seconds(40.0)
    begins = [n for n, tick in enumerate(ticks) if "recovery what=began" in tick.events]
    assert len(begins) == 3
    assert ticks[-1].state == "stopped: blocked: 3 recoveries in 60 s failed"
    gave_up = next(n for n, tick in enumerate(ticks) if tick.state.startswith("stopped"))
    assert set(commands(ticks[gave_up:])) == {STOP}
    bench.stuck = False
    assert bench.driving().tick().command == AHEAD, "a new goal drives again"


#   what                  what happens while it backs off
ENDS = [
    ("e-stop", lambda bench: setattr(bench, "e_stop", True), "stopped: e_stop"),
    ("cancel", Bench.cancel, "idle: cancelled"),
    ("operator", lambda bench: bench.operate(STOP), "navigating"),
    ("new goal", lambda bench: bench.ask(1.0, 3.0), "navigating"),
]


@pytest.mark.parametrize(("what", "happens", "state"), ENDS, ids=[row[0] for row in ENDS])
def test_what_ends_it_at_once(what: str, happens: object, state: str) -> None:
    bench = Bench().driving()
    bench.stuck = True
    while not bench.tick().recovery:
        pass
    assert callable(happens)
    happens(bench)
    tick = bench.tick()
    assert (tick.command, tick.state, tick.recovery) == (STOP, state, "")


#   what is asked for, again and again                   every [s]
ASKED_AGAIN = [
    ("the same place in odom",      lambda n: (30.0, 0.0, "odom"),                9.0),
    ("two places in turn",          lambda n: (30.0, 2.0 * (n % 2), "odom"),      9.0),
    ("so far from where it stands", lambda n: (30.0, 0.0, "base_link"),           9.0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "goal_of", "every_s"), ASKED_AGAIN)
def test_r14_goals_that_follow_each_other_leave_the_tries_bounded(
    what: str, goal_of: Callable[[int], tuple[float, float, str]], every_s: float
) -> None:
    """An obstacle stays right ahead, wherever the robot backs off to."""
    bench = Bench().driving(x_m=30.0)
    bench.wall("front", NEAR_MM)
    ticks = []
    for number in range(round(55.0 / every_s)):
        bench.ask(*goal_of(number))
        ticks += bench.seconds(every_s)
    tries = [tick for tick in ticks if "recovery what=began" in tick.events]
    assert len(tries) == 3, "within the window of a minute"
    assert any("recovery what=gave_up" in tick.events for tick in ticks)


def test_the_same_goal_again_changes_nothing_of_the_drive() -> None:
    once, again = Bench(Puppet(SLOW)).driving(x_m=5.0), Bench(Puppet(SLOW)).driving(x_m=5.0)
    for number in range(20):
        if number % 3 == 0:
            again.ask(5.0, 0.04, "odom")
        one, other = once.tick(7), again.tick(7)
        assert (one.command, one.wanted, one.reason) == (other.command, other.wanted, other.reason)
        same = replace(other.after.mission, asked_ns=one.after.mission.asked_ns)  # but for the stamp of its request
        assert (one.after.mission, one.after.start) == (same, other.after.start)
        assert (one.after.pilot.decisions, one.after.recovery) == (other.after.pilot.decisions, other.after.recovery)
    assert other.episode == 1


def test_a_goal_that_is_put_right_by_a_little_is_a_new_one() -> None:
    bench = Bench(Puppet(SLOW)).driving(x_m=5.0)
    at_m = bench.pose.x_m
    bench.ask(5.06, 0.0, "odom")
    tick = bench.tick()
    assert (tick.state, tick.episode) == ("navigating", 2)
    assert tick.after.mission.goal_xy_m == pytest.approx((5.06 - at_m, 0.0), abs=0.02), "in its new start frame"


def test_the_same_goal_again_after_the_end_is_a_new_one() -> None:
    bench = Bench().driving(x_m=5.0)
    bench.cancel()
    bench.tick()
    bench.ask(5.0, 0.0, "odom")
    tick = bench.tick()
    assert (tick.state, tick.episode) == ("navigating", 2)


def test_r10_a_lost_engine_stands_and_does_not_back_off() -> None:
    """The robot is blocked, and the recovery is due just when the decisions stop."""
    takes_ms: dict[int, float] = {}
    bench = Bench(Puppet(FORWARD), takes_ms=takes_ms).driving(x_m=30.0)
    bench.stuck = bench.obstacle = True
    bench.seconds(4.0)
    decided = bench.runtime.state.pilot.decisions
    takes_ms.update(dict.fromkeys(range(decided + 1, decided + 100), 1000000.0))
    ticks = bench.seconds(4.5)
    lost = next(n for n, tick in enumerate(ticks) if tick.reason == "engine_lost")
    assert lost < 2 * 30
    assert backing(ticks) == []
    assert {(tick.command, tick.reason) for tick in ticks[lost:] if tick.state == "navigating"} == {
        (STOP, "engine_lost")
    }
