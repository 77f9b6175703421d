"""The twin: its pose, its contacts, and whether it follows the robot. Pure; DDS is in `link.py`.

The twin waits for the robot's first pose, then it follows the robot. It pauses on request, and also when a pose of the
robot is invalid or stale (`pose_filter.py`). A paused twin stands still until resume. Resume fails until the newest
pose is valid again. A reset ends only a pause without a request. A twin that is stuck in an object needs a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hil.live.twin.offset import Coupling, follow
from hil.live.twin.offset import pause as paused
from hil.live.twin.offset import reset as at_start
from hil.live.twin.offset import resume as resumed
from hil.live.twin.pose_filter import judge, silence
from hil.live.twin.scene import Life, person_in_view, touches
from hil.scene.walkers import Crowd, walk
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, compose, inverse
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist

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
