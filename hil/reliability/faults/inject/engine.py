"""Faults of the engine, the event loop and the link to the base."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hil.reliability.faults.inject.schedule import Injection
from onboard.policy.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS
from onboard.policy.inference import InferenceResult
from onboard.values.clock import NS_PER_S
from onboard.values.errors import DriverError
from onboard.values.messages import STOP, Decision, Inputs, Twist

SLOW_NS = NS_PER_S // 5
"""Additional latency of a decision. A decision is due after 100 ms: it misses its deadline and ends before the next."""
BLOCK_NS = 3 * NS_PER_S // 10
AHEAD = ACTIONS.index(Twist(max(LINEAR_MPS), 0.0))
TURN = ACTIONS.index(Twist(0.0, max(ANGULAR_RADPS)))


class SlowEngine(Injection):
    """Every decision takes 200 ms longer."""

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return 200 ms [ns]."""
        return SLOW_NS


class HungEngine(Injection):
    """A decision does not finish until the end of the fault."""

    def late_ns(self, now_ns: int, end_ns: int) -> int:
        """Return the time to the end of the fault [ns]."""
        return end_ns - now_ns


class FailingEngine(Injection):
    """Every decision fails."""

    def result(self, result: InferenceResult) -> InferenceResult:
        """Return an error."""
        return replace(result, decision=None, memory=None, error="injected: the device was lost")


class NanEngine(Injection):
    """The logits and the memory of every decision are NaN."""

    def result(self, result: InferenceResult) -> InferenceResult:
        """Return a result of NaN."""
        if result.decision is None or result.memory is None:
            return result
        nothing = np.full_like(result.decision.logits, np.nan)
        return replace(
            result, decision=replace(result.decision, logits=nothing), memory=np.full_like(result.memory, np.nan)
        )


class FullSpeedAhead(Injection):
    """The policy wants full speed straight ahead, whatever it sees. Its memory is not changed."""

    def result(self, result: InferenceResult) -> InferenceResult:
        """Return the result with that action."""
        return _choosing(AHEAD, result)


def _choosing(action: int, result: InferenceResult) -> InferenceResult:
    if result.decision is None:
        return result
    logits = np.zeros(len(ACTIONS), np.float32)
    logits[action] = 1.0
    return replace(result, decision=Decision(action, logits))


class BlockedLoop(Injection):
    """A task blocks the event loop once for 300 ms."""

    def __init__(self) -> None:
        self._left_ns = BLOCK_NS

    def blocked_ns(self) -> int:
        """Return 300 ms in the first call, then 0 [ns]."""
        left_ns, self._left_ns = self._left_ns, 0
        return left_ns


class DeafBase(Injection):
    """The base ignores all commands and stands, and its bumper reports an obstacle."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the notice."""
        return replace(inputs, obstacle=True)

    def command(self, command: Twist) -> Twist | None:
        """Return a stop."""
        return STOP


class HeldBase(Injection):
    """Something holds the base, which can only turn; its bumper reports that, and the policy wants a fast turn."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the notice."""
        return replace(inputs, obstacle=True)

    def result(self, result: InferenceResult) -> InferenceResult:
        """Return the result with the turn."""
        return _choosing(TURN, result)

    def command(self, command: Twist) -> Twist | None:
        """Return the command's turn."""
        return Twist(0.0, command.w_radps)


class LostDrive(Injection):
    """The link to the base is gone."""

    def command(self, command: Twist) -> Twist | None:
        """Raise DriverError."""
        raise DriverError("injected: the link to the base is gone")
