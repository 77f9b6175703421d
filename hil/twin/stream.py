"""Whether a robot's poses can be believed: one message at a time, and how long there was none. Pure."""

from __future__ import annotations

import math

from onboard.config import OdometrySection
from onboard.geometry import distance, wrap
from onboard.messages import OdometryMessage, Pose
from onboard.scheduler import NS_PER_S

SILENT_NS = NS_PER_S // 2
"""Without a pose for longer than this, the stream has stopped."""
SLACK_M = 0.05
SLACK_RAD = 0.05
"""A pose may differ from the one before by this, however little time is between their stamps."""


def fault_in(message: OdometryMessage, before: OdometryMessage | None, section: OdometrySection) -> str:
    """Return in one line what is wrong with a message, "" when it is good.

    before: the last that was good, None at the start. Speeds beyond `max_speed_mps` and `max_yaw_rate_radps` between
    the two are a jump: the pose was set anew, or the robot carried.
    """
    pose = message.pose
    if pose is None:
        return "odometry without a pose"
    for name, value in (
        ("x", pose.x_m), ("y", pose.y_m), ("yaw", pose.yaw_rad),
        ("v", message.twist.v_mps), ("w", message.twist.w_radps),
    ):  # fmt: skip
        if not math.isfinite(value):
            return f"odometry: {name} is {value}"
    if before is None or before.pose is None:
        return ""
    elapsed_s = (message.stamp_ns - before.stamp_ns) / NS_PER_S
    if elapsed_s < 0.0:
        return f"odometry: its time went back by {-elapsed_s:.3g} s"
    return _jump(before.pose, pose, elapsed_s, section)


def _jump(before: Pose, after: Pose, elapsed_s: float, section: OdometrySection) -> str:
    way_m, turned_rad = distance(before, after), abs(wrap(after.yaw_rad - before.yaw_rad))
    limit_m = SLACK_M + section.max_speed_mps * elapsed_s
    if way_m > limit_m:
        return f"odometry: jumped by {way_m:.3g} m in {elapsed_s:.3g} s, limit {limit_m:.3g} m"
    limit_rad = SLACK_RAD + section.max_yaw_rate_radps * elapsed_s
    if turned_rad > limit_rad:
        return f"odometry: jumped by {turned_rad:.3g} rad in {elapsed_s:.3g} s, limit {limit_rad:.3g} rad"
    return ""


def silence(last_arrival_ns: int | None, now_ns: int) -> str:
    """Return in one line that there has been no pose for too long, "" otherwise and before the first."""
    if last_arrival_ns is None or now_ns - last_arrival_ns <= SILENT_NS:
        return ""
    return f"odometry: none for more than {SILENT_NS / NS_PER_S:g} s"
