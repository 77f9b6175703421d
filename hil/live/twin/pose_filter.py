"""Whether a robot's poses can be believed: one message at a time, and how long there was none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from onboard.config.config import OdometrySection
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance, wrap
from onboard.values.messages import OdometryMessage, Pose

SILENT_NS = NS_PER_S // 2
"""Without a pose for longer than this, the stream has stopped."""
LARGEST = 1e7
"""No coordinate of a pose, and no speed, is larger."""
SLACK_M = 0.05
SLACK_RAD = 0.05
"""A pose may differ from the one before by this, however little time is between their stamps."""
LATE_S = 0.4
FASTER = 1.5
"""Stamps may be wrong by so much, and the speed between two messages higher than that of the second."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a message is worth. fault: "" when it is good, else what is wrong; is_pose: whether to go on from it."""

    fault: str
    is_pose: bool


GOOD = Verdict("", True)


def judge(
    message: OdometryMessage, before: Pose | None, elapsed_s: float, section: OdometrySection, gap_s: float = inf
) -> Verdict:
    """Return what a message is worth, against the pose that was so long before it; None at the start.

    It has jumped (was set anew, or the robot carried) when `max_speed_mps` and `max_yaw_rate_radps` since the one
    before do not explain it, nor the speed that it states itself with a stamp that is wrong by `LATE_S`: a base that
    was held up catches up. What follows is then compared with where it jumped to. The robot's clock may say what it
    likes: no more time is believed to have gone by than `gap_s` between the arrivals, and `LATE_S`.
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
    return Verdict(_jump(before, message, pose, min(elapsed_s, gap_s + LATE_S), section), True)


def _jump(before: Pose, message: OdometryMessage, after: Pose, elapsed_s: float, section: OdometrySection) -> str:
    """Return by how much a pose lies beyond what speed and time explain, "" when it does not."""
    way_m, turned_rad = distance(before, after), abs(wrap(after.yaw_rad - before.yaw_rad))
    late_s = elapsed_s + LATE_S
    limit_m = SLACK_M + max(section.max_speed_mps * elapsed_s, FASTER * abs(message.twist.v_mps) * late_s)
    if way_m > limit_m:
        return f"odometry: jumped by {way_m:.3g} m in {elapsed_s:.3g} s, limit {limit_m:.3g} m"
    limit_rad = SLACK_RAD + max(section.max_yaw_rate_radps * elapsed_s, FASTER * abs(message.twist.w_radps) * late_s)
    if turned_rad > limit_rad:
        return f"odometry: jumped by {turned_rad:.3g} rad in {elapsed_s:.3g} s, limit {limit_rad:.3g} rad"
    return ""


def silence(last_arrival_ns: int | None, now_ns: int) -> str:
    """Return in one line that there has been no pose for too long, "" otherwise and before the first."""
    if last_arrival_ns is None or now_ns - last_arrival_ns <= SILENT_NS:
        return ""
    return f"odometry: none for more than {SILENT_NS / NS_PER_S:g} s"
