"""Parity of two engines of one model: both run the same sequences, each with its own recurrent memory.

Used after an export (PyTorch against ONNX Runtime) and on the robot (TensorRT against ONNX Runtime). Drift of a
recurrent state shows only over many steps, so a sequence lasts from one memory reset to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.policy.contract import twist_of
from onboard.policy.encode import ActionFeed, ColorFeed, ScanFeed
from onboard.policy.manifest import ModelManifest
from onboard.values.errors import EngineError, InputError
from onboard.values.interfaces import Engine

PARITY_STEPS = 30
"""Decisions between two memory resets (10 s)."""
Inputs = Mapping[str, npt.NDArray[Any]]
"""Inputs of a decision by name; a memory in them is not used."""
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


def random_inputs(manifest: ModelManifest, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Return plausible random inputs by name, without the memory: noise images, ranges with gaps, poses, an action."""
    inputs: dict[str, npt.NDArray[Any]] = {}
    for feed in manifest.feeds:
        if isinstance(feed, ActionFeed):
            inputs[feed.name] = rng.integers(0, max(len(manifest.actions), 1) + 1, feed.shape, np.int64)
        elif isinstance(feed, ScanFeed):
            top = 1.0 if feed.unit == "fraction" else feed.max_range_m
            ranges = rng.uniform(0.05, 1.0, feed.shape) * top
            ranges[rng.random(feed.shape) < 0.2] = top if feed.inf_value is None else feed.inf_value
            ranges[rng.random(feed.shape) < 0.1] = top if feed.blind_value is None else feed.blind_value
            inputs[feed.name] = ranges
        elif isinstance(feed, ColorFeed):
            inputs[feed.name] = rng.normal(0.0, 1.0, feed.shape)
        else:
            inputs[feed.name] = rng.normal(0.0, SPREAD_M, feed.shape)
        inputs[feed.name] = inputs[feed.name].astype(feed.dtype)
    return inputs


def random_sequences(
    manifest: ModelManifest, *, steps: int = PARITY_STEPS, sequences: int = 1, seed: int = 0
) -> Iterator[Iterator[Inputs]]:
    """Yield sequences of random inputs; take each before the next."""
    rng = np.random.default_rng(seed)
    for _ in range(sequences):
        yield (random_inputs(manifest, rng) for _ in range(steps))


def compare(
    engine: Engine,
    reference: Engine,
    manifest: ModelManifest,
    *,
    steps: int = PARITY_STEPS,
    sequences: int = 1,
    seed: int = 0,
) -> Parity:
    """Return the agreement over random sequences. Raises as `compare_on`."""
    given = random_sequences(manifest, steps=steps, sequences=sequences, seed=seed)
    return compare_on(engine, reference, manifest, given)


def compare_on(
    engine: Engine, reference: Engine, manifest: ModelManifest, sequences: Iterable[Iterable[Inputs]]
) -> Parity:
    """Return the agreement of `engine` with `reference` over sequences that start with a memory of zeros.

    Raises EngineError when an engine fails or returns values that are not finite, InputError without a decision.
    """
    output = manifest.action.output
    same, logit_differences, memory_differences, spreads = 0, [0.0], [0.0], list[float]()
    for sequence in sequences:
        memories = [dict(zero_memory(manifest)) for _ in range(2)]
        for inputs in sequence:
            outputs = [run.run({**inputs, **memory}) for run, memory in zip((engine, reference), memories, strict=True)]
            mine, theirs = (_finite(found[output]).reshape(-1) for found in outputs)
            same += int(_same(manifest, mine, theirs))
            logit_differences.append(float(np.abs(mine - theirs).max()))
            spreads.append(float(theirs.std()))
            states = [{one.input: _finite(found[one.output]) for one in manifest.memory} for found in outputs]
            memory_differences += [float(np.abs(states[0][name] - states[1][name]).max()) for name in states[0]]
            memories = list(states)
    if not spreads:
        raise InputError("there is no decision on which two engines can be compared")
    return Parity(len(spreads), same, max(logit_differences), max(memory_differences), float(np.mean(spreads)))


def zero_memory(manifest: ModelManifest) -> Mapping[str, npt.NDArray[Any]]:
    """Return the initial memory tensors by name; empty for a policy without memory."""
    return {entry.input: np.zeros(entry.shape, np.float32) for entry in manifest.memory}


SAME = 0.01
"""Largest difference of equal continuous actions [m/s, rad/s]."""


def _same(manifest: ModelManifest, mine: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> bool:
    """Return whether two outputs are the same action."""
    if manifest.actions:
        return bool(np.argmax(mine) == np.argmax(theirs))
    one, other = (twist_of(manifest.action.choose(values)) for values in (mine, theirs))
    return max(abs(one.v_mps - other.v_mps), abs(one.w_radps - other.w_radps)) <= SAME


def _finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise EngineError("an engine returned numbers that are not finite in the comparison")
    return values
