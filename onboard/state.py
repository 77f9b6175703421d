"""The robot as two values: `Robot` is constant during a run, `RobotState` passes from tick to tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.map_tracking import MapTracking
from onboard.navigation.mission import Mission
from onboard.navigation.odometry import OdometryState
from onboard.navigation.scan_odometry import ScanOdometry
from onboard.navigation.start_frame import Start, StartFrameMotion
from onboard.perception.building.reach import Reach
from onboard.perception.free_ground import FreeGround
from onboard.perception.obstacle_memory import ObstacleMemory, Surroundings
from onboard.perception.scan_fusion import ScanMemory, Scanner
from onboard.policy.decision import DecisionState, FinishedDecision, StartedDecision
from onboard.safety.keepout_zones import MapZones, Zone
from onboard.safety.limits import LimitsState
from onboard.safety.looking import LookingState
from onboard.safety.moving import Moving
from onboard.safety.recovery import Event, RecoveryState
from onboard.values.clock import Slot
from onboard.values.messages import STOP, Inputs, Memory, Motion, Pose, Scan, Twist


@dataclass(frozen=True, slots=True)
class Robot:
    """Constants of a run.

    scanner:        makes the policy's scan
    limits_scanner: makes the limits' scan; None: the limits use the policy's scan
    initial_memory: the policy's memory after a reset
    memory_reset_s: period of resets; None: no resets
    zones:          keep-out and speed zones of the map; None without masks
    reach:          the map of the building; None without one
    """

    config: Config
    scanner: Scanner
    limits_scanner: Scanner | None
    plant: Plant
    initial_memory: Memory
    memory_reset_s: float | None
    zones: MapZones | None = None
    reach: Reach | None = None


@dataclass(frozen=True, slots=True)
class RobotState:
    """All state between two ticks.

    start:   start frame of the newest episode; None before the first goal
    pilot:   state of the decisions; keyframes of recordings use this name
    lost_ns: time at which a required input became stale; None while all are fresh
    """

    wheels: OdometryState = field(default_factory=OdometryState)
    localization: LocalizationState = field(default_factory=LocalizationState)
    scan_memory: ScanMemory = field(default_factory=ScanMemory)
    limits_scan_memory: ScanMemory = field(default_factory=ScanMemory)
    mission: Mission = field(default_factory=Mission)
    start: Start | None = None
    pilot: DecisionState = field(default_factory=DecisionState)
    recovery: RecoveryState = field(default_factory=RecoveryState)
    nearby: ObstacleMemory = field(default_factory=ObstacleMemory)
    limits: LimitsState = field(default_factory=LimitsState)
    lost_ns: int | None = None
    scan_odometry: ScanOdometry = field(default_factory=ScanOdometry)
    ground: FreeGround = field(default_factory=FreeGround)
    looking: LookingState = field(default_factory=LookingState)
    tracking: MapTracking = field(default_factory=MapTracking)
    moving: Moving = field(default_factory=Moving)


# ---- What passes between the stages of one tick


@dataclass(frozen=True, slots=True)
class PoseEstimate:
    """Where the robot is; the first five as in `RobotState`. located: in the start frame, None before the first goal"""

    wheels: OdometryState
    localization: LocalizationState
    scan_odometry: ScanOdometry
    start: Start | None
    tracking: MapTracking
    located: StartFrameMotion | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What is around the robot; scan memories, `nearby` and `ground` as in `RobotState`.

    scan:         of the policy
    surroundings: for limits and recovery: their scan, remembered obstacles and unknown ground
    zone:         of the map at this place
    moved:        images moved to now, in a tick that entered them into the obstacle memory; else None
    """

    scan: Scan
    surroundings: Surroundings
    zone: Zone
    scan_memory: ScanMemory
    limits_scan_memory: ScanMemory
    nearby: ObstacleMemory
    ground: FreeGround
    moved: Scan | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which conditions the stages after a decision run.

    goal_accepted:   a goal was accepted in this tick
    operator_drives: an operator's command is active
    lost_ns:         time at which a required input became stale, by the tick before; None while all are fresh
    engine_lost:     too many decisions in a row were late
    paused:          the drive is paused
    """

    slot: Slot
    inputs: Inputs
    goal_accepted: bool
    operator_drives: bool
    lost_ns: int | None
    engine_lost: bool
    paused: bool = False

    @property
    def held(self) -> bool:
        """Whether neither policy nor recovery moves the robot: an operator drives, or the drive is paused."""
        return self.operator_drives or self.paused


@dataclass(frozen=True, slots=True)
class Maneuver:
    """What recovery does, or the turn to look; the first two as in `RobotState`.

    override: command instead of the policy's; None to leave the policy's
    turns:    the turn to look wants a command
    event:    of the recovery
    """

    recovery: RecoveryState
    looking: LookingState
    override: Twist | None
    turns: bool
    event: Event | None


# ---- Inputs and results of one tick, to publish, record and compare


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRecord:
    """One tick: runtime, recorder, replay and report have this type; `tick_message.py` converts it for the file.

    odometry:      raw pose of the base in the odom frame, with the wheels' twist
    map_from_odom: the filter's correction; None until localised
    filtered:      filtered pose in the start frame, with twist; None before the first goal
    limits_scan:   scan of limits and recovery; the same object as `scan` unless the configuration has a `limits_scan`
    moved_scan:    images of this scan from the place of now, in a tick that remembered them or looked in them for what
                   moves; else None
    state:         text of `/onboard/state`
    wanted:        command of the policy or the recovery
    command:       command that the runtime sent
    reason:        stage or limit that shaped the command
    sent_ns:       monotonic time at which the runtime sent the command
    stage_ns:      duration of each stage of `counters.STAGES`; of "tell" that of the tick before [ns]
    after:         state after the tick; None in a tick from a recording
    keyframe:      the same state as text (`state_snapshot.decode`), in a tick from a recording; often ""
    """

    slot: Slot
    inputs: Inputs
    odometry: Motion
    map_from_odom: Pose | None = None
    filtered: Motion | None = None
    scan: Scan
    limits_scan: Scan
    moved_scan: Scan | None = None
    state: str
    episode: int = 0
    goal_distance_m: float | None = None
    sensed: StartedDecision | None = None
    acted: FinishedDecision | None = None
    recovery: str = ""
    wanted: Twist = STOP
    command: Twist
    reason: str
    sent_ns: int = 0
    stage_ns: Mapping[str, int] = field(default_factory=dict)
    after: RobotState | None = None
    events: tuple[str, ...] = ()
    keyframe: str = ""
