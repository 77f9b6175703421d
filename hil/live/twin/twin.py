"""The twin: its pose, its contacts, and whether it follows the robot. Pure; DDS is in `process.py`.

The twin waits for the robot's first pose, then it follows the robot. It pauses on request, and also when a pose of the
robot is invalid or stale (`judge`, `silence`). A paused twin stands still until resume. Resume fails until the newest
pose is valid again. A reset ends only a pause without a request. A twin that is stuck in an object needs a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from hil.live.twin.offset import Coupling, follow
from hil.live.twin.offset import pause as paused
from hil.live.twin.offset import reset as at_start
from hil.live.twin.offset import resume as resumed
from hil.live.twin.scene import Life, person_in_view, touches
from hil.scene.walkers import Crowd, walk
from onboard.navigation.odometry import MAX_SPEED_MPS, MAX_YAW_RATE_RADPS
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, compose, distance, inverse, wrap
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist

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


LONGEST_STEP_S = 0.2
"""Longest time that people walk between two of the robot's poses."""
WAITING = "waiting for the robot's odometry"
ASKED = "asked to"
STUCK = "contact"
"""Prefix of the reason if the twin touches an object and has no new start. Only a reset ends that pause."""


@dataclass(frozen=True, slots=True)
class Twin:
    """State of the twin between two of the robot's poses.

    coupling:      coupling to the robot; None before the first reset
    pose:          pose in the map frame; constant while paused
    twist:         velocity in the body frame; 0 while paused
    why:           reason of the pause, "" while it follows
    robot:         the robot's newest message with a usable pose
    fault:         reason to reject the robot's newest message, "" if it is valid
    odom_from_map: transform to the twin's odometry frame; a reset does not make the odometry jump
    contact:       whether the twin touches an object or a person
    person:        whether a person is in view
    """

    coupling: Coupling | None = None
    pose: Pose = IDENTITY
    twist: Twist = STOP
    why: str = WAITING
    robot: OdometryMessage | None = None
    fault: str = ""
    odom_from_map: Pose = IDENTITY
    crowd: Crowd | None = None
    contact: bool = False
    person: bool = False

    @property
    def odom_from_base(self) -> Pose:
        """Return the twin's pose in its odometry frame."""
        return compose(self.odom_from_map, self.pose)


def hear(twin: Twin, message: OdometryMessage, life: Life) -> Twin:
    """Return the twin after a message of the robot's odometry. An invalid message pauses the twin with its fault.

    A valid message moves the twin and the people, and updates contact and person in view.
    """
    before = twin.robot
    elapsed_s = 0.0 if before is None else (message.stamp_ns - before.stamp_ns) / NS_PER_S
    gap_s = 0.0 if before is None else (message.arrival_ns - before.arrival_ns) / NS_PER_S
    verdict = judge(message, before.pose if before else None, elapsed_s, gap_s)
    known = replace(twin, fault=verdict.fault, robot=message if verdict.is_pose else before)
    if verdict.fault and not twin.why:
        return _stand(known, before, verdict.fault)
    if verdict.fault or twin.why or twin.coupling is None or message.pose is None:
        return known
    pose, crowd = follow(twin.coupling, message.pose), twin.crowd
    if crowd is not None:
        radius_m = life.simulation.body.radius_m
        crowd = walk(crowd, min(elapsed_s, LONGEST_STEP_S), (pose.x_m, pose.y_m), radius_m)
    return replace(
        known,
        pose=pose,
        twist=message.twist,
        crowd=crowd,
        contact=touches(life, pose, crowd),
        person=person_in_view(life, pose, crowd),
    )


def reset(twin: Twin, life: Life) -> Twin:
    """Return the twin at the start of a life. It follows, but after a requested pause it stands until resume.

    Raises InputError while the robot's pose is unknown or invalid.
    """
    robot = _robot_pose(twin, "reset")
    wheels = twin.odom_from_base if twin.coupling is not None else IDENTITY
    coupling, held = at_start(robot, life.start), twin.why == ASKED
    return replace(
        twin,
        coupling=paused(coupling, robot) if held else coupling,
        pose=life.start,
        twist=STOP,
        why=ASKED if held else "",
        odom_from_map=compose(wheels, inverse(life.start)),
        crowd=life.crowd,
        contact=False,
        person=person_in_view(life, life.start, life.crowd),
    )


def pause(twin: Twin, why: str = ASKED) -> Twin:
    """Return the twin paused at its present pose. A twin that is already paused keeps its reason."""
    return twin if twin.why else _stand(twin, twin.robot, why)


def resume(twin: Twin, now_ns: int) -> Twin:
    """Return the twin as it follows again, from the pose where it stood.

    Raises InputError while the robot's pose is unknown, invalid or stale, and if the twin is stuck.
    """
    if not twin.why or twin.coupling is None:
        return twin
    if twin.why.startswith(STUCK):
        raise InputError(f"resume: {twin.why}; it needs a reset")
    quiet = silence(twin.robot.arrival_ns if twin.robot else None, now_ns)
    if quiet:
        raise InputError(f"resume: {quiet}")
    return replace(twin, coupling=resumed(twin.coupling, _robot_pose(twin, "resume")), why="")


def stick(twin: Twin, reason: str) -> Twin:
    """Return the twin stuck: paused in contact with an object, without a new start. Clear the contact flag."""
    return replace(_stand(twin, twin.robot, f"{STUCK}: {reason}"), contact=False)


def watch(twin: Twin, now_ns: int) -> Twin:
    """Return the twin, paused if the robot's poses are stale."""
    quiet = silence(twin.robot.arrival_ns if twin.robot else None, now_ns)
    return pause(twin, quiet) if quiet else twin


def _robot_pose(twin: Twin, word: str) -> Pose:
    if twin.robot is None or twin.robot.pose is None:
        raise InputError(f"{word}: no odometry of the robot was received")
    if twin.fault:
        raise InputError(f"{word}: {twin.fault}")
    return twin.robot.pose


def _stand(twin: Twin, robot: OdometryMessage | None, why: str) -> Twin:
    """Return the twin paused at its pose for the robot's last valid pose. Without such a pose, change nothing."""
    if twin.coupling is None or robot is None or robot.pose is None:
        return twin
    return replace(twin, coupling=paused(twin.coupling, robot.pose), twist=STOP, why=why, person=False)
