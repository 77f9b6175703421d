"""How far the runtime, on the inputs of another robot, wanted what was commanded there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hil.importing.wire import BagReader
from onboard.contract import ACTIONS
from onboard.messages import Twist
from onboard.tick import TickRecord

FRESH_NS = 500_000_000
"""An older command is no longer in force, as bases have it."""
TURN_M_PER_RAD = 0.5
"""What a turn counts beside a speed, for the action that is nearest to a command."""


@dataclass(slots=True)
class Agreement:
    """Decisions beside the command that was in force when they took effect.

    decisions: compared, `same` of them with the action that is nearest to the command
    v_mps, w_radps: sums of the differences
    """

    decisions: int = 0
    same: int = 0
    v_mps: float = 0.0
    w_radps: float = 0.0

    def add(self, action: int, command: Twist) -> None:
        """Compare one decision."""
        chosen = ACTIONS[action]
        self.decisions += 1
        self.same += action == nearest_action(command)
        self.v_mps += abs(chosen.v_mps - command.v_mps)
        self.w_radps += abs(chosen.w_radps - command.w_radps)

    def line(self) -> str:
        """Return it as a sentence."""
        mean_v, mean_w = self.v_mps / self.decisions, self.w_radps / self.decisions
        return (
            f"{self.same:,} of {self.decisions:,} decisions are the action nearest to the recorded command; "
            f"mean difference {mean_v:.2f} m/s, {mean_w:.2f} rad/s"
        )


def nearest_action(command: Twist) -> int:
    """Return the action that is nearest to a command."""

    def away(twist: Twist) -> float:
        return math.hypot(twist.v_mps - command.v_mps, TURN_M_PER_RAD * (twist.w_radps - command.w_radps))

    return min(range(len(ACTIONS)), key=lambda action: away(ACTIONS[action]))


class Commands:
    """A listener that compares decisions with the newest recorded command, and hands the commands on."""

    def __init__(self, reader: BagReader) -> None:
        self._reader = reader
        self._newest: tuple[int, Twist] | None = None
        self.agreement = Agreement()

    def hear(self, tick: TickRecord) -> list[Twist]:
        """Take note of a tick; return the commands that came in it."""
        came = [_twist(message.sample) for message in self._reader.take()]
        if came:
            self._newest = tick.slot.start_ns, came[-1]
        decided = tick.acted.decision if tick.acted is not None else None
        if decided is not None and self._newest is not None and tick.slot.start_ns - self._newest[0] <= FRESH_NS:
            self.agreement.add(decided.action, self._newest[1])
        return came


def _twist(sample: object) -> Twist:
    """Return the two numbers of a Twist or TwistStamped."""
    twist = getattr(sample, "twist", sample)
    return Twist(twist.linear.x, twist.angular.z)
