"""Recordings as ticks: what each consumed, as the runtime's own inputs, and what it produced, as it was written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hil.recordings.recording import KEYFRAME, TICK, Heard, Recording
from onboard.assembly.robot import scan_topics
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import rays_from_ros
from onboard.drivers.dds.tick_types import FixInput, GoalInput, Tick, WheelInput
from onboard.policy.contract import ACTIONS
from onboard.values.clock import Slot
from onboard.values.errors import InputError
from onboard.values.messages import (
    BINS,
    ColorFrame,
    DepthFrame,
    Fix,
    GoalRequest,
    Inputs,
    OdometryMessage,
    Pose,
    Scan,
    Teleop,
    Twist,
)

DEPTH, COLOR = "/depth/image", "color"
SCANS = ("scan", "limits_scan")
COLOR_TOPIC = "color/image"
NO_ACTION = -1
DEPTH_ENCODING, COLOR_ENCODING = "16UC1", "rgb8"


@dataclass(frozen=True, slots=True)
class RecordedTick:
    """One tick of a recording.

    told:        what the runtime wrote of it
    inputs:      what it consumed; images only where a decision began, for only those are recorded
    scan, limits_scan: what it produced, the same object where they are one
    with_images: whether the image of every depth camera that it names is there
    keyframe:    the whole state after it, as text; "" where none was written
    """

    told: Tick
    slot: Slot
    inputs: Inputs
    scan: Scan
    limits_scan: Scan
    with_images: bool
    keyframe: str


class TickReader:
    """Gathers the messages of one session's ticks, over all its files.

    Of the ready-made scans it keeps the newest, as an inbox does; how old one was when it came, the tick says of the
    scan that it is. A tick comes out when the next message has come: a
    whole state may follow it.

    any_camera: do not refuse a tick with a camera that is not in the mounts; it is then one without that one's image
    """

    def __init__(self, config: Config, mounts: Mounts, *, any_camera: bool = False) -> None:
        self._cameras = None if any_camera else mounts.depth.keys()
        self._scan_names = scan_topics(config)
        self._waiting: Tick | None = None
        self._keyframe = ""
        self._depth: dict[str, ros.Image] = {}
        self._color: ros.Image | None = None
        self._scans: dict[str, ros.LaserScan] = {}
        self._ready_made: dict[str, Scan] = {}

    def take(self, heard: Heard) -> RecordedTick | None:
        """Take the next message; return the tick that it shows to be whole.

        Raises InputError or ValueError for what does not fit together.
        """
        if self._waiting is not None and heard.topic == KEYFRAME:
            self._keyframe = heard.sample.data
            return None
        whole = self.last()
        if heard.topic == TICK:
            self._waiting = heard.sample
        elif heard.topic.endswith(DEPTH):
            self._depth[heard.topic.removesuffix(DEPTH)] = heard.sample
        elif heard.topic == COLOR_TOPIC:
            self._color = heard.sample
        elif heard.topic in (*SCANS, *self._scan_names.values()):
            self._scans[heard.topic] = heard.sample
        return whole

    def last(self) -> RecordedTick | None:
        """Return the tick that is still waiting; None without one, or where it is not whole. Raises as `take`."""
        told, keyframe = self._waiting, self._keyframe
        self._waiting, self._keyframe = None, ""
        return None if told is None else self._tick(told, keyframe)

    def _tick(self, told: Tick, keyframe: str) -> RecordedTick | None:
        """Return the tick, None where a scan of it was lost, and forget what came before it."""
        if not NO_ACTION <= told.action < len(ACTIONS):
            raise InputError(f"tick {told.slot}: action {told.action}, must be {NO_ACTION} to {len(ACTIONS) - 1}")
        strangers = set() if self._cameras is None else set(told.cameras) - self._cameras - {COLOR}
        if strangers:
            raise InputError(
                f"tick {told.slot}: camera {min(strangers)} is not in the recorded mounts, which have "
                f"{', '.join(self._cameras or ())}"
            )
        came, depth, color = self._scans, *self._frames(told)
        self._depth, self._color, self._scans = {}, None, {}
        self._ready_made |= {name: self._scan(came[name], name, told) for name in told.scans if name in came}
        if not {"scan", *told.scans} <= came.keys():
            return None
        scan = scan_of(came["scan"], told.scan_stamp_ns)
        return RecordedTick(
            told=told,
            slot=Slot(told.slot, told.deadline_ns, told.start_ns, told.missed),
            inputs=inputs_of(told, depth, color, dict(self._ready_made)),
            scan=scan,
            limits_scan=scan_of(came["limits_scan"], told.limits_scan_stamp_ns) if "limits_scan" in came else scan,
            with_images=told.sensed > 0 and set(depth) == set(told.cameras) - {COLOR},
            keyframe=keyframe,
        )

    def _scan(self, message: ros.LaserScan, name: str, told: Tick) -> Scan:
        """Return the ready-made scan of a topic that came in a tick: it is the policy's, or that of the limits."""
        stamp_ns = told.scan_stamp_ns if name == self._scan_names.get("scan") else told.limits_scan_stamp_ns
        return replace(scan_of(message, stamp_ns), arrival_ns=told.start_ns)

    def _frames(self, told: Tick) -> tuple[dict[str, DepthFrame], ColorFrame | None]:
        depth: dict[str, DepthFrame] = {}
        color: ColorFrame | None = None
        for name, number, stamp_ns in zip(told.cameras, told.camera_frames, told.camera_stamps_ns, strict=True):
            if name == COLOR and self._color is not None:
                color = ColorFrame(number, stamp_ns, _color_image(self._color))
            elif name in self._depth:
                depth[name] = DepthFrame(name, number, stamp_ns, _depth_image(name, self._depth[name]))
        return depth, color


def topics_of(config: Config, mounts: Mounts) -> set[str]:
    """Return our names of the topics that ticks are made of."""
    images = {f"{camera}{DEPTH}" for camera in mounts.depth} | {COLOR_TOPIC}
    return {TICK, KEYFRAME, *SCANS, *scan_topics(config).values(), *images}


def ticks_of(recording: Recording) -> Iterator[RecordedTick]:
    """Yield the ticks of a recording's first session; one that is not whole is left out, as if it were not written.

    Raises InputError that names the file for what cannot be read.
    """
    reader = TickReader(recording.config, recording.mounts)
    with naming(recording.path):
        for heard in recording.heard(topics_of(recording.config, recording.mounts)):
            if (tick := reader.take(heard)) is not None:
                yield tick
        if (tick := reader.last()) is not None:
            yield tick


@contextlib.contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Have what does not fit together inside named with its file, as InputError."""
    try:
        yield
    except (InputError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InputError(text if str(path) in text else f"{path}: {text}") from error


def inputs_of(told: Tick, depth: dict[str, DepthFrame], color: ColorFrame | None, scans: dict[str, Scan]) -> Inputs:
    """Return what a tick consumed."""
    return Inputs(
        now_ns=told.start_ns,
        depth=depth,
        color=color,
        odometry=tuple(_wheels(one) for one in told.wheel_inputs),
        fixes=tuple(_fix(one) for one in told.fix_inputs),
        goals=tuple(_goal(one) for one in told.goal_inputs),
        cancel=told.cancel,
        obstacle=_word(told.obstacle),
        e_stop=_word(told.e_stop),
        teleop=Teleop(told.teleop_arrival_ns, Twist(*told.teleop)) if told.teleop else None,
        scans=scans,
        speed_limit_mps=told.speed_limit_mps[0] if told.speed_limit_mps else None,
    )


def scan_of(message: ros.LaserScan, stamp_ns: int) -> Scan:
    """Return one of our own scans from its message (`ros_messages.ros_scan`). Raises InputError for another's."""
    ranges = rays_from_ros(message).ranges_m
    if ranges.shape != (BINS,):
        raise InputError(f"a scan of {len(ranges)} ranges, must be {BINS}")
    seen = ~np.isnan(ranges)
    return Scan(stamp_ns, np.where(seen, ranges, np.float32(np.inf)), seen)


def _depth_image(name: str, image: ros.Image) -> np.ndarray:
    if image.encoding != DEPTH_ENCODING:
        raise InputError(f"camera {name}: its image is {image.encoding}, must be {DEPTH_ENCODING}")
    return np.frombuffer(image.data, np.uint16).reshape(image.height, image.width)


def _color_image(image: ros.Image) -> np.ndarray:
    if image.encoding != COLOR_ENCODING:
        raise InputError(f"camera {COLOR}: its image is {image.encoding}, must be {COLOR_ENCODING}")
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, 3)


def _wheels(one: WheelInput) -> OdometryMessage:
    pose = Pose(*one.pose) if one.pose else None
    return OdometryMessage(one.stamp_ns, one.arrival_ns, pose, Twist(*one.twist))


def _fix(one: FixInput) -> Fix:
    covariance = np.array(one.covariance, np.float64).reshape(3, 3) if one.covariance else None
    return Fix(one.stamp_ns, one.arrival_ns, Pose(*one.pose), covariance)


def _goal(one: GoalInput) -> GoalRequest:
    return GoalRequest(one.stamp_ns, one.arrival_ns, one.frame_id, Pose(*one.pose))


def _word(value: int) -> bool | None:
    return None if value < 0 else bool(value)
