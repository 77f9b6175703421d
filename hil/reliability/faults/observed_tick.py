"""A tick as a judge sees it: what came in, what went out, and when; of a run, of a recording, or off the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from onboard.navigation.mission import DRIVING
from onboard.state import TickRecord
from onboard.values.messages import STOP, Inputs, OdometryMessage, Pose, Teleop, Twist

DRIVING_WORDS = tuple(state.value for state in DRIVING)


class Due(Enum):
    """What came of a decision that was due in a tick."""

    NOTHING = "nothing was due"
    MADE = "made"
    MISSED = "missed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One tick.

    missed:    slots left out just before it
    command:   what went out, and `reason`, what shaped it
    state:     as `/onboard/state` shows it
    backing:   whether the recovery drove
    stamps_ns: when what is newest of each camera that works, and of each ready-made scan by its topic, was taken
    goals:     asked for in this tick
    filtered:  where the robot believes to be, in the start frame; None before the first goal
    wanted:    by policy, recovery or operator, before the limits; a stop where nobody wanted anything
    heard:     whether what came in is known; off the wire it is not
    obstacle:  last word of `/obstacle`
    """

    slot: int
    now_ns: int
    missed: int
    command: Twist
    reason: str
    state: str
    backing: bool = False
    odometry: tuple[OdometryMessage, ...] = ()
    stamps_ns: Mapping[str, int] = field(default_factory=dict)
    e_stop: bool | None = None
    goals: int = 0
    teleop: Teleop | None = None
    due: Due = Due.NOTHING
    filtered: Pose | None = None
    wanted: Twist = STOP
    heard: bool = True
    obstacle: bool | None = None

    @property
    def stands(self) -> bool:
        """Whether the robot is told to stand."""
        return self.command == STOP

    @property
    def driving(self) -> bool:
        """Whether a goal is being driven to."""
        return self.state.startswith(DRIVING_WORDS)


def step_of(record: TickRecord) -> Step:
    """Return a tick of the runtime or of a recording."""
    due = Due.NOTHING
    if record.acted is not None:
        due = Due.FAILED if record.acted.fault else Due.MISSED if record.acted.decision is None else Due.MADE
    slot, inputs = record.slot, record.inputs
    return Step(
        slot.number, slot.start_ns, slot.missed, record.command, record.reason, record.state, bool(record.recovery),
        inputs.odometry, _stamps(inputs), inputs.e_stop, len(inputs.goals), inputs.teleop, due,
        None if record.filtered is None else record.filtered.pose, record.wanted, obstacle=inputs.obstacle,
    )  # fmt: skip


def _stamps(inputs: Inputs) -> dict[str, int]:
    frames = {name: frame.stamp_ns for name, frame in inputs.depth.items()}
    return frames | {topic: scan.stamp_ns for topic, scan in inputs.scans.items()}
