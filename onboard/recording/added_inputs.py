"""Inputs of a tick that `TickMessage` has no field for, as text before the tick. So the format stays, and recordings
from before replay. A tick without such inputs has no text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from cattrs import Converter
from cattrs.errors import BaseValidationError

from onboard.values.errors import InputError
from onboard.values.messages import GoalRequest, Inputs, Pose

ADDED_TOPIC = "/onboard/added_inputs"
"""A std_msgs/String before the tick that had these inputs."""


@dataclass(frozen=True, slots=True)
class AddedGoal:
    """What a goal has beyond `GoalInput`, as in `GoalRequest`."""

    heading: bool = False
    through: tuple[tuple[str, Pose], ...] = ()


@dataclass(frozen=True, slots=True)
class AddedInputs:
    """The inputs of a tick by the names of `Inputs`. goals: one of each goal, in their order; empty if all are plain"""

    pause: bool | None = None
    battery: float | None = None
    goals: tuple[AddedGoal, ...] = ()


NOTHING = AddedInputs()


def added_to(inputs: Inputs) -> AddedInputs:
    """Return what a tick's message leaves out."""
    goals = tuple(AddedGoal(goal.heading, goal.through) for goal in inputs.goals)
    return AddedInputs(inputs.pause, inputs.battery, goals if any(goal != AddedGoal() for goal in goals) else ())


def encode(added: AddedInputs) -> str:
    """Return the inputs as text, bit-exact."""
    return json.dumps(_CONVERTER.unstructure(added), separators=(",", ":"))


def decode(text: str) -> AddedInputs:
    """Return the inputs of a text. Raises InputError for another text."""
    try:
        return _CONVERTER.structure(json.loads(text), AddedInputs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BaseValidationError) as error:
        raise InputError(f"not the inputs of a tick: {str(error).splitlines()[0]}") from error


def completed(goals: tuple[GoalRequest, ...], added: AddedInputs) -> tuple[GoalRequest, ...]:
    """Return a tick's goals with what was added. Raises InputError if they do not belong together."""
    if not added.goals:
        return goals
    if len(added.goals) != len(goals):
        raise InputError(f"{len(added.goals)} added goals of a tick with {len(goals)} goals")
    return tuple(
        replace(goal, heading=more.heading, through=more.through) for goal, more in zip(goals, added.goals, strict=True)
    )


_CONVERTER = Converter(forbid_extra_keys=True)
