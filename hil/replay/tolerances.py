"""Tolerances of a replay.

With the recorded processor, libraries, engine and model, every value must be bit-exact. The version of the code does
not count: a replay exists to find its changes.

Otherwise numbers may differ by `TOLERANCES`. Integers and text must be equal. The action must be equal in
`SAME_ACTIONS` of the decisions. `tests/benchmarks/test_replay_engines.py` measures what threads, graphs and half
weights change.

A reference run (`onboard-hil update-reference`) belongs to no machine. Its actions, integers and text must be equal
everywhere, its sums up to `SUMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hil.recordings.recording import Session
from hil.replay.compared_fields import ACTION, KEYFRAME, LOGITS, MATCHING, MEMORY, OBSERVED, OWN, Difference
from onboard.assembly.policies import WITHOUT_MODEL
from onboard.config.config import PolicySection
from onboard.recording import provenance

ENGINE = "onnxruntime"
"""Engine of a replay."""
REFERENCE = "reference"
"""Recorded machine of a reference run."""

SAME_ACTIONS = 0.995
BITS = 1e-6
"""Tolerance of metres, radians and seconds, far below the resolution of any sensor."""
SINGLE_BITS = 1e-5
"""About ten units in the last place of a far range in single precision."""

LOGIT_STEPS, MEMORY_STEPS = 0.01, 0.004
"""Ten times the largest difference of half weights from single precision, in a drive of the full trained network. Other
threads and graphs differed a thousand times less."""

SUMS: Mapping[str, float] = {
    "odometry": BITS,
    "map_from_odom": BITS,
    "filtered": BITS,
    "ranges_m": SINGLE_BITS,
    "goal_distance_m": BITS,
    **{path: BITS for path in OBSERVED if not path.endswith(("previous_action", "_ns"))},
    LOGITS: SINGLE_BITS,
    OWN: SINGLE_BITS,
    "wanted": BITS,
    "command": BITS,
    MEMORY: SINGLE_BITS,
    KEYFRAME: BITS,
    MATCHING: SINGLE_BITS,
}
"""Tolerance by field for rounding on another machine; other fields must be equal."""

TOLERANCES: Mapping[str, float] = {
    **SUMS,
    "ranges_m": 1e-3,
    MATCHING: 1e-3,
    LOGITS: LOGIT_STEPS,
    OWN: LOGIT_STEPS,
    MEMORY: MEMORY_STEPS,
}
"""Tolerance by field for another processor, engine or library; other fields must be equal."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Tolerance of a session.

    description:  of the tolerance
    tolerances:   largest difference by field; other fields must be equal
    same_actions: least share of decisions with the same action
    """

    description: str = "bit for bit"
    tolerances: Mapping[str, float] = field(default_factory=dict)
    same_actions: float = 1.0

    def allows(self, one: Difference) -> bool:
        """Return whether a difference is allowed. A single action may differ if only the share counts."""
        if one.field == ACTION and self.same_actions < 1.0:
            return True
        return one.by <= self.tolerances.get(one.field, 0.0)


BIT_FOR_BIT = Measure()
OF_REFERENCE = Measure("as a reference: exact but for the last bits of sums", SUMS)


def tolerant(why: str) -> Measure:
    """Return the tolerance for a machine that computes differently. why: the reason in words."""
    return Measure(f"within tolerances: {why}", TOLERANCES, SAME_ACTIONS)


def measure_of(session: Session, *, same_model: bool = True) -> Measure:
    """Return the tolerance of a session on this machine. same_model: the recorded model decides."""
    record = session.record
    if record.get("machine") == REFERENCE:
        return OF_REFERENCE
    here = {
        "processor": provenance.processor(),
        "libraries": provenance.libraries(),
        "engine": engine_here(session.config.policy),
    }
    unknown = [name for name in here if name not in record]
    if unknown:
        return tolerant(f"the recording does not say its {unknown[0]}")
    others = [name for name, value in here.items() if record[name] != value]
    others += [] if same_model else ["model"]
    return tolerant(f"other {' and '.join(others)}") if others else BIT_FOR_BIT


def engine_here(section: PolicySection) -> str:
    """Return the name of the replay's engine in the form of a session's record."""
    return provenance.engine(section.model_copy(update={"engine": ENGINE}), WITHOUT_MODEL)
