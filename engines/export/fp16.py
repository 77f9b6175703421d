"""Weights stored in float16 and computed in float32, and the comparison of two policies.

ONNX Runtime computes the Casts once at load, so decisions take as long as before.
`onboard/drivers/engines/onnx_engine.py` does the same for TensorRT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onboard.policy.manifest import ModelManifest
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.errors import InputError
from onboard.values.interfaces import Engine, Policy
from onboard.values.messages import Decision, Memory, Observation

MIN_AGREEMENT = 0.995
"""Least share of decisions with the same action."""
HALVED_FROM = 256
"""Smaller weights stay float32; together they take no space."""
HALF_SUFFIX = ".half"
LARGEST_HALF = float(np.finfo(np.float16).max)


def halve(proto: onnx.ModelProto) -> None:
    """Store each float32 weight of at least `HALVED_FROM` numbers as float16 followed by a Cast to float32.

    Raises InputError, naming the weight, for numbers beyond half precision.
    """
    graph = proto.graph
    casts = []
    for weight in graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < HALVED_FROM:
            continue
        numbers = numpy_helper.to_array(weight)
        if not np.abs(numbers).max() <= LARGEST_HALF:  # so that NaN is refused too
            raise InputError(
                f"weight {weight.name}: found a number above {LARGEST_HALF:g}, the largest in half precision"
            )
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(numbers.astype(np.float16), name + HALF_SUFFIX))
        casts.append(helper.make_node("Cast", [name + HALF_SUFFIX], [name], f"/widen/{name}", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of decisions in which two policies chose the same action."""

    decisions: int
    same_action: int

    @property
    def fraction(self) -> float:
        """Return the share of decisions with the same action; 1 without decisions."""
        return self.same_action / self.decisions if self.decisions else 1.0

    def __str__(self) -> str:
        return f"the same action in {self.same_action} of {self.decisions} decisions ({self.fraction:.2%})"


class Listener(NetworkPolicy):
    """A network policy that records its observations in `sequences`.

    A new sequence begins with each initial memory, thus at each goal and each reset.
    """

    def __init__(self, engine: Engine, manifest: ModelManifest) -> None:
        super().__init__(engine, manifest)
        self.sequences: list[list[Observation]] = []

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the network's decision. Raises as `NetworkPolicy.decide`."""
        if not self.sequences or not memory.any():
            self.sequences.append([])
        self.sequences[-1].append(observation)
        return super().decide(observation, memory)


def compare_policies(policy: Policy, reference: Policy, sequences: Iterable[Sequence[Observation]]) -> Agreement:
    """Return the agreement of two policies over recorded observations, each with its own memory per sequence.

    Both get the recorded previous action, so a different choice does not affect later decisions.
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
