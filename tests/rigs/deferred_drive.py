"""A drive of the fast loop whose decisions are made outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onboard.config.config import RatesSection
from onboard.policy.contract import CONTRACT_VERSION, INPUTS, MEMORY_TENSORS, OUTPUTS, REQUIRED_OUTPUTS, Tensor
from onboard.policy.inference import InferenceResult
from onboard.policy.manifest import Manifest, TensorEntry
from onboard.values.errors import OnboardError
from onboard.values.messages import Decision, Memory, Observation

FRESH: Memory = np.zeros((1, 1), np.float32)
CARRIED: Memory = np.ones((1, 1), np.float32)
"""Marks instead of the recurrent state, which the trainer keeps: just reset, or carried on."""


class ExternalPolicy:
    """Stands for the policy in a drive whose decisions are made outside of it."""

    name = "student"

    def __init__(self, memory_reset_s: float | None, wants_color: bool) -> None:
        self.memory_reset_s, self.wants_color = memory_reset_s, wants_color

    def initial_memory(self) -> Memory:
        """Return the mark of a fresh memory."""
        return FRESH

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Raise OnboardError: the decision comes through `DeferredInference`."""
        raise OnboardError("a lane's decisions are made outside of its drive")

    def close(self) -> None:
        """Nothing to release."""


def _manifest() -> Manifest:
    rates = RatesSection()

    def entries(names: Sequence[str], table: Mapping[str, Tensor]) -> tuple[TensorEntry, ...]:
        types = [(name, table[name].type) for name in names]
        return tuple(TensorEntry(name=name, shape=kind.shape, dtype=kind.dtype) for name, kind in types)

    return Manifest(
        contract_version=CONTRACT_VERSION,
        sha256="0" * 64,
        policy=ExternalPolicy.name,
        inputs=entries([name for name in INPUTS if name not in ("rgb", *MEMORY_TENSORS)], INPUTS),
        outputs=entries(REQUIRED_OUTPUTS, OUTPUTS),
        training_delay_ticks=rates.delay_ticks,
        control_hz=rates.control_hz,
        decision_hz=rates.control_hz / rates.ticks_per_decision,
        memory_shape=None,
    )


MADE = _manifest()
"""Manifest of a lane's tensors: all inputs of the contract, scaled as in an exported model."""


class DeferredInference:
    """An inference whose answer comes from outside; implements `onboard.policy.inference.Inference`."""

    def __init__(self) -> None:
        self.pending: tuple[int, Observation, Memory] | None = None
        self._result: InferenceResult | None = None

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Keep the observation."""
        self.pending = number, observation, memory
        return True

    def answer(self, action: int) -> None:
        """Give the decision on the kept observation."""
        if self.pending is None:
            raise OnboardError("nothing was asked")
        decision = Decision(action, _NO_LOGITS)
        self._result, self.pending = InferenceResult(self.pending[0], decision, CARRIED, 0), None

    def poll(self) -> InferenceResult | None:
        """Return the answer once."""
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        """Nothing to release."""


_NO_LOGITS = np.zeros(1, np.float32)
