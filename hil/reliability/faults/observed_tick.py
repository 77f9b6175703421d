"""What a judge asks of a tick: of a run, of a recording, or of a command that was heard on the wire."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onboard.navigation.mission import DRIVING
from onboard.state import TickRecord
from onboard.values.clock import Slot
from onboard.values.messages import BINS, STOP, Inputs, Motion, Pose, Scan, Twist

DRIVING_WORDS = tuple(state.value for state in DRIVING)
NOT_TOLD = ""
"""The reason of a command that was heard on the wire: what shaped it, and what came in, is not known."""


def stands(tick: TickRecord) -> bool:
    """Return whether the robot is told to stand."""
    return tick.command == STOP


def driving(tick: TickRecord) -> bool:
    """Return whether a goal is being driven to."""
    return tick.state.startswith(DRIVING_WORDS)


def stamps_ns(inputs: Inputs) -> Mapping[str, int]:
    """Return when what is newest of each camera that works, and of each ready-made scan by its topic, was taken."""
    frames = {name: frame.stamp_ns for name, frame in inputs.depth.items()}
    return frames | {topic: scan.stamp_ns for topic, scan in inputs.scans.items()}


def off_the_wire(number: int, now_ns: int, command: Twist, state: str) -> TickRecord:
    """Return a command that was heard on the wire as a tick of which nothing else is known (`NOT_TOLD`)."""
    unseen = Scan(now_ns, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))
    return TickRecord(
        slot=Slot(number, now_ns, now_ns, 0),
        inputs=Inputs(now_ns),
        odometry=Motion(Pose(0.0, 0.0, 0.0), STOP),
        map_from_odom=None,
        filtered=None,
        scan=unseen,
        limits_scan=unseen,
        state=state,
        episode=0,
        goal_distance_m=None,
        sensed=None,
        acted=None,
        recovery="",
        wanted=STOP,
        command=command,
        reason=NOT_TOLD,
        sent_ns=now_ns,
        stage_ns={},
        after=None,
    )
