"""Converts a tick to its message in a recording, bit-exact, and back.

Scans are separate messages, and so are the images of a tick in which a decision senses. Not recorded: when a decision
sensed and finished, and the map's zones in the policy's scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import rays_from_ros
from onboard.drivers.dds.tick_types import FixInput, GoalInput, TickMessage, WheelInput
from onboard.policy.contract import ACTIONS
from onboard.policy.decision import FinishedDecision, StartedDecision
from onboard.recording.added_inputs import NOTHING, AddedInputs, completed, measured
from onboard.recording.earlier_reasons import today
from onboard.recording.state_snapshot import without_images
from onboard.state import TickRecord
from onboard.values.clock import Slot
from onboard.values.errors import InputError
from onboard.values.messages import (
    BINS,
    ColorFrame,
    Decision,
    DepthFrame,
    Fix,
    GoalRequest,
    Inputs,
    Motion,
    Observation,
    OdometryMessage,
    Pose,
    Scan,
    Teleop,
    Twist,
)

TICK_TOPIC = "/onboard/tick"
DECISION_TOPIC = "/onboard/decision"
"""A geometry_msgs/Twist before the tick that applies a decision with an own velocity pair (`Decision.own`)."""
KEYFRAME_TOPIC = "/onboard/keyframe"
MOVED_TOPIC = "/onboard/moved_scan"
"""A sensor_msgs/LaserScan before the tick that looked in it for what moves (`TickRecord.moved_scan`)."""
COLOR = "color"
"""Name of the colour camera in a tick."""
NO_ACTION = -1
DEPTH_ENCODING, COLOR_ENCODING = "16UC1", "rgb8"
NO_DEPTH = np.zeros((0, 0), np.uint16)
NO_COLOR = np.zeros((0, 0, 3), np.uint8)
"""Empty images, for frames with only name, number and time."""


def tick_message(tick: TickRecord) -> TickMessage:
    """Return the message of a tick."""
    inputs, sensed, acted = tick.inputs, tick.sensed, tick.acted
    message = TickMessage(
        slot=tick.slot.number,
        deadline_ns=tick.slot.deadline_ns,
        start_ns=tick.slot.start_ns,
        missed=tick.slot.missed,
        cameras=list(inputs.depth) + ([COLOR] if inputs.color else []),
        camera_frames=[f.number for f in inputs.depth.values()] + ([inputs.color.number] if inputs.color else []),
        camera_stamps_ns=[f.stamp_ns for f in inputs.depth.values()]
        + ([inputs.color.stamp_ns] if inputs.color else []),
        wheel_inputs=[
            WheelInput(one.stamp_ns, one.arrival_ns, _pose_values(one.pose), _twist_values(one.twist))
            for one in inputs.odometry
        ],
        fix_inputs=[
            FixInput(fix.stamp_ns, fix.arrival_ns, _pose_values(fix.pose), _covariance_values(fix.covariance))
            for fix in inputs.fixes
        ],
        goal_inputs=[
            GoalInput(goal.stamp_ns, goal.arrival_ns, goal.frame_id, _pose_values(goal.pose)) for goal in inputs.goals
        ],
        cancel=inputs.cancel,
        e_stop=_flag_value(inputs.e_stop),
        obstacle=_flag_value(inputs.obstacle),
        scans=new_scans(tick),
        speed_limit_mps=[] if inputs.speed_limit_mps is None else [inputs.speed_limit_mps],
        state=tick.state,
        episode=tick.episode,
        events=list(tick.events),
        odometry=_motion_values(tick.odometry),
        map_from_odom=_pose_values(tick.map_from_odom),
        filtered=_motion_values(tick.filtered),
        scan_stamp_ns=tick.scan.stamp_ns,
        limits_scan_stamp_ns=tick.limits_scan.stamp_ns,
        goal_distance_m=[] if tick.goal_distance_m is None else [tick.goal_distance_m],
        recovery=tick.recovery,
        wanted=_twist_values(tick.wanted),
        command=_twist_values(tick.command),
        reason=tick.reason,
        sent_ns=tick.sent_ns,
        stages=list(tick.stage_ns),
        stage_ns=list(tick.stage_ns.values()),
    )
    if inputs.teleop is not None:
        message.teleop_arrival_ns, message.teleop = inputs.teleop.arrival_ns, _twist_values(inputs.teleop.twist)
    if sensed is not None:
        seen = sensed.observation
        message.sensed, message.memory_reset = sensed.number, sensed.memory_reset
        message.goal, message.previous_action = list(seen.goal_xy_m), seen.previous_action
        message.observation_odometry = _motion_values(seen.odometry)
        message.localization = _motion_values(seen.localization)
        message.localization_age_ns = seen.localization_age_ns or 0
    if acted is not None:
        message.acted, message.fault = acted.number, acted.fault
        message.decision_elapsed_ns = acted.elapsed_ns
        if acted.decision is not None:
            message.action, message.logits = acted.decision.action, acted.decision.logits.tolist()
    return message


def action_of(tick: TickRecord) -> int:
    """Return the action that a tick applied, or `NO_ACTION`."""
    return NO_ACTION if tick.acted is None or tick.acted.decision is None else tick.acted.decision.action


def new_scans(tick: TickRecord) -> list[str]:
    """Return the topics with a new ready-made scan in this tick. Without an arrival time, the stamp is the arrival."""
    inputs = tick.inputs
    came_ns = {
        name: scan.stamp_ns if scan.arrival_ns is None else scan.arrival_ns for name, scan in inputs.scans.items()
    }
    return [name for name, at_ns in came_ns.items() if at_ns == inputs.now_ns]


def _flag_value(value: bool | None) -> int:
    return -1 if value is None else int(value)


def _twist_values(twist: Twist) -> Sequence[float]:
    return [twist.v_mps, twist.w_radps]


def _pose_values(pose: Pose | None) -> Sequence[float]:
    return [] if pose is None else [pose.x_m, pose.y_m, pose.yaw_rad]


def _covariance_values(values: npt.NDArray[np.float64] | None) -> Sequence[float]:
    return [] if values is None else [float(value) for value in values.flat]


def _motion_values(motion: Motion | None) -> Sequence[float]:
    return [] if motion is None else [*_pose_values(motion.pose), *_twist_values(motion.twist)]


# ---- From the message back to the tick


def tick_record(
    message: TickMessage,
    images: Mapping[str, ros.Image],
    scans: tuple[Scan, Scan],
    ready_made: Mapping[str, Scan],
    keyframe: str = "",
    own: Twist | None = None,
    added: AddedInputs = NOTHING,
    moved_scan: Scan | None = None,
) -> TickRecord:
    """Return the tick of a message.

    images:     recorded images by camera; other frames have no image, as in `imageless`
    scans:      the policy's and the limits' scan; the same object if both are the same
    ready_made: newest ready-made scan of each topic
    own:        `Decision.own` of the decision that the tick applies
    added:      inputs that the message has no field for
    Raises InputError for an invalid message.
    """
    if not NO_ACTION <= message.action < len(ACTIONS):
        raise InputError(f"action {message.action}, must be {NO_ACTION} to {len(ACTIONS) - 1}")
    inputs = _inputs(message, images, ready_made, added)
    return TickRecord(
        slot=Slot(message.slot, message.deadline_ns, message.start_ns, message.missed),
        inputs=inputs,
        odometry=_motion_of(message.odometry),
        map_from_odom=_pose_of(message.map_from_odom) if message.map_from_odom else None,
        filtered=_motion_of(message.filtered) if message.filtered else None,
        scan=scans[0],
        limits_scan=scans[1],
        moved_scan=moved_scan,
        state=today(message.state),
        episode=message.episode,
        goal_distance_m=message.goal_distance_m[0] if message.goal_distance_m else None,
        sensed=_sensed(message, inputs.color, scans[0]) if message.sensed else None,
        acted=_acted(message, own) if message.acted else None,
        recovery=message.recovery,
        wanted=_twist_of(message.wanted),
        command=_twist_of(message.command),
        reason=message.reason,
        sent_ns=message.sent_ns,
        stage_ns=dict(zip(message.stages, message.stage_ns, strict=True)),
        events=tuple(map(today, message.events)),
        keyframe=keyframe,
    )


def _inputs(
    message: TickMessage, images: Mapping[str, ros.Image], ready_made: Mapping[str, Scan], added: AddedInputs
) -> Inputs:
    depth: dict[str, DepthFrame] = {}
    color: ColorFrame | None = None
    frames = zip(message.cameras, message.camera_frames, message.camera_stamps_ns, strict=True)
    for name, number, stamp_ns in frames:
        image = images.get(name)
        if name == COLOR:
            color = ColorFrame(number, stamp_ns, NO_COLOR if image is None else _color_image(image))
        else:
            depth[name] = DepthFrame(name, number, stamp_ns, NO_DEPTH if image is None else _depth_image(name, image))
    return Inputs(
        now_ns=message.start_ns,
        depth=depth,
        color=color,
        odometry=measured(tuple(_wheels(wheel_input) for wheel_input in message.wheel_inputs), added),
        fixes=tuple(_fix(fix_input) for fix_input in message.fix_inputs),
        goals=completed(tuple(_goal(goal_input) for goal_input in message.goal_inputs), added),
        cancel=message.cancel,
        obstacle=_flag_of(message.obstacle),
        e_stop=_flag_of(message.e_stop),
        teleop=Teleop(message.teleop_arrival_ns, _twist_of(message.teleop)) if message.teleop else None,
        scans=ready_made,
        speed_limit_mps=message.speed_limit_mps[0] if message.speed_limit_mps else None,
        pause=added.pause,
        battery=added.battery,
        imu=added.imu,
    )


def _sensed(message: TickMessage, color: ColorFrame | None, scan: Scan) -> StartedDecision:
    localization = _motion_of(message.localization) if message.localization else None
    x_m, y_m = _checked_length("a goal", message.goal, 2)
    observation = Observation(
        stamp_ns=message.start_ns,
        color=color,
        scan=scan,
        odometry=_motion_of(message.observation_odometry),
        localization=localization,
        localization_age_ns=None if localization is None else message.localization_age_ns,
        filtered=_motion_of(message.filtered),
        goal_xy_m=(x_m, y_m),
        previous_action=message.previous_action,
    )
    return StartedDecision(message.sensed, observation, message.memory_reset)


def _acted(message: TickMessage, own: Twist | None) -> FinishedDecision:
    logits = np.array(message.logits, np.float32)
    decision = None if message.action == NO_ACTION else Decision(message.action, logits, own)
    return FinishedDecision(message.acted, 0, decision, message.decision_elapsed_ns, fault=message.fault)


def scan_of(message: ros.LaserScan, stamp_ns: int) -> Scan:
    """Return a scan from a message of `ros_convert.ros_scan`. Raises InputError for another number of bins."""
    ranges = rays_from_ros(message).ranges_m
    if ranges.shape != (BINS,):
        raise InputError(f"a scan of {len(ranges)} ranges, must be {BINS}")
    seen = ~np.isnan(ranges)
    return Scan(stamp_ns, np.where(seen, ranges, np.float32(np.inf)), seen)


def _depth_image(name: str, image: ros.Image) -> npt.NDArray[np.uint16]:
    if image.encoding != DEPTH_ENCODING:
        raise InputError(f"camera {name}: its image is {image.encoding}, must be {DEPTH_ENCODING}")
    return np.frombuffer(image.data, np.uint16).reshape(image.height, image.width)


def _color_image(image: ros.Image) -> npt.NDArray[np.uint8]:
    if image.encoding != COLOR_ENCODING:
        raise InputError(f"camera {COLOR}: its image is {image.encoding}, must be {COLOR_ENCODING}")
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, 3)


def _wheels(one: WheelInput) -> OdometryMessage:
    return OdometryMessage(one.stamp_ns, one.arrival_ns, _pose_of(one.pose) if one.pose else None, _twist_of(one.twist))


def _fix(one: FixInput) -> Fix:
    covariance = np.array(one.covariance, np.float64).reshape(3, 3) if one.covariance else None
    return Fix(one.stamp_ns, one.arrival_ns, _pose_of(one.pose), covariance)


def _goal(one: GoalInput) -> GoalRequest:
    return GoalRequest(one.stamp_ns, one.arrival_ns, one.frame_id, _pose_of(one.pose))


def _flag_of(value: int) -> bool | None:
    return None if value < 0 else bool(value)


def _twist_of(values: Sequence[float]) -> Twist:
    return Twist(*_checked_length("a twist", values, 2))


def _pose_of(values: Sequence[float]) -> Pose:
    return Pose(*_checked_length("a pose", values, 3))


def _motion_of(values: Sequence[float]) -> Motion:
    five = _checked_length("a pose with its twist", values, 5)
    return Motion(_pose_of(five[:3]), _twist_of(five[3:]))


def _checked_length(what: str, values: Sequence[float], count: int) -> Sequence[float]:
    if len(values) != count:
        raise InputError(f"{what} of {len(values)} numbers, must be {count}")
    return values


# ---- Ticks without all of their images


def has_images(tick: TickRecord) -> bool:
    """Return whether a decision began in a tick and every depth frame has its image."""
    return tick.sensed is not None and all(frame.depth.size for frame in tick.inputs.depth.values())


def only_with_images(inputs: Inputs) -> Inputs:
    """Return the inputs without frames that have no image."""
    depth = {name: frame for name, frame in inputs.depth.items() if frame.depth.size}
    color = inputs.color if inputs.color is not None and inputs.color.image.size else None
    return replace(inputs, depth=depth, color=color)


def imageless(tick: TickRecord) -> TickRecord:
    """Return the tick without images; its frames keep names, numbers and times."""
    inputs = tick.inputs
    bare = replace(
        inputs,
        depth={name: replace(frame, depth=NO_DEPTH) for name, frame in inputs.depth.items()},
        color=None if inputs.color is None else replace(inputs.color, image=NO_COLOR),
    )
    return replace(tick, inputs=bare, after=None if tick.after is None else without_images(tick.after))
