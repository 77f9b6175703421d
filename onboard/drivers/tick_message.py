"""A tick as the message that stands for it in a recording, number for number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onboard.drivers.onboard_types import FixInput, GoalInput, Tick, WheelInput
from onboard.messages import Motion, Pose, Twist
from onboard.tick import TickRecord


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
    """Return the topics of the ready-made scans that came in this tick. One without an arrival came as it was taken."""
    inputs = tick.inputs
    came_ns = {
        name: scan.stamp_ns if scan.arrival_ns is None else scan.arrival_ns for name, scan in inputs.scans.items()
    }
    return [name for name, at_ns in came_ns.items() if at_ns == inputs.now_ns]


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
