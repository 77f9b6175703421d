"""Our own message of the recordings, `onboard_msgs/msg/Tick`, as a DDS type like those of `ros_types`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import int32, int64, sequence, uint32, uint64

from onboard.drivers.ros_types import Float32s, Float64s

Strings = Annotated[Sequence[str], sequence(str)]
Int64s = Annotated[Sequence[int], sequence(int64)]
Uint64s = Annotated[Sequence[int], sequence(uint64)]


@dataclass
class Tick(IdlStruct, typename="onboard_msgs.msg.dds_.Tick_"):
    """One tick. Times are monotonic [ns]; poses x, y, yaw [m, rad]; twists v, w [m/s, rad/s].

    camera_*:     the frames that it consumed, by name, number and capture time
    *_messages:   how many messages of that kind it consumed; they stand before it in the file with the same time
    odometry:     x, y, yaw, v, w in the odom frame
    map_from_odom, filtered, localization: empty when absent; filtered and localization in the start frame (5)
    sensed:       number of the decision that began here, 0 when none; observation_* is what it saw
    acted:        number of the decision that was due here, 0 when none; action -1 is a miss or a fault
    scans:        topics of the ready-made scans that came in this tick; they stand before it with the same time
    speed_limit_mps: newest word of /speed_limit, empty before the first
    e_stop, obstacle: -1 not heard yet, 0, 1
    stage_*:      time of each stage [ns]
    """

    slot: uint64 = 0
    deadline_ns: int64 = 0
    start_ns: int64 = 0
    missed: uint32 = 0
    cameras: Strings = field(default_factory=list)
    camera_frames: Uint64s = field(default_factory=list)
    camera_stamps_ns: Int64s = field(default_factory=list)
    odometry_messages: uint32 = 0
    fix_messages: uint32 = 0
    goal_messages: uint32 = 0
    cancel: bool = False
    e_stop: int32 = -1
    obstacle: int32 = -1
    teleop_arrival_ns: int64 = 0
    teleop: Float64s = field(default_factory=list)
    scans: Strings = field(default_factory=list)
    speed_limit_mps: Float64s = field(default_factory=list)
    state: str = ""
    episode: uint32 = 0
    events: Strings = field(default_factory=list)
    odometry: Float64s = field(default_factory=list)
    map_from_odom: Float64s = field(default_factory=list)
    filtered: Float64s = field(default_factory=list)
    scan_stamp_ns: int64 = 0
    sensed: uint64 = 0
    memory_reset: str = ""
    goal: Float64s = field(default_factory=list)
    previous_action: int32 = -1
    observation_odometry: Float64s = field(default_factory=list)
    localization: Float64s = field(default_factory=list)
    localization_age_ns: int64 = 0
    acted: uint64 = 0
    action: int32 = -1
    logits: Float32s = field(default_factory=list)
    decision_elapsed_ns: int64 = 0
    fault: str = ""
    recovery: str = ""
    wanted: Float64s = field(default_factory=list)
    command: Float64s = field(default_factory=list)
    reason: str = ""
    sent_ns: int64 = 0
    stages: Strings = field(default_factory=list)
    stage_ns: Int64s = field(default_factory=list)
