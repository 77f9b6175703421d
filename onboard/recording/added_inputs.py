"""Inputs of a tick that `TickMessage` has no field for, as text before the tick. So the format stays, and recordings
from before replay. A tick without such inputs has no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cattrs import Converter
from cattrs.errors import BaseValidationError

from onboard.values.errors import InputError
from onboard.values.messages import GoalRequest, ImuSample, Inputs, OdometryMessage, Pose

ADDED_TOPIC = "/onboard/added_inputs"
"""A std_msgs/String before the tick that had these inputs."""


@dataclass(frozen=True, slots=True)
class AddedGoal:
    """What a goal has beyond `GoalInput`, as in `GoalRequest`."""

    heading: bool = False
    through: tuple[tuple[str, Pose], ...] = ()


@dataclass(frozen=True, slots=True)
class AddedInputs:
    """The inputs of a tick by the names of `Inputs`. goals: one of each goal, in their order; empty if all are plain;
    yaw_variances, speed_variances: one of each odometry message; empty if none states it; scan_stamps: of new
    ready-made scans next to depth images, as the tick's scan may have an older stamp then [ns]"""

    pause: bool | None = None
    battery: float | None = None
    goals: tuple[AddedGoal, ...] = ()
    imu: tuple[ImuSample, ...] = ()
    yaw_variances: tuple[float | None, ...] = ()
    speed_variances: tuple[float | None, ...] = ()
    scan_stamps: Mapping[str, int] = field(default_factory=dict)


NOTHING = AddedInputs()


def added_to(inputs: Inputs) -> AddedInputs:
    """Return what a tick's message leaves out."""
    goals = tuple(AddedGoal(goal.heading, goal.through) for goal in inputs.goals)
    goals = goals if any(goal != AddedGoal() for goal in goals) else ()
    scans = inputs.scans if inputs.depth else {}
    stamps = {name: scan.stamp_ns for name, scan in scans.items() if scan.arrival_ns == inputs.now_ns}
    of_yaw = _stated(message.yaw_variance for message in inputs.odometry)
    of_speed = _stated(message.speed_variance for message in inputs.odometry)
    return AddedInputs(inputs.pause, inputs.battery, goals, inputs.imu, of_yaw, of_speed, stamps)


def _stated(variances: Iterable[float | None]) -> tuple[float | None, ...]:
    found = tuple(variances)
    return found if any(one is not None for one in found) else ()


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


def measured(odometry: tuple[OdometryMessage, ...], added: AddedInputs) -> tuple[OdometryMessage, ...]:
    """Return a tick's odometry with the variances that were added. Raises InputError if they do not belong together."""
    unstated = (None,) * len(odometry)
    of_yaw, of_speed = added.yaw_variances or unstated, added.speed_variances or unstated
    if not len(of_yaw) == len(of_speed) == len(odometry):
        raise InputError(f"{len(of_yaw)} and {len(of_speed)} variances of {len(odometry)} odometry messages in a tick")
    return tuple(
        replace(message, yaw_variance=yaw, speed_variance=speed)
        for message, yaw, speed in zip(odometry, of_yaw, of_speed, strict=True)
    )


_CONVERTER = Converter(forbid_extra_keys=True)
