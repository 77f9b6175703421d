"""The robot as two values: what does not change during a run, and what lives between two ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import Mission
from onboard.navigation.odometry import OdometryState
from onboard.navigation.start_frame import Start
from onboard.perception.obstacle_memory import Nearby
from onboard.perception.scan_fusion import ScanMemory, Scanner
from onboard.policy.decision import Acted, DecisionState, Sensed
from onboard.safety.keepout_zones import MapZones
from onboard.safety.limits import LimitsState
from onboard.safety.recovery import RecoveryState
from onboard.values.clock import Slot
from onboard.values.messages import Inputs, Memory, Motion, Pose, Scan, Twist


@dataclass(frozen=True, slots=True)
class Robot:
    """What does not change during a run.

    scanner:        of the scan that the policy sees; limits_scanner: of the one for the limits, None is the same
    initial_memory: the policy's memory after a reset; memory_reset_s: how often, None is never
    zones:          where the map says that it may not go, or not fast; None where there are no such masks
    """

    config: Config
    scanner: Scanner
    limits_scanner: Scanner | None
    plant: Plant
    initial_memory: Memory
    memory_reset_s: float | None
    zones: MapZones | None = None


@dataclass(frozen=True, slots=True)
class RobotState:
    """Everything that lives between two ticks.

    start:   of the newest episode, None before the first goal
    pilot:   where decision making stands; keyframes of recordings have it under this name
    lost_ns: since when an input that driving needs has been stale, None while all are fresh
    """

    wheels: OdometryState = field(default_factory=OdometryState)
    localization: LocalizationState = field(default_factory=LocalizationState)
    scan_memory: ScanMemory = field(default_factory=ScanMemory)
    limits_scan_memory: ScanMemory = field(default_factory=ScanMemory)
    mission: Mission = field(default_factory=Mission)
    start: Start | None = None
    pilot: DecisionState = field(default_factory=DecisionState)
    recovery: RecoveryState = field(default_factory=RecoveryState)
    nearby: Nearby = field(default_factory=Nearby)
    limits: LimitsState = field(default_factory=LimitsState)
    lost_ns: int | None = None


# ---- What one tick consumed and produced, as a value: for publishing, recording and comparing


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One tick, whole: as the runtime lives it, and as `onboard/recording/tick_message.py` reads it from a recording.

    odometry:      raw pose of the base in the odom frame, with the wheels' twist
    map_from_odom: the filter's correction; None until localised
    filtered:      filtered pose in the start frame, with twist; None before the first goal
    state:         as `/onboard/state` shows it
    wanted:        what the policy or the recovery wanted
    command:       what went out, and `reason`, what shaped it
    limits_scan:   what limits and recovery looked at; the same object as `scan` unless configured apart
    sent_ns:       when it went out, monotonic
    stage_ns:      time of each stage but the last, the telling of this (counters.STAGES) [ns]
    after:         the whole state that the next tick begins with; None of a tick that was read from a recording,
                   which has it as text, `keyframe`, where it has it (`state_snapshot.decode`)
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
    after: RobotState | None
    events: tuple[str, ...] = ()
    keyframe: str = ""
