"""Command steps that excite a base on a free rectangle: eight patterns, as in paper 1, Appendix A.

The paper does not list its patterns. These hold steps of several sizes forward, backward and in turns, with stops
between. A step that would leave the rectangle is mirrored, or left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hil.physics.simulated_base import NS, STEP_NS, base_at, send_command, step_base
from onboard.config.plant_model import Plant
from onboard.values.messages import STOP, Pose, Twist

HOLD_S, REST_S = 1.5, 1.2
ANSWER_S = 1.2
"""Time for which a base may continue at its speed before it brakes: delay and response."""
BRAKING_MPS2 = 0.5
PREDICTION_S = 0.05


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Free floor for the robot's centre, in the frame of its start: x ahead, y to the left [m]."""

    behind_m: float
    ahead_m: float
    right_m: float
    left_m: float

    def holds(self, x_m: float, y_m: float) -> bool:
        """Return whether a point lies in it."""
        return -self.behind_m <= x_m <= self.ahead_m and -self.right_m <= y_m <= self.left_m


@dataclass(frozen=True, slots=True)
class Step:
    """A command held for a time, in a numbered pattern."""

    pattern: int
    twist: Twist
    hold_s: float


#   shares of the greatest speed and turn rate, a step each; a stop follows each pattern of one row
PATTERNS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((1.0, 0.0), (0.0, 0.0), (-1.0, 0.0), (0.0, 0.0)),
    ((0.5, 0.0), (1.0, 0.0), (0.0, 0.0), (-0.5, 0.0), (-1.0, 0.0), (0.0, 0.0)),
    ((0.0, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, 0.0)),
    ((0.0, 0.5), (0.0, 1.0), (0.0, 0.3), (0.0, -0.5), (0.0, -1.0), (0.0, 0.0)),
    ((0.7, 0.5), (0.0, 0.0), (-0.7, -0.5), (0.0, 0.0)),
    ((0.3, -0.8), (0.8, 0.3), (0.0, 0.0), (-0.8, -0.3), (-0.3, 0.8), (0.0, 0.0)),
    ((1.0, 0.0), (0.4, 0.0), (0.0, 0.6), (-0.4, 0.0), (-1.0, 0.0), (0.0, -0.6), (0.0, 0.0)),
    ((0.6, 1.0), (0.6, -1.0), (0.0, 0.0), (-0.6, 1.0), (-0.6, -1.0), (0.0, 0.0)),
)


def steps(v_mps: float, back_mps: float, w_radps: float) -> list[Step]:
    """Return the steps of all patterns. back_mps: greatest speed backward, positive."""
    return [
        Step(
            number,
            Twist(v * (v_mps if v > 0.0 else back_mps), w * w_radps),
            REST_S if v == w == 0.0 else HOLD_S,
        )
        for number, pattern in enumerate(PATTERNS, 1)
        for v, w in pattern
    ]


def fitting(step: Step, pose: Pose, rectangle: Rectangle) -> Step | None:
    """Return the step, or its mirror image, such that the robot stays in the rectangle; None if none does."""
    v, w = step.twist.v_mps, step.twist.w_radps
    for twist in (step.twist, Twist(-v, -w), Twist(v, -w), Twist(-v, w)):
        if all(rectangle.holds(x, y) for x, y in _way(pose, twist, step.hold_s + ANSWER_S)):
            return replace(step, twist=twist)
    return None


def must_stop(pose: Pose, twist: Twist, rectangle: Rectangle) -> bool:
    """Return whether a base at this speed would leave the rectangle if it were stopped later than now."""
    return not all(rectangle.holds(x, y) for x, y in _way(pose, twist, ANSWER_S))


def _way(pose: Pose, twist: Twist, hold_s: float) -> Iterator[tuple[float, float]]:
    """Yield the points of an arc, and the braking distance straight ahead from its end."""
    count = math.ceil(hold_s / PREDICTION_S)
    x, y, yaw = pose.x_m, pose.y_m, pose.yaw_rad
    for _ in range(count):
        yaw += twist.w_radps * PREDICTION_S
        x += twist.v_mps * PREDICTION_S * math.cos(yaw)
        y += twist.v_mps * PREDICTION_S * math.sin(yaw)
        yield x, y
    brake = math.copysign(twist.v_mps**2 / (2.0 * BRAKING_MPS2), twist.v_mps)
    yield x + brake * math.cos(yaw), y + brake * math.sin(yaw)


class PatternDrive:
    """Which command to send now, from time, pose and speed. `skipped` counts steps that did not fit or were cut."""

    def __init__(self, todo: list[Step], rectangle: Rectangle) -> None:
        self._todo = list(todo)
        self._rectangle = rectangle
        self._step: Step | None = None
        self._until_s = 0.0
        self.skipped = 0
        self.pattern = 0

    def command(self, now_s: float, pose: Pose, twist: Twist) -> Twist | None:
        """Return the command for now; None when all steps are done. pose: in the frame of the start."""
        if self._step is not None and self._step.twist != STOP and must_stop(pose, twist, self._rectangle):
            self.skipped += 1
            self._step, self._until_s = replace(self._step, twist=STOP), now_s + REST_S
        while self._step is None or now_s >= self._until_s:
            if not self._todo:
                return None
            step = self._todo.pop(0)
            self.pattern = step.pattern
            fits = fitting(step, pose, self._rectangle)
            if fits is None:
                self.skipped += 1
                continue
            self._step, self._until_s = fits, now_s + fits.hold_s
        return self._step.twist


def rehearsed(drive: PatternDrive, plant: Plant) -> Iterator[tuple[float, Twist]]:
    """Yield time [s] and command of each step as a simulated base drives it."""
    state, now_ns, before = base_at(Pose(0.0, 0.0, 0.0)), 0, None
    while (command := drive.command(now_ns / NS, state.motion.pose, state.motion.twist)) is not None:
        if command != before:
            yield now_ns / NS, command
        before = command
        state = step_base(send_command(state, command, now_ns, plant), now_ns, plant)
        now_ns += STEP_NS
