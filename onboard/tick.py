"""What one tick consumed and produced, as a value: for publishing, recording and comparing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onboard.messages import Inputs, Motion, Pose, Scan, Twist
from onboard.pilot import Acted, Sensed
from onboard.scheduler import Slot

if TYPE_CHECKING:
    from onboard.robot import RobotState


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One tick, whole.

    odometry:      raw pose of the base in the odom frame, with the wheels' twist
    map_from_odom: the filter's correction; None until localised
    filtered:      filtered pose in the start frame, with twist; None before the first goal
    state:         as `/onboard/state` shows it
    wanted:        what the policy or the recovery wanted
    command:       what went out, and `reason`, what shaped it
    limits_scan:   what limits and recovery looked at; the same object as `scan` unless configured apart
    sent_ns:       when it went out, monotonic
    stage_ns:      time of each stage but the last, the telling of this (counters.STAGES) [ns]
    after:         the whole state that the next tick begins with
    """

    slot: Slot
    inputs: Inputs
    odometry: Motion
    map_from_odom: Pose | None
    filtered: Motion | None
    scan: Scan
    limits_scan: Scan
    state: str
    episode: int
    goal_distance_m: float | None
    sensed: Sensed | None
    acted: Acted | None
    recovery: str
    wanted: Twist
    command: Twist
    reason: str
    sent_ns: int
    stage_ns: Mapping[str, int]
    after: RobotState
    events: tuple[str, ...] = ()
