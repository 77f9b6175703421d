"""Records ticks: the inputs on their ROS topics, then `/onboard/tick` with inputs and results.

A keyframe with the whole state, `/onboard/keyframe` (`state_snapshot.py`), follows every `KEYFRAME_S`, at the start of
a file, after a memory reset and after a lost tick, once no decision is pending. A replay can start at a keyframe.

Paths, arc, footprint, markers and `/onboard/drive` follow every `SCENE_S` (`scene.py`), the last also
at a change of state.

All messages of a tick have the tick's start as their time and are in one file. A full queue drops the whole tick. Depth
and colour images are recorded losslessly in ticks in which a decision senses; other ticks have only the scan, and some
the scan in which the limits look for what moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from cyclonedds.idl import IdlStruct

from onboard.config.config import DdsSection
from onboard.config.mounts import Mounts
from onboard.drivers.dds import ros_convert as convert
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_types import BY_ROS_NAME, to_cdr
from onboard.drivers.dds.tick_types import TickMessage
from onboard.drivers.dds.topics import raw_topic, ros_topic, scan_source, type_of
from onboard.recording.added_inputs import ADDED_TOPIC, NOTHING, added_to
from onboard.recording.added_inputs import encode as encode_added
from onboard.recording.recorder import Message, Recorder
from onboard.recording.ros_schema import message_type
from onboard.recording.scene import Scene, drive_row
from onboard.recording.state_snapshot import encode
from onboard.recording.tick_message import (
    DECISION_TOPIC,
    KEYFRAME_TOPIC,
    MOVED_TOPIC,
    NO_DEPTH,
    TICK_TOPIC,
    imageless,
    new_scans,
    tick_message,
)
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.images import CHANNELS, POLICY_HEIGHT, POLICY_WIDTH
from onboard.values.messages import Fix, Inputs, Pose, Scan

KEYFRAME_S = 10.0
SCENE_S = 1.0
SCENE = ("path", "plan", "arc", "footprint", "markers")
TICK_BYTES = 20_000
"""Estimated memory of a queued tick without images."""

MOST_WITH_IMAGES = 10
"""Up to this number, queued ticks keep all images, because removing images takes longer than queueing."""


class TickRecorder:
    """Records ticks with a `Recorder`. `record` only queues; the recorder's thread makes the messages.

    The limits' scan is recorded if it differs from the policy's scan. A ready-made scan is also recorded on its topic.
    """

    def __init__(
        self, recorder: Recorder, section: DdsSection, mounts: Mounts, range_max_m: float, scene: Scene | None = None
    ) -> None:
        """scene: makes what viewers show; None leaves that out"""
        self._recorder = recorder
        self._messages = _Messages(recorder, section, mounts, range_max_m, scene)
        pixels = sum(mount.width * mount.height for mount in mounts.depth.values())
        self._image_bytes = pixels * NO_DEPTH.itemsize + POLICY_WIDTH * POLICY_HEIGHT * CHANNELS

    def record(self, tick: TickRecord) -> bool:
        """Queue a tick; return False if it was dropped.

        While the disk is slow, queued ticks drop the images that are not recorded, to save memory.
        """
        held = TICK_BYTES + self._image_bytes
        if tick.sensed is None and self._recorder.waiting > MOST_WITH_IMAGES:
            tick, held = imageless(tick), TICK_BYTES
        return self._recorder.write_together(self._messages.of(tick), tick.slot.start_ns, held)


class _Messages:
    """Makes the messages of ticks, in the writing thread. Dropped ticks never get here."""

    def __init__(
        self, recorder: Recorder, section: DdsSection, mounts: Mounts, range_max_m: float, scene: Scene | None
    ) -> None:
        self._recorder = recorder
        self._section = section
        self._scene, self._scene_due_ns = scene, 0
        self._range_max_m = range_max_m
        self._state = ""
        self._last_flags: dict[str, bool | None] = {"e_stop": None, "obstacle": None}
        self._teleop_ns = 0
        self._speed_limit_mps: float | None = None
        self._undescribed: Mounts | None = mounts
        self._keyframe_due_ns = 0
        self._file_number = recorder.file_number
        self._next_slot = 0

    def of(self, tick: TickRecord) -> Iterator[Message]:
        """Yield all messages of a tick; before the first tick also the camera mounts."""
        if self._undescribed is not None:
            yield self._description(self._undescribed, tick.slot.start_ns)
            self._undescribed = None
        yield from self._inputs(tick)
        if tick.sensed is not None:
            yield from self._images(tick)
        changed = tick.state != self._state
        yield from self._outputs(tick)
        if self._scene is not None:
            yield from self._viewed(self._scene, tick, changed)
        if tick.acted is not None and tick.acted.decision is not None and tick.acted.decision.own is not None:
            yield self._message(DECISION_TOPIC, ros.Twist, partial(convert.ros_twist, tick.acted.decision.own))
        if (added := added_to(tick.inputs)) != NOTHING:
            yield self._message(ADDED_TOPIC, ros.String, lambda: ros.String(encode_added(added)))
        if tick.moved_scan is not None:
            yield self._message(MOVED_TOPIC, ros.LaserScan, partial(self._scan, tick.moved_scan, tick.slot.start_ns))
        yield self._message(TICK_TOPIC, TickMessage, partial(tick_message, tick))
        yield from self._keyframe(tick)

    def _keyframe(self, tick: TickRecord) -> Iterator[Message]:
        """Yield the state after a tick if a keyframe is due and no decision is pending."""
        now_ns, first = tick.slot.start_ns, tick.slot.number - tick.slot.missed
        reset = tick.sensed is not None and tick.sensed.memory_reset != ""
        if reset or first != self._next_slot or self._recorder.file_number != self._file_number:
            self._keyframe_due_ns = now_ns
        self._next_slot, self._file_number = tick.slot.number + 1, self._recorder.file_number
        after = tick.after
        if now_ns >= self._keyframe_due_ns and after is not None and after.pilot.pending is None:
            self._keyframe_due_ns = now_ns + round(KEYFRAME_S * NS_PER_S)
            yield self._message(KEYFRAME_TOPIC, ros.String, lambda: ros.String(encode(after)))

    def _inputs(self, tick: TickRecord) -> Iterator[Message]:
        base, odom, inputs, now_ns = self._section.base_frame, self._section.odom_frame, tick.inputs, tick.slot.start_ns
        for message in inputs.odometry:
            pose = message.pose or Pose(0.0, 0.0, 0.0)
            make = partial(convert.ros_odometry, message.stamp_ns, odom, base, pose, message.twist)
            yield self._topic("odom", make)
        for fix in inputs.fixes:
            yield self._topic("amcl_pose", partial(fix_message, fix, self._section.map_frame))
        for goal in inputs.goals:
            yield self._topic("goal_pose", partial(convert.ros_goal, goal.stamp_ns, goal.frame_id, goal.pose))
        if inputs.pause is not None:
            yield self._topic("pause", partial(ros.Bool, inputs.pause))
        yield from self._changed_states(inputs)
        if inputs.cancel:
            yield self._topic("cancel", ros.Empty)
        limit_mps = inputs.speed_limit_mps
        if limit_mps is not None and not _same_limit(limit_mps, self._speed_limit_mps):
            stamp_ns = self._recorder.wall_ns(now_ns)
            yield self._topic("speed_limit", partial(convert.ros_speed_limit, stamp_ns, limit_mps))
        self._speed_limit_mps = limit_mps
        for name in new_scans(tick):
            came = partial(self._scan, inputs.scans[name], now_ns)
            yield self._message(ros_topic(self._section, scan_source(name)), ros.LaserScan, came)

    def _changed_states(self, inputs: Inputs) -> Iterator[Message]:
        """Yield e-stop, obstacle and operator command when they change."""
        for name, flag in (("e_stop", inputs.e_stop), ("obstacle", inputs.obstacle)):
            if flag is not None and flag != self._last_flags[name]:
                yield self._topic(name, partial(ros.Bool, flag))
            self._last_flags[name] = flag
        teleop = inputs.teleop
        if teleop is not None and teleop.arrival_ns != self._teleop_ns:
            self._teleop_ns = teleop.arrival_ns
            yield self._topic("cmd_vel_teleop", partial(convert.ros_twist, teleop.twist))

    def _images(self, tick: TickRecord) -> Iterator[Message]:
        wall_ns = self._recorder.wall_ns
        for name, frame in tick.inputs.depth.items():
            frame_id = convert.optical_frame(name, self._section.frame_prefix)
            make = partial(convert.ros_image, wall_ns(frame.stamp_ns), frame_id, "16UC1", frame.depth)
            yield self._message(raw_topic(self._section, f"{name}/depth/image"), ros.Image, make)
        color = tick.inputs.color
        if color is not None:
            frame_id = convert.optical_frame("color", self._section.frame_prefix)
            make = partial(convert.ros_image, wall_ns(color.stamp_ns), frame_id, "rgb8", color.image)
            yield self._message(raw_topic(self._section, "color/image"), ros.Image, make)

    def _outputs(self, tick: TickRecord) -> Iterator[Message]:
        now_ns = tick.slot.start_ns
        yield self._topic("scan", partial(self._scan, tick.scan, now_ns))
        if tick.limits_scan is not tick.scan:
            yield self._topic("limits_scan", partial(self._scan, tick.limits_scan, now_ns))
        yield self._topic("cmd_vel", partial(self._command, tick))
        yield self._topic("tf", partial(self._transforms, tick))
        if tick.state != self._state:
            self._state = tick.state
            yield self._topic("state", partial(ros.String, tick.state))

    def _viewed(self, scene: Scene, tick: TickRecord, changed: bool) -> Iterator[Message]:
        """Yield what viewers show, if it is due, and the typed state, also if that changed."""
        now_ns = tick.slot.start_ns
        scene.note(tick)
        if not self._scene_due_ns:
            for name, message in scene.lasting(self._recorder.wall_ns(now_ns)):
                yield self._topic(name, partial(lambda made: made, message), latched=True)
        due, stamp_ns = now_ns >= self._scene_due_ns, self._recorder.wall_ns(now_ns)
        if due:
            self._scene_due_ns = now_ns + round(SCENE_S * NS_PER_S)
            for name, make in scene.messages(tick, stamp_ns, SCENE):
                yield self._topic(name, make)
        if (due or changed) and tick.after is not None:
            row = drive_row(tick, tick.after.mission, "")
            yield self._topic("drive", lambda: convert.ros_diagnostics(stamp_ns, "", [row]))

    def _scan(self, scan: Scan, now_ns: int) -> ros.LaserScan:
        return convert.ros_scan(self._recorder.wall_ns(now_ns), self._section.base_frame, scan, self._range_max_m)

    def _command(self, tick: TickRecord) -> ros.Twist | ros.TwistStamped:
        """Return the command as the base got it."""
        twist = convert.ros_twist(tick.command)
        if not self._section.stamped_cmd_vel:
            return twist
        stamp_ns = self._recorder.wall_ns(tick.slot.start_ns)
        return ros.TwistStamped(convert.header(stamp_ns, self._section.base_frame), twist)

    def _transforms(self, tick: TickRecord) -> ros.TFMessage:
        section, stamp_ns = self._section, self._recorder.wall_ns(tick.slot.start_ns)
        moving = [convert.ros_transform(stamp_ns, section.odom_frame, section.base_frame, tick.odometry.pose)]
        if tick.map_from_odom is not None:
            moving.append(convert.ros_transform(stamp_ns, section.map_frame, section.odom_frame, tick.map_from_odom))
        return ros.TFMessage(moving)

    def _description(self, mounts: Mounts, now_ns: int) -> Message:
        cameras = [*mounts.depth.values(), *mounts.color.values()]
        stamp_ns = self._recorder.wall_ns(now_ns)
        static = ros.TFMessage(
            [
                convert.ros_mount_transform(stamp_ns, self._section.base_frame, mount, self._section.frame_prefix)
                for mount in cameras
            ]
        )
        return self._topic("tf_static", lambda: static, latched=True)

    def _topic(self, name: str, make: Callable[[], IdlStruct], *, latched: bool = False) -> Message:
        return self._message(
            ros_topic(self._section, name), BY_ROS_NAME[type_of(self._section, name)], make, latched=latched
        )

    def _message(
        self, topic: str, kind: type[IdlStruct], make: Callable[[], IdlStruct], *, latched: bool = False
    ) -> Message:
        return Message(topic, message_type(kind), lambda: to_cdr(make()), latched)


def fix_message(fix: Fix, map_frame: str) -> ros.PoseWithCovarianceStamped:
    """Return the message of a localisation with its full covariance."""
    message = convert.ros_fix(fix.stamp_ns, map_frame, fix.pose, (0.0, 0.0, 0.0))
    if fix.covariance is not None:
        full = np.zeros((6, 6))
        full[np.ix_(convert.PLANAR, convert.PLANAR)] = fix.covariance
        message.pose.covariance = full.ravel().tolist()
    return message


def _same_limit(a: float, b: float | None) -> bool:
    """Return whether two limits are equal; NaN equals NaN."""
    return a == b or (b is not None and math.isnan(a) and math.isnan(b))
