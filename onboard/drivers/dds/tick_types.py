"""Our own messages of the recordings, `onboard_msgs/msg/Tick` and its parts, as DDS types like those of `ros_types`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import int32, int64, sequence, uint32, uint64

from onboard.drivers.dds.ros_types import Float32s, Float64s

Strings = Annotated[Sequence[str], sequence(str)]
Int64s = Annotated[Sequence[int], sequence(int64)]
Uint64s = Annotated[Sequence[int], sequence(uint64)]


@dataclass
class WheelInput(IdlStruct, typename="onboard_msgs.msg.dds_.WheelInput_"):
    """One message of a base's wheels, bit for bit (a quaternion would lose the heading's last bit).

    stamp_ns: the sender's; arrival_ns: monotonic; pose: x, y, yaw, empty when it states none; twist: v, w
    """

    stamp_ns: int64 = 0
    arrival_ns: int64 = 0
    pose: Float64s = field(default_factory=list)
    twist: Float64s = field(default_factory=list)


@dataclass
class FixInput(IdlStruct, typename="onboard_msgs.msg.dds_.FixInput_"):
    """One localisation. pose: x, y, yaw; covariance: of these, row by row, empty when it states none."""

    stamp_ns: int64 = 0
    arrival_ns: int64 = 0
    pose: Float64s = field(default_factory=list)
    covariance: Float64s = field(default_factory=list)


@dataclass
class GoalInput(IdlStruct, typename="onboard_msgs.msg.dds_.GoalInput_"):
    """One requested goal. pose: x, y, yaw in frame_id."""

    stamp_ns: int64 = 0
    arrival_ns: int64 = 0
    frame_id: str = ""
    pose: Float64s = field(default_factory=list)


WheelInputs = Annotated[Sequence[WheelInput], sequence(WheelInput)]
FixInputs = Annotated[Sequence[FixInput], sequence(FixInput)]
GoalInputs = Annotated[Sequence[GoalInput], sequence(GoalInput)]


@dataclass
class TickMessage(IdlStruct, typename="onboard_msgs.msg.dds_.Tick_"):
    """One tick as recordings have it: a `TickRecord` in types that IDL knows (`onboard/recording/tick_message.py`).

    Times are monotonic [ns]; poses x, y, yaw [m, rad]; twists v, w [m/s, rad/s].

    camera_*:     the frames that it consumed, by name, number and capture time
    wheel, fix, goal_inputs: the messages of that kind that it consumed, oldest first; for other tools they stand before
                  it in the file too, on their topics and with the same time
    odometry:     x, y, yaw, v, w in the odom frame
    map_from_odom, filtered, localization, goal_distance_m: empty when absent; filtered and localization in the start
                  frame (5)
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
    wheel_inputs: WheelInputs = field(default_factory=list)
    fix_inputs: FixInputs = field(default_factory=list)
    goal_inputs: GoalInputs = field(default_factory=list)
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
    limits_scan_stamp_ns: int64 = 0
    goal_distance_m: Float64s = field(default_factory=list)
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
