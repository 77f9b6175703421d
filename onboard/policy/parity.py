"""Parity of two engines of one model: both run random sequences, each with its own recurrent memory.

Used after an export (PyTorch against ONNX Runtime) and on the robot (TensorRT against ONNX Runtime). Drift of a
recurrent state shows only over many steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.policy.contract import NO_ACTION
from onboard.policy.manifest import Manifest
from onboard.values.errors import EngineError
from onboard.values.interfaces import Engine

PARITY_STEPS = 30
"""Decisions between two memory resets (10 s)."""
SPREAD_M = 5.0
"""Standard deviation of the random poses and goals [m]."""


@dataclass(frozen=True, slots=True)
class Parity:
    """Agreement of two engines.

    steps:                   compared decisions, over all sequences
    same_action:             decisions with the same argmax
    max_logit_difference:    largest absolute difference of a logit
    max_memory_difference:   largest absolute difference of a memory value; 0 without memory
    logit_spread:            standard deviation of the reference's logits, the scale of the difference
    """

    steps: int
    same_action: int
    max_logit_difference: float
    max_memory_difference: float
    logit_spread: float

    @property
    def agreement(self) -> float:
        """Return the fraction of decisions with the same argmax."""
        return self.same_action / self.steps


def random_inputs(manifest: Manifest, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Return plausible random inputs by name, without the memory: noise images, ranges with gaps, poses, an action."""
    inputs: dict[str, npt.NDArray[Any]] = {}
    for entry in manifest.inputs:
        if entry.name == "memory_in":
            continue
        if entry.name == "prev_action":
            inputs[entry.name] = rng.integers(0, NO_ACTION + 1, entry.shape, np.int64)
        elif entry.name == "scan":
            ranges = rng.uniform(0.05, 1.0, entry.shape)
            ranges[rng.random(entry.shape) < 0.2] = manifest.scan.inf_value
            ranges[rng.random(entry.shape) < 0.1] = manifest.scan.blind_value
            inputs[entry.name] = ranges.astype(np.float32)
        elif entry.name == "rgb":
            inputs[entry.name] = rng.normal(0.0, 1.0, entry.shape).astype(np.float32)
        else:
            inputs[entry.name] = rng.normal(0.0, SPREAD_M, entry.shape).astype(np.float32)
    return inputs


def compare(
    engine: Engine,
    reference: Engine,
    manifest: Manifest,
    *,
    steps: int = PARITY_STEPS,
    sequences: int = 1,
    seed: int = 0,
) -> Parity:
    """Return the agreement of `engine` with `reference` over sequences that start with a memory of zeros.

    Raises EngineError when an engine fails or returns values that are not finite.
    """
    rng = np.random.default_rng(seed)
    same, logit_differences, memory_differences, spreads = 0, [0.0], [0.0], [0.0]
    for _ in range(sequences):
        memories = [zero_memory(manifest), zero_memory(manifest)]
        for _ in range(steps):
            inputs = random_inputs(manifest, rng)
            outputs = [run.run({**inputs, **memory}) for run, memory in zip((engine, reference), memories, strict=True)]
            mine, theirs = (_finite(output["logits"]) for output in outputs)
            same += int(np.argmax(mine) == np.argmax(theirs))
            logit_differences.append(float(np.abs(mine - theirs).max()))
            spreads.append(float(theirs.std()))
            if manifest.memory_shape is not None:
                states = [_finite(output["memory_out"]) for output in outputs]
                memory_differences.append(float(np.abs(states[0] - states[1]).max()))
                memories = [{"memory_in": state} for state in states]
    return Parity(steps * sequences, same, max(logit_differences), max(memory_differences), float(np.mean(spreads[1:])))


def zero_memory(manifest: Manifest) -> Mapping[str, npt.NDArray[Any]]:
    """Return the initial memory tensor by name; empty for a policy without memory."""
    if manifest.memory_shape is None:
        return {}
    layers, width = manifest.memory_shape
    return {"memory_in": np.zeros((layers, 1, width), np.float32)}


def _finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise EngineError("an engine returned numbers that are not finite in the comparison")
    return values
