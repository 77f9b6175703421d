"""What goes wrong with the engine, the loop and the link to the base."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hil.reliability.faults.inject.schedule import Injection
from onboard.policy.contract import ACTIONS, LINEAR_MPS
from onboard.policy.inference import Result
from onboard.values.clock import NS_PER_S
from onboard.values.errors import DriverError
from onboard.values.messages import STOP, Inputs, Twist

SLOW_NS = NS_PER_S // 5
"""A decision is due 100 ms after it was begun; this much later it has missed that, and is done before the next."""
BLOCK_NS = 3 * NS_PER_S // 10
AHEAD = ACTIONS.index(Twist(max(LINEAR_MPS), 0.0))


class SlowEngine(Injection):
    """Every decision takes 200 ms longer."""

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return 200 ms."""
        return SLOW_NS


class HungEngine(Injection):
    """A decision does not return until the fault is over."""

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return the time that is left."""
        return end_ns - now_ns


class FailingEngine(Injection):
    """Every decision fails."""

    def result(self, result: Result) -> Result:
        """Return an error."""
        return replace(result, decision=None, memory=None, error="injected: the device was lost")


class NanEngine(Injection):
    """Every decision is without a number, its memory too."""

    def result(self, result: Result) -> Result:
        """Return NaN."""
        if result.decision is None or result.memory is None:
            return result
        nothing = np.full_like(result.decision.logits, np.nan)
        return replace(
            result, decision=replace(result.decision, logits=nothing), memory=np.full_like(result.memory, np.nan)
        )


class Ahead(Injection):
    """The policy wants straight ahead at its full speed, whatever it sees; it remembers as it would."""

    def result(self, result: Result) -> Result:
        """Return that action."""
        if result.decision is None:
            return result
        logits = np.zeros_like(result.decision.logits)
        logits[AHEAD] = 1.0
        return replace(result, decision=replace(result.decision, action=AHEAD, logits=logits))


class BlockedLoop(Injection):
    """Something keeps the event loop busy, once, for 300 ms."""

    def __init__(self) -> None:
        self._left_ns = BLOCK_NS

    def blocked_ns(self) -> int:
        """Return 300 ms the first time."""
        left_ns, self._left_ns = self._left_ns, 0
        return left_ns


class DeafBase(Injection):
    """The base stands, whatever it is told, and its bumper says that it is held."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the notice."""
        return replace(inputs, obstacle=True)

    def command(self, command: Twist) -> Twist | None:
        """Return a stop."""
        return STOP


class LostDrive(Injection):
    """The link to the base is gone."""

    def command(self, command: Twist) -> Twist | None:
        """Raise."""
        raise DriverError("injected: the link to the base is gone")
