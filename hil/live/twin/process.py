"""The twin's process: reads the robot's poses and requests, moves the twin, and publishes its sensor data and state."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import structlog

from hil.live.twin.scene import PERSON_MPS, Life, Site, person_in_view, touches
from hil.live.twin.sensors import Views
from hil.live.twin.topics import (
    COLLISION,
    NAMESPACE,
    PAUSE,
    PAUSED,
    POINTS,
    POSE,
    RESET,
    RESUME,
    RUNNING,
    STATE,
    robot_section,
    twin_section,
)
from hil.live.twin.twin import WAITING, Twin, hear, pause, reset, resume, stick, watch
from hil.physics.odometry_noise import FIX_SD, next_fix_ns, noisy_fix
from hil.scene.walkers import walk
from hil.sensors.camera import MAX_RANGE_M
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.camera_input import as_sent
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import CLAIM_WAIT_S
from onboard.drivers.dds.ros_convert import (
    odometry_from_ros,
    optical_frame,
    ros_cloud,
    ros_fix,
    ros_goal,
    ros_image,
    ros_odometry,
    ros_scan,
    ros_speed_limit,
)
from onboard.drivers.dds.ros_types import Bool, String
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.drivers.dds.topics import ros_topic
from onboard.system.signals import Signals
from onboard.system.waiting import Waiting
from onboard.values.clock import NS_PER_S, Clock, Histogram, MonotonicClock, wall_ns
from onboard.values.errors import DriverError, InputError
from onboard.values.messages import OdometryMessage, Pose


@dataclass(frozen=True, slots=True)
class NewMessages:
    """New messages since the last read: the robot's odometry, oldest first, and requests for reset, pause, resume.

    rivals: the publishers of the odometry while it has a second one, else ""
    """

    odometry: tuple[OdometryMessage, ...] = ()
    reset: bool = False
    pause: bool = False
    resume: bool = False
    rivals: str = ""


class TwinLink:
    """Reads the robot's odometry and the requests to the twin; writes the twin's sensor data and the speed limit."""

    def __init__(self, robot: Wire, twin: Wire, mounts: Mounts) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        self._section = twin.section
        self._robot_odometry = SoleReader(robot, "odom")
        self._publishers = PublisherWatch([self._robot_odometry], PublisherNames(robot, Peers(robot)))
        self._speed_limit = robot.writer("speed_limit")
        self._words = {topic.name: twin.reader(topic) for topic in (RESET, PAUSE, RESUME)}
        self._odometry, self._fixes = twin.writer("odom"), twin.writer("amcl_pose")
        self._scan, self._pose = twin.writer("scan"), twin.writer(POSE)
        self._points = twin.writer(POINTS)
        self._collision, self._state = twin.writer(COLLISION), twin.writer(STATE)
        self._depth = {name: twin.writer(f"{name}/depth/image") for name in mounts.depth}
        self._color = {name: twin.writer("color/image") for name in list(mounts.color)[:1]}

    def take(self, clock: Clock, wait_s: float) -> NewMessages:
        """Wait at most `wait_s` for the robot's odometry, and return all new messages. Raises DriverError."""
        self._robot_odometry.wait(wait_s)
        now_ns = clock.now_ns()
        odometry = tuple(odometry_from_ros(message.sample, now_ns) for message in self._robot_odometry.take(now_ns))
        asked = {name: bool(reader.take()) for name, reader in self._words.items()}
        rivals = self._publishers.reason(now_ns)
        return NewMessages(odometry, asked[RESET.name], asked[PAUSE.name], asked[RESUME.name], rivals)

    def publish_motion(self, twin: Twin, stamp_ns: int) -> None:
        """Publish the twin's odometry and its pose in the map. stamp_ns: stamp of the robot's odometry."""
        frames = self._section
        self._odometry.write(
            ros_odometry(stamp_ns, frames.odom_frame, frames.base_frame, twin.odom_from_base, twin.twist)
        )
        self._pose.write(ros_goal(stamp_ns, frames.map_frame, twin.pose))

    def publish_fix(self, pose: Pose, stamp_ns: int) -> None:
        """Publish a localisation fix of the twin, in the frame of its map."""
        self._fixes.write(ros_fix(stamp_ns, self._section.map_frame, pose, FIX_SD))

    def publish_frame(self, twin: Twin, life: Life, views: Views, stamp_ns: int, images: bool) -> None:
        """Publish the sensor data, then the contact of the twin. Images need `images`; they and clouds a reader."""
        self._scan.write(ros_scan(stamp_ns, self._section.base_frame, views.scan(life, twin), MAX_RANGE_M))
        if self._points.readers():
            self._points.write(ros_cloud(stamp_ns, self._section.base_frame, views.cloud(life, twin)))
        for name, writer in self._color.items():
            if images and writer.readers():
                sample = ros_image(stamp_ns, optical_frame(name), "rgb8", views.color(name, life, twin))
                writer.write(as_sent(sample, self._section, "color/image"))
        for name, writer in self._depth.items():
            if images and writer.readers():
                sample = ros_image(stamp_ns, optical_frame(name), "16UC1", views.depth(name, life, twin))
                writer.write(as_sent(sample, self._section, f"{name}/depth/image"))
        self._collision.write(Bool(twin.contact))

    def publish_state(self, twin: Twin) -> None:
        """Publish whether the twin follows, or the reason of its pause."""
        self._state.write(String(f"{PAUSED}: {twin.why}" if twin.why else RUNNING))

    def publish_speed_limit(self, limit_mps: float) -> None:
        """Publish the robot's speed limit [m/s]; 0 means no limit."""
        self._speed_limit.write(ros_speed_limit(wall_ns(), limit_mps))


log = structlog.get_logger()

WAIT_S = 0.05
AGAIN_NS = NS_PER_S // 2
"""Period of the state and of an active speed limit. A change is published at once, the end of a limit only once."""
TRACE_NS = NS_PER_S // 10


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """Options of the twin.

    odometry:           topic of the real base's odometry
    image_every:        number of the robot's poses per camera image
    localization_scale: factor on the paper's localisation noise; None publishes no localisation
    """

    odometry: str = "odom"
    image_every: int = 1
    localization_scale: float | None = 1.0
    seed: int = 1


@dataclass(slots=True)
class Log:
    """Record of the drive, for the result and the picture.

    rows:           life, the robot's stamp [ns], x, y, yaw of the twin, 1 while it follows (else 0), x, y, yaw of the
                    robot; at most 10 Hz
    events:         (stamp [ns], text of the event)
    contacts:       (life, x, y) of the twin at each contact, in the map frame [m]
    busy:           latency from reading a pose to the last resulting message
    limited_frames: number of frames with a person in view
    """

    rows: list[tuple[float, ...]] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    contacts: list[tuple[int, float, float]] = field(default_factory=list)
    busy: Histogram = field(default_factory=Histogram)
    frames: int = 0
    limited_frames: int = 0


class TwinProcess:
    """Runs the twin: applies the robot's poses and the requests, publishes, and records the drive."""

    def __init__(
        self, site: Site, views: Views, link: TwinLink, clock: Clock, config: Config, options: TwinOptions
    ) -> None:
        self._site, self._views, self._link, self._clock = site, views, link, clock
        self._options = options
        self._rng = np.random.default_rng(options.seed)
        self._life: Life = site.life(0)
        self._stopping = False
        self._fix_due_ns = self._row_due_ns = self._published_ns = 0
        self._limit_mps = 0.0
        self._state = ""
        self._poses = self._number = self._lives = 0
        self.twin = Twin()
        self.log = Log()

    def warm(self) -> None:
        """Compile all kernels, so that the first pose needs no compilation."""
        life = self._life
        probe = Twin(pose=life.start, crowd=life.crowd)
        self._views.warm(life, probe)
        touches(life, life.start, life.crowd)
        person_in_view(life, life.start, life.crowd)
        if life.crowd is not None:
            walk(life.crowd, WAIT_S, (life.start.x_m, life.start.y_m))

    def stop(self) -> None:
        """End the process after the current turn."""
        self._stopping = True

    def run(self, seconds: float | None) -> None:
        """Run until `stop`, or for `seconds`. Then remove the speed limit. Raises DriverError."""
        end_ns = None if seconds is None else self._clock.now_ns() + round(seconds * NS_PER_S)
        waiting = Waiting(lambda line: sys.stderr.write(f"{line}\n"))
        where = f"the robot's odometry ({self._options.odometry}): is its base, or `onboard-hil twin-robot`, running?"
        while not self._stopping and (end_ns is None or self._clock.now_ns() < end_ns):
            messages = self._link.take(self._clock, WAIT_S)
            self.turn(messages)
            waiting.note("" if self.twin.robot is not None else messages.rivals or where)
        if self._limit_mps:
            self._link.publish_speed_limit(0.0)

    def turn(self, messages: NewMessages) -> None:
        """Process the messages of one wait: move the twin, obey the requests, publish.

        The twin publishes a contact before a reset or a request ends the contact.
        """
        began_ns = self._clock.now_ns()
        newest: OdometryMessage | None = None
        for message in messages.odometry:
            newest = message
            self.twin = hear(self.twin, message, self._life)
            if self.twin.contact:
                break
        touched = self.twin.contact
        if not touched:
            self.twin = pause(self.twin, messages.rivals) if messages.rivals else watch(self.twin, began_ns)
            if self.twin.coupling is None and self.twin.robot is not None and not self.twin.fault:
                self._reset("the robot was received", first=True)
            self._ask(messages)
        if newest is not None and self.twin.robot is not None:
            self._publish_odometry(newest)
            self.log.busy.add(self._clock.now_ns() - began_ns)
        if touched:
            self._touched()
            self._ask(replace(messages, reset=False))
        self._publish_state()

    def _touched(self) -> None:
        """Record the contact and reset the twin. If the reset fails, the twin stands: it never drives into objects."""
        self.log.contacts.append((self._life.number, self.twin.pose.x_m, self.twin.pose.y_m))
        refused = self._reset("contact")
        if refused:
            self.twin = stick(self.twin, refused)

    def _ask(self, messages: NewMessages) -> None:
        """Obey the requests, in the order reset, resume, pause. If several came together, pause takes effect last."""
        if messages.reset:
            self._reset("asked to")
        if messages.resume:
            try:
                self.twin = resume(self.twin, self._clock.now_ns())
            except InputError as error:
                log.warning("not_resumed", reason=str(error))
        if messages.pause:
            self.twin = pause(self.twin)

    def _reset(self, why: str, first: bool = False) -> str:
        """Start a new life: make its place and put the twin at its start. Return the reason of a failure, or "".

        first: use the life that the constructor made
        The reset fails while the robot's pose is unknown, and if the new life has no free start. After such a failure,
        the next reset tries the next life.
        """
        try:
            reset(self.twin, self._life)  # raises before a new place is made
            life = self._life if first else self._next_life()
            self.twin, self._life = reset(self.twin, life), life
        except InputError as error:
            log.warning("not_reset", reason=str(error))
            return str(error)
        self._lives += 1
        log.info("reset", why=why, life=life.number, x_m=round(life.start.x_m, 2), y_m=round(life.start.y_m, 2))
        self._note(f"reset: {why}")
        return ""

    def _next_life(self) -> Life:
        self._number += 1
        return self._site.life(self._number)

    def _publish_odometry(self, message: OdometryMessage) -> None:
        twin, stamp_ns = self.twin, message.stamp_ns
        if twin.coupling is None or twin.fault:
            return
        self._link.publish_motion(twin, stamp_ns)
        if not twin.why:
            self._link.publish_frame(
                twin, self._life, self._views, stamp_ns, self._poses % self._options.image_every == 0
            )
            self._poses += 1
            self.log.frames += 1
            self.log.limited_frames += twin.person
            self._publish_fix(stamp_ns)
        self._trace(stamp_ns)

    def _publish_fix(self, stamp_ns: int) -> None:
        scale = self._options.localization_scale
        if scale is not None and stamp_ns >= self._fix_due_ns:
            self._fix_due_ns = next_fix_ns(stamp_ns, self._rng)
            self._link.publish_fix(noisy_fix(self.twin.pose, scale, self._rng), stamp_ns)

    def _publish_state(self) -> None:
        """Publish the state and the speed limit at each change, and again every `AGAIN_NS`."""
        now_ns, twin = self._clock.now_ns(), self.twin
        limit_mps = PERSON_MPS if twin.person and not twin.why else 0.0
        due = now_ns - self._published_ns > AGAIN_NS
        if twin.why != self._state or due:
            self._link.publish_state(twin)
        if limit_mps != self._limit_mps or (due and limit_mps):  # a repeated 0 removes the limit of another sender
            self._link.publish_speed_limit(limit_mps)
        if twin.why != self._state:
            (log.warning if twin.why.startswith("odometry") else log.info)("twin", state=twin.why or "follows")
            self._note(f"paused: {twin.why}" if twin.why else "follows")
        if due:
            self._published_ns = now_ns
        self._state, self._limit_mps = twin.why, limit_mps

    def _note(self, what: str) -> None:
        stamp_ns = self.twin.robot.stamp_ns if self.twin.robot else 0
        self.log.events.append((stamp_ns, what))

    def _trace(self, stamp_ns: int) -> None:
        robot = self.twin.robot
        if robot is None or robot.pose is None or 0 <= stamp_ns - self._row_due_ns + TRACE_NS < TRACE_NS:
            return
        self._row_due_ns = stamp_ns + TRACE_NS
        twin, at = self.twin.pose, robot.pose
        row = (self._life.number, stamp_ns, twin.x_m, twin.y_m, twin.yaw_rad, float(not self.twin.why))
        self.log.rows.append((*row, at.x_m, at.y_m, at.yaw_rad))

    def result(self) -> dict[str, Any]:
        """Return the record of the drive as a dict for JSON."""
        pose = self.twin.pose
        return {
            "map": self._site.label,
            "state": self.twin.why or "follows",
            "lives": max(1, self._lives),
            "contacts": len(self.log.contacts),
            "contact_points": self.log.contacts,
            "pose": [pose.x_m, pose.y_m, pose.yaw_rad],
            "frames": self.log.frames,
            "frames_with_a_person_in_view": self.log.limited_frames,
            "busy_ms": self.log.busy.summary_ms(),
            "events": self.log.events,
            "trace": self.log.rows,
        }


def run_twin(
    site: Site,
    config: Config,
    mounts: Mounts,
    views: Views,
    options: TwinOptions,
    seconds: float | None,
    ready: Callable[[str], None],
) -> dict[str, Any]:
    """Run the twin until a signal, or for `seconds`, and return the record of the drive.

    ready: called with a text that names the robot's odometry topic and the domain
    Raises DriverError if another twin is on the domain.
    """
    with contextlib.ExitStack() as held:
        signals = held.enter_context(Signals())
        ours = robot_section(config.dds, options.odometry)
        robot = held.enter_context(contextlib.closing(Wire(ours)))
        wire = held.enter_context(contextlib.closing(Wire(twin_section(config.dds))))
        if wire.foreign_writer("odom", CLAIM_WAIT_S):
            raise DriverError(f"another {NAMESPACE} is on domain {wire.domain} already")
        clock = held.enter_context(contextlib.closing(MonotonicClock()))
        process = TwinProcess(site, views, TwinLink(robot, wire, mounts), clock, config, options)
        process.warm()
        signals.stop_with(process.stop)
        ready(f"{WAITING} on {ros_topic(ours, 'odom')}, domain {wire.domain}")
        process.run(seconds)
    return process.result()
