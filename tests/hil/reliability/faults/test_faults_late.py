"""What the rows of the fault table for late words and late scans find, when the rule that they are of is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hil.reliability.faults import expectations
from hil.reliability.faults.expectations import Run
from hil.reliability.faults.observed_tick import off_the_wire
from hil.reliability.faults.run.live import BACKWARD
from onboard.config.config import Config
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Teleop, Twist

TICK_NS = NS_PER_S // 30


def run(teleops: Sequence[Teleop | None] = (), states: Sequence[str] = ()) -> Run:
    """Return a run that is under its fault all the time, with a tick for each command or state."""
    teleops, states = teleops or [None] * len(states), states or ["navigating"] * len(teleops)
    ticks = []
    for number, (teleop, state) in enumerate(zip(teleops, states, strict=True)):
        tick = off_the_wire(number, number * TICK_NS, STOP, state)
        ticks.append(replace(tick, inputs=replace(tick.inputs, teleop=teleop)))
    return Run(ticks, 0, len(ticks) * TICK_NS)


def given(twist: Twist, late_s: float = 0.0) -> list[Teleop | None]:
    """Return what counts as an operator's command in the ticks of four seconds."""
    return [Teleop(number * TICK_NS - round(late_s * NS_PER_S), twist) for number in range(120)]


#   what                            commands               is said
OPERATORS = [
    ("a stop",                      given(STOP),           ""),
    ("obeyed, as if on time",       given(BACKWARD),       "a late command of an operator is obeyed in 120 "),
    ("obeyed, not late enough",     given(BACKWARD, 0.4),  "a late command of an operator is obeyed in 120 "),
    ("left out",                    given(BACKWARD, 1.0),  "no late command of an operator holds the robot"),
    ("none",                        [None] * 120,          "no late command of an operator holds the robot"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "teleops", "expected"), OPERATORS, ids=[row[0] for row in OPERATORS])
def test_an_operator_who_is_late_must_hold(what: str, teleops: list[Teleop | None], expected: str) -> None:
    found = expectations.late_operator_holds(run(teleops), Config())
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def test_a_late_goal_must_be_refused() -> None:
    refused = "navigating: goal refused: the goal is 5.5 s late (limit 5 s), or its sender's clock was set back"
    assert expectations.goal_refused(run(states=["navigating", refused, "navigating"]), Config()) == ""
    assert expectations.goal_refused(run(states=["navigating"] * 3), Config()) == "no goal was refused for its age"
