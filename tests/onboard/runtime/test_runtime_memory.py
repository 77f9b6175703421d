"""The policy's memory in the runtime: passed from decision to decision, and reset only when specified."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onboard.policy.contract import NO_ACTION
from onboard.values.messages import STOP, Twist
from tests.rigs.runtime_bench import FORWARD, LEFT, SLOW, Bench, Puppet, commands, resets, sensed_slots, wanting


def test_the_memory_of_a_decision_goes_into_the_next_and_its_action_with_it() -> None:
    policy = Puppet(wanting(FORWARD, LEFT, SLOW))
    Bench(policy).driving().seconds(1.0)
    assert policy.remembered == [0, 1, 2, 3, 4]
    assert [seen.previous_action for seen in policy.seen] == [NO_ACTION, FORWARD, LEFT, SLOW, SLOW]


def test_every_ten_seconds_it_is_reset_and_the_previous_action_stays() -> None:
    policy = Puppet(SLOW, reset_s=10.0)
    bench = Bench(policy)
    bench.ask()
    assert resets(bench.seconds(25.0)) == [(0, "sequence_start"), (300, "period"), (600, "period")]
    assert policy.remembered[:62] == [*range(30), *range(30), 0, 1]
    assert [number for number, seen in enumerate(policy.seen) if seen.previous_action == NO_ACTION] == [0]


def test_the_reset_keeps_its_ten_seconds_when_ticks_come_late() -> None:
    bench = Bench(Puppet(SLOW, reset_s=10.0))
    bench.ask()
    bench.clock.advance(4_000_000)  # the first tick is late, the others are not
    assert [slot for slot, _ in resets(bench.seconds(25.0))] == [0, 300, 600]


def blink(bench: Bench) -> None:
    """Lose all cameras until just after the scan is stale."""
    images, bench.images = bench.images, {}
    bench.seconds(0.5)
    bench.images = images


def lose(bench: Bench) -> None:
    images, bench.images = bench.images, {}
    bench.seconds(1.5)
    bench.images = images


def override(bench: Bench) -> None:
    bench.operate(Twist(0.1, 0.0))


def notice(bench: Bench) -> None:
    bench.obstacle, bench.stuck = True, True
    bench.seconds(5.5)
    bench.stuck = False
    bench.seconds(1.6)
    bench.obstacle = False


#   what                          what happens                        resets, is the previous action forgotten
MOMENTS: list[tuple[str, Callable[[Bench], object], list[str], bool]] = [
    ("nothing", lambda bench: None, [], False),
    ("a new goal", Bench.ask, ["sequence_start"], True),
    ("a goal refused", lambda bench: bench.ask(frame="mars"), [], False),
    ("an override", override, ["sequence_start"], True),
    ("a recovery", notice, ["sequence_start"], True),
    ("inputs lost for a moment", blink, [], False),
    ("inputs lost for long", lose, ["decision_gap"], True),
    ("a block of the loop", lambda bench: bench.skip(9), [], False),
    ("a block of two decisions", lambda bench: bench.skip(26), ["decision_gap"], True),
]


@pytest.mark.parametrize(("what", "happens", "expected", "forgotten"), MOMENTS, ids=[row[0] for row in MOMENTS])
def test_moments_of_reset(what: str, happens: Callable[[Bench], object], expected: list[str], forgotten: bool) -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy).driving()
    happens(bench)
    before = len(policy.seen)
    ticks = bench.seconds(2.0)
    assert [why for _, why in resets(ticks)] == expected
    assert (NO_ACTION in [seen.previous_action for seen in policy.seen[before:]]) == forgotten


def test_a_first_decision_that_is_missed_is_no_second_beginning() -> None:
    bench = Bench(takes_ms={1: 110})
    bench.ask()
    assert resets(bench.seconds(1.0)) == [(0, "sequence_start")]


def test_a_moment_without_inputs_stands_and_goes_on_at_the_next_decision() -> None:
    bench = Bench().driving()
    blink(bench)
    ticks = bench.seconds(1.0)
    first = sensed_slots(ticks)[0]
    moving = [tick.slot.number for tick in ticks if tick.command != STOP]
    assert moving[0] == first + 3
    assert commands(ticks)[0] == STOP
