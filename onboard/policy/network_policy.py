"""A network as a policy: observation -> tensors -> engine -> the action by its manifest, and the new memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import structlog

from onboard.config.config import LimitsSection
from onboard.policy.actions import ContinuousAction, beyond
from onboard.policy.contract import ACTIONS, TensorType
from onboard.policy.encode import next_memory, tensors
from onboard.policy.manifest import ModelManifest, check_engine, load_manifest
from onboard.values.errors import EngineError, OnboardError
from onboard.values.interfaces import Engine
from onboard.values.messages import Decision, Memory, Observation

log = structlog.get_logger("policy")


class ModelEngine(Engine, Protocol):
    """An engine that reports the tensors of its model."""

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """Return the model's inputs by name."""

    @property
    def outputs(self) -> Mapping[str, TensorType]:
        """Return the model's outputs by name."""


class NetworkPolicy:
    """Implements `interfaces.Policy` with one engine; keeps no state between calls."""

    def __init__(self, engine: Engine, manifest: ModelManifest) -> None:
        self.name = manifest.policy
        self.manifest = manifest
        self.memory_reset_s = manifest.reset_s
        self._engine, self._action = engine, manifest.action
        self._initial: Memory = manifest.initial_memory

    def initial_memory(self) -> Memory:
        """Return zeros: (layers, width) float32 for version 1, flat for version 2, of size 0 without memory."""
        return np.array(self._initial)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the manifest's action and the new memory.

        Raises EngineError when the engine fails or a tensor is not finite, InputError for an observation outside the
        contract.
        """
        if memory.shape != self._initial.shape:
            raise EngineError(f"{self.name}: memory has shape {memory.shape}, the manifest says {self._initial.shape}")
        inputs = tensors(observation, memory, self.manifest)
        for name, values in inputs.items():
            _require_finite(f"{self.name}: was given", name, values)
        outputs = self._engine.run(inputs)
        for name in (self._action.output, *(entry.output for entry in self.manifest.memory)):
            _require_finite(f"{self.name}: engine returned", name, outputs[name])
        decision = self._action.decide(outputs[self._action.output].reshape(-1), observation)
        return decision, next_memory(inputs, outputs, self.manifest).reshape(memory.shape)

    def limit(self, limits: LimitsSection) -> None:
        """Clip a continuous action to the robot's limits from now on. Log once if the action goes beyond them."""
        reach = (limits.v_min_mps, limits.v_max_mps), limits.w_max_radps
        if self._action.table == ACTIONS:  # identified saturations; the runtime limits these commands alike
            return
        if found := beyond(self._action, *reach):
            log.warning("policy_beyond_limits", policy=self.name, action=found, clipped=True)
        if isinstance(self._action, ContinuousAction):
            self._action = self._action.within(*reach)

    def close(self) -> None:
        """Release the engine."""
        self._engine.close()


def _require_finite(source: str, name: str, values: npt.NDArray[Any]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise EngineError(f"{source} {kind} in {name}: {int(bad.sum())} of {values.size} values")


def load_policy(
    model: Path,
    make_engine: Callable[[Path, ModelManifest], ModelEngine],
    limits: LimitsSection | None = None,
) -> NetworkPolicy:
    """Return a model's policy, with its engine checked against the manifest and warmed in this thread.

    limits: of the robot, to which a continuous action is clipped; None: the manifest's range only
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
    policy = NetworkPolicy(engine, manifest)
    if limits is not None:
        policy.limit(limits)
    return policy
