"""Puts ticks into the recording: what each consumed on its ROS topic, then `/onboard/tick` with what it produced.

Every `KEYFRAME_S`, and after each reset of the memory, the whole state follows as `/onboard/keyframe` (`keyframe.py`),
once no decision is under way: a replay can begin there.

All messages of one tick carry the tick's start as their time. Depth and colour images are recorded losslessly in the
ticks in which a decision senses; in the others the scan stands for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from cyclonedds.idl import IdlStruct

from onboard.config import DdsSection
from onboard.drivers import ros_messages as convert
from onboard.drivers import ros_types as ros
from onboard.drivers.dds_topics import ros_topic, scan_source
from onboard.drivers.onboard_types import FixInput, GoalInput, Tick, WheelInput
from onboard.drivers.ros_schema import message_type
from onboard.drivers.ros_types import to_cdr
from onboard.keyframe import encode
from onboard.messages import Fix, Motion, Pose, Scan, Twist
from onboard.mounts import Mounts
from onboard.record import Recorder
from onboard.scheduler import NS_PER_S, wall_ns
from onboard.tick import TickRecord

TICK_TOPIC = "/onboard/tick"
KEYFRAME_TOPIC = "/onboard/keyframe"
KEYFRAME_S = 10.0
SMALL_BYTES = 2_000
"""What a message without an image holds in memory while it waits, roughly, for the bound of the queue."""


class TickRecorder:
    """Records ticks with a `Recorder`. `record` only queues; messages are made in the recorder's thread.

    The scan of the limits is recorded where it is another than the policy's; one that came ready-made also as it came.
    """

    def __init__(self, recorder: Recorder, section: DdsSection, mounts: Mounts, range_max_m: float) -> None:
        self._recorder = recorder
        self._section = section
        self._range_max_m = range_max_m
        self._state = ""
        self._words: dict[str, bool | None] = {"e_stop": None, "obstacle": None}
        self._teleop_ns = 0
        self._speed_limit_mps: float | None = None
        self._undescribed: Mounts | None = mounts
        self._keyframe_due_ns = 0

    def record(self, tick: TickRecord) -> None:
        """Queue everything of one tick; before the first, where the cameras sit."""
        if self._undescribed is not None:
            self._describe_robot(self._undescribed, tick.slot.start_ns)
            self._undescribed = None
        self._inputs(tick)
        if tick.sensed is not None:
            self._images(tick)
        self._outputs(tick)
        self._put(TICK_TOPIC, Tick, partial(tick_message, tick), tick)
        self._keyframe(tick)

    def _keyframe(self, tick: TickRecord) -> None:
        """Queue the state after a tick when it is due, and no decision is under way."""
        now_ns = tick.slot.start_ns
        if tick.sensed is not None and tick.sensed.memory_reset:
            self._keyframe_due_ns = now_ns
        if now_ns >= self._keyframe_due_ns and tick.after.pilot.pending is None:
            self._keyframe_due_ns = now_ns + round(KEYFRAME_S * NS_PER_S)
            self._put(KEYFRAME_TOPIC, ros.String, lambda: ros.String(encode(tick.after)), tick)

    def _inputs(self, tick: TickRecord) -> None:
        base, odom = self._section.base_frame, self._section.odom_frame
        for message in tick.inputs.odometry:
            pose = message.pose or Pose(0.0, 0.0, 0.0)
            make = partial(convert.ros_odometry, message.stamp_ns, odom, base, pose, message.twist)
            self._topic("odom", make, tick)
        for fix in tick.inputs.fixes:
            self._topic("amcl_pose", partial(fix_message, fix, self._section.map_frame), tick)
        for goal in tick.inputs.goals:
            self._topic("goal_pose", partial(convert.ros_goal, goal.stamp_ns, goal.frame_id, goal.pose), tick)
        for name in ("e_stop", "obstacle"):
            word = getattr(tick.inputs, name)
            if word is not None and word != self._words[name]:
                self._topic(name, partial(ros.Bool, word), tick)
            self._words[name] = word
        teleop = tick.inputs.teleop
        if teleop is not None and teleop.arrival_ns != self._teleop_ns:
            self._teleop_ns = teleop.arrival_ns
            self._topic("cmd_vel_teleop", partial(convert.ros_twist, teleop.twist), tick)
        if tick.inputs.cancel:
            self._topic("cancel", ros.Empty, tick)
        limit_mps = tick.inputs.speed_limit_mps
        if limit_mps is not None and not _same(limit_mps, self._speed_limit_mps):
            self._topic("speed_limit", partial(convert.ros_speed_limit, wall_ns(), limit_mps), tick)
        self._speed_limit_mps = limit_mps
        for name in new_scans(tick):
            came = partial(self._scan, tick.inputs.scans[name], wall_ns())
            self._put(ros_topic(self._section, scan_source(name)), ros.LaserScan, came, tick)

    def _images(self, tick: TickRecord) -> None:
        wall_minus_monotonic_ns = wall_ns() - tick.slot.start_ns
        for name, frame in tick.inputs.depth.items():
            stamp_ns = wall_minus_monotonic_ns + frame.stamp_ns
            make = partial(convert.ros_image, stamp_ns, convert.optical_frame(name), "16UC1", frame.depth)
            self._topic(f"{name}/depth/image", make, tick, frame.depth.nbytes)
        color = tick.inputs.color
        if color is not None:
            stamp_ns = wall_minus_monotonic_ns + color.stamp_ns
            make = partial(convert.ros_image, stamp_ns, convert.optical_frame("color"), "rgb8", color.image)
            self._topic("color/image", make, tick, color.image.nbytes)

    def _outputs(self, tick: TickRecord) -> None:
        stamp_ns = wall_ns()
        self._topic("scan", partial(self._scan, tick.scan, stamp_ns), tick)
        if tick.limits_scan is not tick.scan:
            self._topic("limits_scan", partial(self._scan, tick.limits_scan, stamp_ns), tick)
        self._topic("cmd_vel", lambda: convert.ros_twist(tick.command), tick)
        self._topic("tf", lambda: self._transforms(tick, stamp_ns), tick)
        if tick.state != self._state:
            self._state = tick.state
            self._topic("state", partial(ros.String, tick.state), tick)

    def _scan(self, scan: Scan, stamp_ns: int) -> ros.LaserScan:
        return convert.ros_scan(stamp_ns, self._section.base_frame, scan, self._range_max_m)

    def _transforms(self, tick: TickRecord, stamp_ns: int) -> ros.TFMessage:
        section = self._section
        moving = [convert.ros_transform(stamp_ns, section.odom_frame, section.base_frame, tick.odometry.pose)]
        if tick.map_from_odom is not None:
            moving.append(convert.ros_transform(stamp_ns, section.map_frame, section.odom_frame, tick.map_from_odom))
        return ros.TFMessage(moving)

    def _describe_robot(self, mounts: Mounts, now_ns: int) -> None:
        cameras = [*mounts.depth.values(), *mounts.color.values()]
        static = ros.TFMessage(
            [convert.ros_mount_transform(wall_ns(), self._section.base_frame, mount) for mount in cameras]
        )
        topic = ros_topic(self._section, "tf_static")
        self._recorder.write(topic, message_type(ros.TFMessage), to_cdr(static), now_ns, latched=True)

    def _topic(self, name: str, make: Callable[[], IdlStruct], tick: TickRecord, held_bytes: int = SMALL_BYTES) -> None:
        kind = KINDS.get(name, ros.Image)
        self._put(ros_topic(self._section, name), kind, make, tick, held_bytes)

    def _put(
        self,
        topic: str,
        kind: type[IdlStruct],
        make: Callable[[], IdlStruct],
        tick: TickRecord,
        held_bytes: int = SMALL_BYTES,
    ) -> None:
        self._recorder.write(
            topic, message_type(kind), lambda: to_cdr(make()), tick.slot.start_ns, held_bytes=held_bytes
        )


KINDS: dict[str, type[IdlStruct]] = {
    "odom": ros.Odometry,
    "amcl_pose": ros.PoseWithCovarianceStamped,
    "goal_pose": ros.PoseStamped,
    "e_stop": ros.Bool,
    "obstacle": ros.Bool,
    "cmd_vel_teleop": ros.Twist,
    "cancel": ros.Empty,
    "scan": ros.LaserScan,
    "limits_scan": ros.LaserScan,
    "speed_limit": ros.SpeedLimit,
    "cmd_vel": ros.Twist,
    "tf": ros.TFMessage,
    "state": ros.String,
}
"""Types in the recording; every other topic is an image."""


def fix_message(fix: Fix, map_frame: str) -> ros.PoseWithCovarianceStamped:
    """Return a localisation with all of its covariance."""
    message = convert.ros_fix(fix.stamp_ns, map_frame, fix.pose, (0.0, 0.0, 0.0))
    if fix.covariance is not None:
        full = np.zeros((6, 6))
        full[np.ix_(convert.PLANAR, convert.PLANAR)] = fix.covariance
        message.pose.covariance = full.ravel().tolist()
    return message


def tick_message(tick: TickRecord) -> Tick:
    """Return the record as the message that goes into the file."""
    inputs, sensed, acted = tick.inputs, tick.sensed, tick.acted
    message = Tick(
        slot=tick.slot.number,
        deadline_ns=tick.slot.deadline_ns,
        start_ns=tick.slot.start_ns,
        missed=tick.slot.missed,
        cameras=list(inputs.depth) + (["color"] if inputs.color else []),
        camera_frames=[f.number for f in inputs.depth.values()] + ([inputs.color.number] if inputs.color else []),
        camera_stamps_ns=[f.stamp_ns for f in inputs.depth.values()]
        + ([inputs.color.stamp_ns] if inputs.color else []),
        wheel_inputs=[
            WheelInput(one.stamp_ns, one.arrival_ns, _pose(one.pose), _two(one.twist)) for one in inputs.odometry
        ],
        fix_inputs=[
            FixInput(one.stamp_ns, one.arrival_ns, _pose(one.pose), _matrix(one.covariance)) for one in inputs.fixes
        ],
        goal_inputs=[GoalInput(one.stamp_ns, one.arrival_ns, one.frame_id, _pose(one.pose)) for one in inputs.goals],
        cancel=inputs.cancel,
        e_stop=_word(inputs.e_stop),
        obstacle=_word(inputs.obstacle),
        scans=new_scans(tick),
        speed_limit_mps=[] if inputs.speed_limit_mps is None else [inputs.speed_limit_mps],
        state=tick.state,
        episode=tick.episode,
        events=list(tick.events),
        odometry=_five(tick.odometry),
        map_from_odom=_pose(tick.map_from_odom),
        filtered=_five(tick.filtered),
        scan_stamp_ns=tick.scan.stamp_ns,
        limits_scan_stamp_ns=tick.limits_scan.stamp_ns,
        goal_distance_m=[] if tick.goal_distance_m is None else [tick.goal_distance_m],
        recovery=tick.recovery,
        wanted=_two(tick.wanted),
        command=_two(tick.command),
        reason=tick.reason,
        sent_ns=tick.sent_ns,
        stages=list(tick.stage_ns),
        stage_ns=list(tick.stage_ns.values()),
    )
    if inputs.teleop is not None:
        message.teleop_arrival_ns, message.teleop = inputs.teleop.arrival_ns, _two(inputs.teleop.twist)
    if sensed is not None:
        seen = sensed.observation
        message.sensed, message.memory_reset = sensed.number, sensed.memory_reset
        message.goal, message.previous_action = list(seen.goal_xy_m), seen.previous_action
        message.observation_odometry = _five(seen.odometry)
        message.localization = _five(seen.localization)
        message.localization_age_ns = seen.localization_age_ns or 0
    if acted is not None:
        message.acted, message.fault = acted.number, acted.fault
        message.decision_elapsed_ns = acted.elapsed_ns
        if acted.decision is not None:
            message.action, message.logits = acted.decision.action, acted.decision.logits.tolist()
    return message


def new_scans(tick: TickRecord) -> list[str]:
    """Return the topics of the ready-made scans that came in this tick; their stamp is then the tick's time."""
    return [name for name, scan in tick.inputs.scans.items() if scan.stamp_ns == tick.inputs.now_ns]


def _same(a: float, b: float | None) -> bool:
    """Return whether two words are the same, NaN included."""
    return a == b or (b is not None and math.isnan(a) and math.isnan(b))


def _word(value: bool | None) -> int:
    return -1 if value is None else int(value)


def _two(twist: Twist) -> Sequence[float]:
    return [twist.v_mps, twist.w_radps]


def _pose(pose: Pose | None) -> Sequence[float]:
    return [] if pose is None else [pose.x_m, pose.y_m, pose.yaw_rad]


def _matrix(values: npt.NDArray[np.float64] | None) -> Sequence[float]:
    return [] if values is None else [float(value) for value in values.flat]


def _five(motion: Motion | None) -> Sequence[float]:
    return [] if motion is None else [*_pose(motion.pose), *_two(motion.twist)]
