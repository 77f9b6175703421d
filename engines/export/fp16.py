"""Small weights: stored in half precision, computed in single; and whether two policies decide alike.

Half precision keeps 11 bits of a number. ONNX Runtime computes the Casts once, when it loads, so that a decision takes
as long as before; `onboard/drivers/engines/onnx_engine.py` does the same for TensorRT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.manifest import Manifest
from onboard.policy.network_policy import NetworkPolicy, load_policy
from onboard.values.errors import InputError
from onboard.values.interfaces import Engine, Policy
from onboard.values.messages import Decision, Memory, Observation

MIN_AGREEMENT = 0.995
"""Fraction of decisions in which half weights must choose the same action."""
HALVED_FROM = 256
"""Weights of fewer numbers than this stay as they are: all together they weigh nothing."""
HALF_SUFFIX = ".half"
LARGEST_HALF = float(np.finfo(np.float16).max)


def halve(proto: onnx.ModelProto) -> None:
    """Store every float32 weight of at least `HALVED_FROM` numbers as float16 followed by a Cast to float32.

    Raises InputError, naming the weight, for numbers that half precision does not reach.
    """
    graph = proto.graph
    casts = []
    for weight in graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < HALVED_FROM:
            continue
        numbers = numpy_helper.to_array(weight)
        if not np.abs(numbers).max() <= LARGEST_HALF:  # so that NaN is refused too
            raise InputError(f"weight {weight.name}: half precision ends at {LARGEST_HALF:g}, found a larger number")
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(numbers.astype(np.float16), name + HALF_SUFFIX))
        casts.append(helper.make_node("Cast", [name + HALF_SUFFIX], [name], f"/widen/{name}", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


@dataclass(frozen=True, slots=True)
class Agreement:
    """In how many of so many decisions two policies chose the same action."""

    decisions: int
    same_action: int

    @property
    def fraction(self) -> float:
        """Return the share of decisions with the same action; 1 of none."""
        return self.same_action / self.decisions if self.decisions else 1.0

    def __str__(self) -> str:
        return f"the same action in {self.same_action} of {self.decisions} decisions ({self.fraction:.2%})"


class Listener(NetworkPolicy):
    """A network that keeps the observations which it decided by: `sequences`.

    A new sequence begins with every memory that is the initial one, thus at every goal and at every reset.
    """

    def __init__(self, engine: Engine, manifest: Manifest, memory_reset_s: float | None = None) -> None:
        super().__init__(engine, manifest, memory_reset_s)
        self.sequences: list[list[Observation]] = []

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the network's decision. Raises what `NetworkPolicy.decide` does."""
        if not self.sequences or not memory.any():
            self.sequences.append([])
        self.sequences[-1].append(observation)
        return super().decide(observation, memory)


def compare_policies(policy: Policy, reference: Policy, sequences: Iterable[Sequence[Observation]]) -> Agreement:
    """Return how often two policies choose the same action, each with a memory of its own from a sequence's beginning.

    The previous action is the recorded one for both, so that one other choice does not count for all that follow.
    """
    decisions, same = 0, 0
    for sequence in sequences:
        memories = [policy.initial_memory(), reference.initial_memory()]
        for observation in sequence:
            mine, memories[0] = policy.decide(observation, memories[0])
            theirs, memories[1] = reference.decide(observation, memories[1])
            decisions += 1
            same += mine.action == theirs.action
    return Agreement(decisions, same)


def agreement(model: Path, reference: Path, sequences: Iterable[Sequence[Observation]]) -> Agreement:
    """Return how often two models choose the same action over recorded sequences of decisions (`Listener`).

    Raises ConfigError, EngineError and MissingExtraError as `load_policy` does.
    """
    first, second = (load_policy(path, lambda file, _: OnnxEngine(file, threads=1)) for path in (model, reference))
    try:
        return compare_policies(first, second, sequences)
    finally:
        first.close()
        second.close()
