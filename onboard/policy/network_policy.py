"""A network as a policy: observation -> tensors -> engine -> the action with the largest logit, and the new memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from onboard.policy.contract import TensorType
from onboard.policy.encode import memory_of, tensors
from onboard.policy.manifest import Manifest, check_engine, load_manifest
from onboard.values.errors import EngineError, OnboardError
from onboard.values.interfaces import Engine
from onboard.values.messages import Decision, Memory, Observation


class ModelEngine(Engine, Protocol):
    """An engine that reports the tensors of its model."""

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """Return the model's inputs by name."""

    @property
    def outputs(self) -> Mapping[str, TensorType]:
        """Return the model's outputs by name."""


class NetworkPolicy:
    """Implements `interfaces.Policy` with one engine; keeps no state between calls.

    memory_reset_s: period of memory resets [s], used if the manifest states none; None takes the configuration's
    """

    def __init__(self, engine: Engine, manifest: Manifest, memory_reset_s: float | None = None) -> None:
        self.name = manifest.policy
        self.manifest = manifest
        self.memory_reset_s = manifest.memory_reset_s if manifest.memory_reset_s is not None else memory_reset_s
        self._engine = engine

    def initial_memory(self) -> Memory:
        """Return zeros of the manifest's shape (layers, width) float32; (0, 0) for a policy without memory."""
        return np.zeros(self.manifest.memory_shape or (0, 0), np.float32)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the action of the largest logit (the lowest index of equals) and the new memory.

        Raises EngineError when the engine fails or a tensor is not finite, InputError for an observation outside the
        contract.
        """
        expected = self.manifest.memory_shape or (0, 0)
        if memory.shape != expected:
            raise EngineError(f"{self.name}: memory has shape {memory.shape}, the manifest says {expected}")
        inputs = tensors(observation, memory, self.manifest)
        for name, values in inputs.items():
            _require_finite(f"{self.name}: was given", name, values)
        outputs = self._engine.run(inputs)
        logits = outputs["logits"].reshape(-1)
        _require_finite(f"{self.name}: engine returned", "logits", logits)
        decision = Decision(int(np.argmax(logits)), logits)
        if self.manifest.memory_shape is None:
            return decision, memory
        after = memory_of(outputs)
        _require_finite(f"{self.name}: engine returned", "memory_out", after)
        return decision, after

    def close(self) -> None:
        """Release the engine."""
        self._engine.close()


def _require_finite(source: str, name: str, values: npt.NDArray[Any]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise EngineError(f"{source} {kind} in {name}: {int(bad.sum())} of {values.size} values")


def load_policy(
    model: Path, make_engine: Callable[[Path, Manifest], ModelEngine], memory_reset_s: float | None = None
) -> NetworkPolicy:
    """Return a model's policy, with its engine checked against the manifest and warmed in this thread.

    Raises ConfigError for a manifest that does not fit the file or the contract, EngineError for a model that does not
    fit its manifest or does not run, and MissingExtraError without the engine's library. The engine is closed then.
    """
    manifest = load_manifest(model)
    engine = make_engine(model, manifest)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
    except OnboardError:
        engine.close()
        raise
    return NetworkPolicy(engine, manifest, memory_reset_s)
