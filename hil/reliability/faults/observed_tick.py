"""Properties of a tick for the checks. A tick comes from a run, a recording or a command received over DDS."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onboard.navigation.mission import drives
from onboard.state import TickRecord
from onboard.values.clock import Slot
from onboard.values.messages import BINS, STOP, Inputs, Motion, Pose, Scan, Twist

UNKNOWN = ""
"""Reason of a command received over DDS: its cause and the inputs of its tick are unknown."""


def is_stop(tick: TickRecord) -> bool:
    """Return whether the command is a stop."""
    return tick.command == STOP


def driving(tick: TickRecord) -> bool:
    """Return whether the robot drives to a goal."""
    return drives(tick.state)


def stamps_ns(inputs: Inputs) -> Mapping[str, int]:
    """Return the stamps [ns] of the newest images, by camera, and of the newest ready-made scans, by topic."""
    frames = {name: frame.stamp_ns for name, frame in inputs.depth.items()}
    return frames | {topic: scan.stamp_ns for topic, scan in inputs.scans.items()}


def off_the_wire(number: int, now_ns: int, command: Twist, state: str) -> TickRecord:
    """Return a command received over DDS as a tick; its other fields are unknown (`UNKNOWN`)."""
    unseen = Scan(now_ns, np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_))
    return TickRecord(
        slot=Slot(number, now_ns, now_ns, 0),
        inputs=Inputs(now_ns),
        odometry=Motion(Pose(0.0, 0.0, 0.0), STOP),
        scan=unseen,
        limits_scan=unseen,
        state=state,
        command=command,
        reason=UNKNOWN,
        sent_ns=now_ns,
    )
