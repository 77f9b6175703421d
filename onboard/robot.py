"""The robot as two values: what does not change during a run, and what lives between two ticks."""

from __future__ import annotations

from dataclasses import dataclass, field

from onboard.config import Config
from onboard.keep_out import MapZones
from onboard.limits import LimitsState
from onboard.localization import LocalizationState
from onboard.messages import Memory
from onboard.mission import Mission
from onboard.motion import Plant
from onboard.nearby import Nearby
from onboard.odometry import OdometryState
from onboard.pilot import Pilot
from onboard.recovery import RecoveryState
from onboard.scan import ScanMemory, Scanner
from onboard.start import Start


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
    lost_ns: since when an input that driving needs has been stale, None while all are fresh
    """

    wheels: OdometryState = field(default_factory=OdometryState)
    localization: LocalizationState = field(default_factory=LocalizationState)
    scan_memory: ScanMemory = field(default_factory=ScanMemory)
    limits_scan_memory: ScanMemory = field(default_factory=ScanMemory)
    mission: Mission = field(default_factory=Mission)
    start: Start | None = None
    pilot: Pilot = field(default_factory=Pilot)
    recovery: RecoveryState = field(default_factory=RecoveryState)
    nearby: Nearby = field(default_factory=Nearby)
    limits: LimitsState = field(default_factory=LimitsState)
    lost_ns: int | None = None
