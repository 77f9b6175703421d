"""Checks the robot's poses: rejects invalid values and jumps in each message, and detects a stale stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from onboard.navigation.odometry import MAX_SPEED_MPS, MAX_YAW_RATE_RADPS
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance, wrap
from onboard.values.messages import OdometryMessage, Pose

SILENT_NS = NS_PER_S // 2
"""Timeout for a pose. After it, the pose stream is stale."""
LARGEST = 1e7
"""Largest valid absolute value of a coordinate or a speed."""
SLACK_M = 0.05
SLACK_RAD = 0.05
"""Permitted change between two consecutive poses (position, yaw), even if their stamps are equal."""
LATE_S = 0.4
"""Permitted error of a stamp."""
FASTER = 1.5
"""Permitted ratio of the true speed between two messages to the speed in the second message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check. fault: reason to reject the message, "" if valid; is_pose: compare the next pose with it."""

    fault: str
    is_pose: bool


GOOD = Verdict("", True)


def judge(message: OdometryMessage, before: Pose | None, elapsed_s: float, gap_s: float = inf) -> Verdict:
    """Return the verdict on a message.

    before:    the previous pose; None for the first message
    elapsed_s: time between the stamps of both messages [s]
    gap_s:     time between the arrivals of both messages [s]

    A pose has jumped if its change exceeds two limits. The first limit is `MAX_SPEED_MPS` (or `MAX_YAW_RATE_RADPS`)
    times the elapsed time. The second limit uses the speed in the message and allows a stamp error of `LATE_S`, because
    a delayed base catches up. Causes of a jump are a reset of the odometry and a robot that was carried. The next
    pose is compared with the pose after the jump. The robot's clock may be wrong, so the elapsed time is limited to
    `gap_s` + `LATE_S`.
    """
    pose, twist = message.pose, message.twist
    if pose is None:
        return Verdict("odometry without a pose", False)
    values = {"x": pose.x_m, "y": pose.y_m, "yaw": pose.yaw_rad, "v": twist.v_mps, "w": twist.w_radps}
    for name, value in values.items():
        if not abs(value) <= LARGEST:  # so that NaN is too large as well
            return Verdict(f"odometry: {name} is {value}", False)
    if before is None:
        return GOOD
    if elapsed_s < 0.0:
        return Verdict(f"odometry: its time went back by {-elapsed_s:.3g} s", True)
    return Verdict(_jump(before, message, pose, min(elapsed_s, gap_s + LATE_S)), True)


def _jump(before: Pose, message: OdometryMessage, after: Pose, elapsed_s: float) -> str:
    """Return the reason to reject a pose that jumped, with the jump and its limit, or "" if it is valid."""
    way_m, turned_rad = distance(before, after), abs(wrap(after.yaw_rad - before.yaw_rad))
    late_s = elapsed_s + LATE_S
    limit_m = SLACK_M + max(MAX_SPEED_MPS * elapsed_s, FASTER * abs(message.twist.v_mps) * late_s)
    if way_m > limit_m:
        return f"odometry: jumped by {way_m:.3g} m in {elapsed_s:.3g} s, limit {limit_m:.3g} m"
    limit_rad = SLACK_RAD + max(MAX_YAW_RATE_RADPS * elapsed_s, FASTER * abs(message.twist.w_radps) * late_s)
    if turned_rad > limit_rad:
        return f"odometry: jumped by {turned_rad:.3g} rad in {elapsed_s:.3g} s, limit {limit_rad:.3g} rad"
    return ""


def silence(last_arrival_ns: int | None, now_ns: int) -> str:
    """Return the fault line of a stale pose stream, or "" if it is not stale. Before the first pose, return ""."""
    if last_arrival_ns is None or now_ns - last_arrival_ns <= SILENT_NS:
        return ""
    return f"odometry: none for more than {SILENT_NS / NS_PER_S:g} s"
