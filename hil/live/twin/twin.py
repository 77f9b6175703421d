"""The twin: where it is, what it touches, and whether it follows the robot. Pure; the wire is in `link.py`.

It waits for the robot's first pose, and follows from then on. It pauses when it is asked to, and by itself when the
robot's poses cannot be believed (`pose_filter.py`). Then it stands still until resume, which works only once the
newest pose
is good again; after a pause of its own a reset ends that as well. One that is stuck in something solid needs a reset.
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
from onboard.config.config import OdometrySection
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, compose, inverse
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist

LONGEST_STEP_S = 0.2
"""The most that people walk between two of the robot's poses."""
WAITING = "waiting for the robot's odometry"
ASKED = "asked to"
STUCK = "contact"
"""Begins the reason of a twin that touches something and has no new start: nothing but a reset ends that pause."""


@dataclass(frozen=True, slots=True)
class Twin:
    """Where the twin stands between two of the robot's poses.

    coupling:      None before the first reset
    pose, twist:   in the map frame, in the body frame; at rest while paused
    why:           why it is paused, "" while it follows
    robot:         the newest of the robot's poses that was a pose; fault: what is wrong with the newest message
    odom_from_map: of the twin's own odometry, which goes on through a reset as a base's does
    contact:       it touches something
    person:        somebody is in view
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
        """What the twin's wheels say."""
        return compose(self.odom_from_map, self.pose)


def hear(twin: Twin, message: OdometryMessage, life: Life, section: OdometrySection) -> Twin:
    """Return the twin after one message of the robot's odometry: moved, judged, or paused with what was wrong."""
    before = twin.robot
    elapsed_s = 0.0 if before is None else (message.stamp_ns - before.stamp_ns) / NS_PER_S
    gap_s = 0.0 if before is None else (message.arrival_ns - before.arrival_ns) / NS_PER_S
    verdict = judge(message, before.pose if before else None, elapsed_s, section, gap_s)
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
    """Return the twin at the start of a life, following; one that was asked to pause stands there until resume.

    Raises InputError while the robot's pose is not known.
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
    """Return the twin standing where it is; one that stands already keeps its reason."""
    return twin if twin.why else _stand(twin, twin.robot, why)


def resume(twin: Twin, now_ns: int) -> Twin:
    """Return the twin following from where it stood.

    Raises InputError while the robot's pose is not known, and for a twin that is stuck.
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
    """Return a twin that touches something at rest, the contact dealt with: there is no new start for it."""
    return replace(_stand(twin, twin.robot, f"{STUCK}: {reason}"), contact=False)


def watch(twin: Twin, now_ns: int) -> Twin:
    """Return the twin paused when the robot's poses have stopped coming."""
    quiet = silence(twin.robot.arrival_ns if twin.robot else None, now_ns)
    return pause(twin, quiet) if quiet else twin


def _robot_pose(twin: Twin, word: str) -> Pose:
    if twin.robot is None or twin.robot.pose is None:
        raise InputError(f"{word}: there has been no odometry of the robot")
    if twin.fault:
        raise InputError(f"{word}: {twin.fault}")
    return twin.robot.pose


def _stand(twin: Twin, robot: OdometryMessage | None, why: str) -> Twin:
    """Return the twin at rest where it was by the robot's last good pose."""
    if twin.coupling is None or robot is None or robot.pose is None:
        return twin
    return replace(twin, coupling=paused(twin.coupling, robot.pose), twist=STOP, why=why, person=False)
