"""The inbox of a robot: inputs from DDS, newest camera frames, a serial base; frozen sensors, and faulty topics.

A sensor is frozen if its depth images or scans stay the same while the base moves, whatever their stamps say.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import structlog

from onboard.assembly.robot import lasers_of, lidars_of, no_return_of
from onboard.config.config import Config
from onboard.drivers.dds.discovery import NO_BASE, Peers, Rival
from onboard.drivers.dds.participant import InputWire, WriterMessages
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.sole_writer import PublisherWatch
from onboard.drivers.kobuki_base import KobukiBase
from onboard.navigation.odometry import HISTORY_NS, integrate
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, distance
from onboard.values.interfaces import ColorCamera, DepthCamera, Diagnostic, Inbox, InputFault
from onboard.values.messages import CameraHealth, DepthFrame, Fix, Inputs, OdometryMessage, Pose, Scan
from onboard.values.reasons import NO_REASON, Said

ROW_STEP = 8
"""Only every n-th row is compared: a live sensor has noise in all rows."""
LEVER_M = 1.0
"""A rotation counts as the path of a point at this distance from the axle."""
RECENT = 4
"""A camera that repeats a cycle of at most this many images is frozen too: a driver's ring of buffers."""
RESET_M = 0.5
"""A pose that moves farther from one message to the next was reset: no distance."""
LONGEST_STEP_S = 0.5
"""After a longer silence, the base counts as moving for this long only."""


@dataclass(frozen=True, slots=True)
class _Picture:
    """The newest image of a camera.

    recent:   checksums of the last distinct images, the newest last
    new_m:    distance driven when the last new image came [m]
    newest_m: distance driven when the last image of any kind came [m]
    """

    number: int
    recent: tuple[int, ...]
    new_m: float
    newest_m: float


class UnchangedWatch:
    """Drops depth cameras that have shown no new image over a distance of `limit_m`; 0 drops none.

    An image is new if it differs from the last `RECENT` distinct images. Sensor noise makes any two real images differ.
    Repeats are allowed at rest, for simulated cameras without noise. Colour is not watched: no limit uses it.
    """

    def __init__(self, limit_m: float) -> None:
        self._limit_m = limit_m
        self._way_m = 0.0
        self._odometry: OdometryMessage | None = None
        self._pictures: dict[str, _Picture] = {}

    def believed(self, frames: Mapping[str, DepthFrame], odometry: Sequence[OdometryMessage]) -> dict[str, DepthFrame]:
        """Return the frames of live cameras. odometry: messages since the last call, oldest first."""
        self.move(odometry)
        if self._limit_m == 0.0:
            return dict(frames)
        for name, frame in frames.items():
            self.register(name, frame.number, frame.depth[::ROW_STEP])
        return {name: frame for name, frame in frames.items() if not self.reason(name)}

    def move(self, odometry: Sequence[OdometryMessage]) -> None:
        """Add the distance driven. odometry: messages since the last call, oldest first."""
        for message in odometry:
            self._move(message)

    def register(self, name: str, number: int, picture: npt.NDArray[np.generic]) -> None:
        """Register the newest image of a source; an unchanged number means no new image."""
        before = self._pictures.get(name)
        if before is not None and before.number == number:
            return
        checksum = zlib.crc32(picture.tobytes())
        recent = before.recent if before is not None else ()
        if before is not None and checksum in recent:
            self._pictures[name] = _Picture(number, recent, before.new_m, self._way_m)
        else:
            self._pictures[name] = _Picture(number, (*recent, checksum)[-RECENT:], self._way_m, self._way_m)

    def reason(self, camera: str) -> Said:
        """Return why a camera counts as frozen, or "" while it is live."""
        picture = self._pictures.get(camera)
        way_m = picture.newest_m - picture.new_m if picture is not None else 0.0
        if self._limit_m == 0.0 or way_m <= self._limit_m:
            return NO_REASON
        return reasons.UNCHANGED.say(way_m=way_m, limit_m=self._limit_m)

    def _move(self, message: OdometryMessage) -> None:
        before, self._odometry = self._odometry, message
        if before is None:
            return
        elapsed_s = min((message.arrival_ns - before.arrival_ns) / NS_PER_S, LONGEST_STEP_S)
        ways_m = [(abs(message.twist.v_mps) + LEVER_M * abs(message.twist.w_radps)) * elapsed_s]
        if message.pose is not None and before.pose is not None and _finite(message.pose) and _finite(before.pose):
            step = between(before.pose, message.pose)
            if distance(IDENTITY, step) < RESET_M:
                ways_m.append(distance(IDENTITY, step) + LEVER_M * abs(step.yaw_rad))
        self._way_m += max(filter(math.isfinite, ways_m), default=0.0)


class UnchangedScans:
    """Holds back ready-made scans that have not changed over a distance of `limit_m`, so that the last one turns stale.

    A scan without any return is always new: on open ground all scans are alike.
    """

    def __init__(self, limit_m: float) -> None:
        self._watch = UnchangedWatch(limit_m)
        self._believed: dict[str, Scan] = {}
        self._held: frozenset[str] = frozenset()

    def believed(self, scans: Mapping[str, Scan], odometry: Sequence[OdometryMessage]) -> Mapping[str, Scan]:
        """Return the newest live scan of each topic. odometry: messages since the last call, oldest first."""
        self._watch.move(odometry)
        for topic, scan in scans.items():
            if np.isfinite(scan.ranges_m).any():
                self._watch.register(topic, scan.stamp_ns, scan.ranges_m)
            reason = self._watch.reason(topic)
            if not reason:
                self._believed[topic] = scan
            elif topic not in self._held:
                log.warning("scan_held_back", topic=topic, reason=reason)
            self._held = (self._held - {topic}) if not reason else (self._held | {topic})
        return dict(self._believed)


def _finite(pose: Pose) -> bool:
    """Return whether a pose is finite; the odometry refuses others later."""
    return all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))


log = structlog.get_logger()

OK, ERROR = 0, 2
LOG_EVERY_NS = 10 * NS_PER_S
HEARD_BY_NS = 10 * NS_PER_S
"""The base may start after the runtime: within this time no subscriber of the commands is required."""

TO_DO = "stop it, then send a goal again (dds.other_drivers)"

MOVED_M = MOVED_RAD = 0.05
"""Smaller motion by pose or twist is noise at rest."""
LONGEST_S = 1.0
"""Between two messages; a longer silence of the odometry has no twist."""


def dds_inputs_of(config: Config, wire: InputWire[WriterMessages]) -> DdsInputs:
    """Open the inputs of a configuration. Raises ConfigError, DriverError."""
    lasers, no_return = lasers_of(config), no_return_of(config)
    further = config.odometry, config.map.tracker
    return DdsInputs(wire, lasers, config.limits, no_return, config.goal.use_yaw, lidars_of(config), *further)


class _Wheels:
    """moved_ns: when the wheels had last moved by MOVED_M or MOVED_RAD, monotonic; 0 if never."""

    def __init__(self) -> None:
        self.moved_ns = self._taken_ns = 0
        self._driven = IDENTITY
        self._pose: Pose | None = None

    def note(self, odometry: Sequence[OdometryMessage], now_ns: int) -> None:
        """Add the motion of the messages of a tick."""
        for message in odometry:
            elapsed_s, self._taken_ns = min((now_ns - self._taken_ns) / NS_PER_S, LONGEST_S), now_ns
            self._driven = integrate(self._driven, message.twist, elapsed_s)
            self._pose = self._pose or message.pose
            moves = [self._driven]
            if self._pose is not None and message.pose is not None:
                moves.append(between(self._pose, message.pose))
            if not all(abs(at.yaw_rad) < MOVED_RAD and distance(IDENTITY, at) < MOVED_M for at in moves):
                self.moved_ns, self._driven, self._pose = now_ns, IDENTITY, message.pose


class DeviceInbox:
    """`interfaces.Inbox` over DDS, cameras and an optional serial base.

    With a serial base, odometry from DDS is ignored. A camera with an identical image over `unchanged_m` of travel is
    blind; an identical scan is dropped. 0 turns this check off.

    While any input has a second publisher, or a topic that people rely on one of another type (`watch`), images and new
    scans are withheld too, so that the robot stands whatever input it is, and goals are refused. Other odometry goes
    on: the pose stays right while the robot stops.

    A fix that comes before the first odometry waits for it: a localisation at rest sends its pose once. A fix that a
    second publisher withheld for longer than the odometry is remembered is dropped if the wheels moved since.
    """

    def __init__(
        self,
        wire: Inbox,
        depth: Sequence[DepthCamera],
        color: ColorCamera | None,
        base: KobukiBase | None = None,
        unchanged_m: float = 0.0,
        watch: PublisherWatch | None = None,
    ) -> None:
        self._wire = wire
        self._depth = tuple(depth)
        self._color = color
        self._base = base
        self._unchanged = UnchangedWatch(unchanged_m)
        self._unchanged_scans = UnchangedScans(unchanged_m)
        self._watch = watch
        self._scans: Mapping[str, Scan] = {}
        self._early: tuple[Fix, ...] | None = ()
        self._wheels = _Wheels()

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs since the last call, without frames of blind cameras."""
        inputs = self._after_odometry(self._with_base(self._wire.take(now_ns), now_ns))
        self._wheels.note(inputs.odometry, now_ns)
        known_ns = min(self._wheels.moved_ns, now_ns - HISTORY_NS)
        inputs = replace(inputs, fixes=tuple(fix for fix in inputs.fixes if fix.arrival_ns >= known_ns))
        newest = {camera.name: camera.latest(now_ns) for camera in self._depth}
        frames = {name: frame for name, frame in newest.items() if frame is not None}
        return self._of_sole_publishers(
            replace(
                inputs,
                depth=self._unchanged.believed(frames, inputs.odometry),
                color=self._color.latest(now_ns) if self._color else None,
                scans=self._unchanged_scans.believed(inputs.scans, inputs.odometry),
            )
        )

    def cameras(self) -> list[CameraHealth]:
        """Return the state of every camera."""
        color = [self._color.health()] if self._color else []
        return [self._judged(camera.health()) for camera in self._depth] + color

    def close(self) -> None:
        """Close the cameras, then DDS, also after an error in another part. Safe to call twice."""
        with contextlib.ExitStack() as parts:
            parts.callback(self._wire.close)
            if self._color is not None:
                parts.callback(self._color.close)
            for camera in self._depth:
                parts.callback(camera.close)

    def _after_odometry(self, inputs: Inputs) -> Inputs:
        """Return the inputs; before the first odometry without fixes, and with it the newest of these."""
        if self._early is None:
            return inputs
        self._early = (inputs.fixes or self._early)[-1:]
        if not inputs.odometry:
            return replace(inputs, fixes=())
        fixes, self._early = self._early, None
        return replace(inputs, fixes=fixes)

    def _of_sole_publishers(self, inputs: Inputs) -> Inputs:
        """Return the inputs; without images, new scans and goals while any input has a second publisher."""
        second = self._watch is not None and self._watch.poll(inputs.now_ns)
        if self._watch is not None:
            self._watch.refuse(inputs.goals if second else (), inputs.now_ns)
        if second:
            return replace(inputs, depth={}, goals=(), scans=self._scans)
        self._scans = inputs.scans
        return inputs

    def _with_base(self, inputs: Inputs, now_ns: int) -> Inputs:
        if self._base is None:
            return inputs
        report = self._base.take(now_ns)
        return replace(
            inputs,
            odometry=report.odometry,
            obstacle=_any_true(inputs.obstacle, report.obstacle),
            e_stop=_any_true(inputs.e_stop, report.stop),
            battery=min((charge for charge in (inputs.battery, report.battery) if charge is not None), default=None),
        )

    def _judged(self, health: CameraHealth) -> CameraHealth:
        """Return a camera's health, with the check for unchanged images; the camera's own reason comes first."""
        reason = health.reason or self._unchanged.reason(health.camera)
        return replace(health, working=not reason, reason=reason)


def _any_true(a: bool | None, b: bool | None) -> bool | None:
    """Return `a or b`, where None means no report; None if both are None."""
    return None if a is None and b is None else bool(a) or bool(b)


class GuardedInbox:
    """An `interfaces.Inbox` that reports other drivers, topics of another type, and commands without a subscriber.

    With `refuse`, the e-stop counts as pressed while another driver is present.
    """

    def __init__(self, inner: Inbox, peers: Peers, *, refuse: bool, commands: str = "") -> None:
        """commands: topic of the commands, which must have a subscriber; "" for none."""
        self._inner, self._peers, self._refuse, self._commands = inner, peers, refuse, commands
        self._rivals: tuple[Rival, ...] = ()
        self._logged_ns = 0
        self._heard_ns: int | None = None
        self._faults: list[InputFault] = []

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call. Raises DriverError if the link is gone."""
        inputs = self._inner.take(now_ns)
        self._log(self._peers.poll(), now_ns)
        if self._heard_ns is None or self._peers.listens("cmd_vel"):
            self._heard_ns = now_ns
        found = [*self._peers.faults()]
        if self._commands and now_ns - self._heard_ns >= HEARD_BY_NS:
            found.append(InputFault("command", reasons.NO_BASE.say(topic=self._commands, remedy=NO_BASE), warning=True))
        for fault in found:
            if fault not in self._faults:
                log.warning("topic_fault", row=fault.row, reason=fault.reason)
        self._faults = found
        return replace(inputs, e_stop=True) if self._rivals and self._refuse else inputs

    def close(self) -> None:
        """Release what it holds. Safe to call twice."""
        self._inner.close()

    def faults(self) -> list[InputFault]:
        """Return the faults of our topics, and the other drivers for whom the e-stop counts, as of the last `take`."""
        others = [f": {rival.who} publishes {rival.topic}: {TO_DO}" for rival in self._rivals if self._refuse]
        return [*(InputFault("other drivers", reasons.OTHER_DRIVER.say(who=who)) for who in others), *self._faults]

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics` about other drivers."""
        values = {f"{number} {rival.topic}": rival.who for number, rival in enumerate(self._rivals)}
        if not self._rivals:
            return ("other drivers", OK, "none", values)
        said = reasons.OTHER_DRIVER.say(who="") if self._refuse else reasons.OTHER_OBEYED.say()
        return ("other drivers", ERROR, said, values)

    def _log(self, rivals: Sequence[Rival], now_ns: int) -> None:
        """Log new and vanished drivers at once, and remaining drivers every LOG_EVERY_NS."""
        again = now_ns - self._logged_ns >= LOG_EVERY_NS
        for rival in rivals:
            if again or rival not in self._rivals:
                log.error("other_driver", topic=rival.topic, who=rival.who, stands=self._refuse)
                self._logged_ns = now_ns
        for rival in self._rivals:
            if rival not in rivals:
                log.info("other_driver_gone", topic=rival.topic, who=rival.who)
        self._rivals = tuple(rivals)
