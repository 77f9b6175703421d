"""How far a replay may differ from the recording: not at all where it was made here, else by a table.

The rule: where processor, libraries that compute and engine are those that the session's record names, and the model is
the one that drove, every value must be the same to the last bit. The code is not asked for: a change of it is what a
replay is to find. Anywhere else another machine's mathematics differ in the last bits, another engine's sums in
more: what is allowed then is in `TOLERANCES`; whole numbers and words are never allowed to differ, but for the action,
which must be the same in `SAME_ACTIONS` of the decisions. `tests/benchmarks/test_replay_engines.py` prints how far a
network's numbers differ for other threads, graphs and half weights.

A reference run (`onboard-hil update-reference`) belongs to no machine: its actions, whole numbers and words must be the
same everywhere, its sums to the last bits that machines differ in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hil.recordings.recording import Session
from hil.replay.compared_fields import ACTION, KEYFRAME, MEMORY, Difference
from onboard.assembly.policies import REACTIVE
from onboard.config.config import PolicySection
from onboard.recording import provenance

ENGINE = "onnxruntime"
"""What a replay runs a model on: the engine of a desktop."""
REFERENCE = "reference"
"""What a reference run says of its machine."""

SAME_ACTIONS = 0.995
BITS = 1e-6
"""Of metres, radians and seconds: far below what any sensor tells."""
SINGLE_BITS = 1e-5
"""Ten of the last bits of a number of the size of a far range, in single precision."""

LOGITS, MEMORIES = 0.01, 0.004
"""Ten times the farthest that half weights were from whole ones in a drive of a trained network of the full size; other
threads and graphs of single precision were a thousand times nearer."""

SUMS: Mapping[str, float] = {
    "odometry": BITS,
    "map_from_odom": BITS,
    "filtered": BITS,
    "ranges_m": SINGLE_BITS,
    "goal_distance_m": BITS,
    "goal": BITS,
    "observation_odometry": BITS,
    "localization": BITS,
    "logits": SINGLE_BITS,
    "wanted": BITS,
    "command": BITS,
    MEMORY: SINGLE_BITS,
    KEYFRAME: BITS,
}
"""By the field's name, as far as the last bits of two machines differ; what is not here must be the same."""

TOLERANCES: Mapping[str, float] = {
    **SUMS,
    "ranges_m": 1e-3,
    "logits": LOGITS,
    MEMORY: MEMORIES,
}
"""The same for another processor, engine or library."""


@dataclass(frozen=True, slots=True)
class Measure:
    """By what the differences of a session are judged.

    said:         in words
    tolerances:   how far a field may differ, by its name; what is not there must be the same
    same_actions: share of the decisions that must have the same action
    """

    said: str = "bit for bit"
    tolerances: Mapping[str, float] = field(default_factory=dict)
    same_actions: float = 1.0

    def allows(self, one: Difference) -> bool:
        """Return whether a value may differ so far; an action may, where the share of all of them is what counts."""
        if one.field == ACTION and self.same_actions < 1.0:
            return True
        return one.by <= self.tolerances.get(one.field, 0.0)


BIT_FOR_BIT = Measure()
OF_REFERENCE = Measure("as a reference: exact but for the last bits of sums", SUMS)


def tolerant(why: str) -> Measure:
    """Return the measure for what does not compute as it did on the robot, and why that is so."""
    return Measure(f"within tolerances: {why}", TOLERANCES, SAME_ACTIONS)


def measure_of(session: Session, *, same_model: bool = True) -> Measure:
    """Return by what a replay of a session is to be judged here. same_model: the model is the one that drove."""
    record = session.record
    if record.get("machine") == REFERENCE:
        return OF_REFERENCE
    told = {
        "processor": provenance.processor(),
        "libraries": provenance.libraries(),
        "engine": engine_here(session.config.policy),
    }
    unknown = [name for name in told if name not in record]
    if unknown:
        return tolerant(f"the recording does not say its {unknown[0]}")
    others = [name for name, here in told.items() if record[name] != here]
    others += [] if same_model else ["model"]
    return tolerant(f"other {' and '.join(others)}") if others else BIT_FOR_BIT


def engine_here(section: PolicySection) -> str:
    """Return the engine that a replay runs a session's model on, as a session's record names it."""
    return provenance.engine(section.model_copy(update={"engine": ENGINE}), REACTIVE)
