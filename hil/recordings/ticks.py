"""Recordings as ticks: gathers the messages of each tick."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hil.recordings.recording import ADDED, DECISION, KEYFRAME, MOVED, TICK, Recording, Session, TopicMessage
from onboard.assembly.robot import scan_topics
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import twist_from_ros
from onboard.drivers.dds.tick_types import TickMessage
from onboard.recording.added_inputs import NOTHING, decode
from onboard.recording.tick_message import COLOR, scan_of, tick_record
from onboard.state import TickRecord
from onboard.values.errors import InputError
from onboard.values.messages import Scan, Twist

DEPTH = "/depth/image"
SCANS = ("scan", "limits_scan")
COLOR_TOPIC = "color/image"


class TickReader:
    """Gathers the messages of one session's ticks over all its files.

    It keeps the newest ready-made scan of each topic, as an inbox does. A tick is returned with the next message,
    because a keyframe may follow the tick.

    any_camera: accept a tick with a camera that is not in the mounts, without the image of this camera
    """

    def __init__(self, session: Session, *, any_camera: bool = False) -> None:
        self._cameras = None if any_camera else session.mounts.depth.keys()
        self._scan_names = scan_topics(session.config)
        self._waiting: TickMessage | None = None
        self._keyframe = ""
        self._images: dict[str, ros.Image] = {}
        self._scans: dict[str, ros.LaserScan] = {}
        self._first: dict[str, ros.LaserScan] = {}
        self._ready_made: dict[str, Scan] = {}
        self._own: Twist | None = None
        self._added = NOTHING
        self._moved: ros.LaserScan | None = None

    def take(self, message: TopicMessage) -> TickRecord | None:
        """Take the next message; return the tick that it completes.

        Raises InputError or ValueError for inconsistent messages.
        """
        if self._waiting is not None and message.topic == KEYFRAME:
            self._keyframe = message.sample.data
            return None
        whole = self.last()
        if message.topic == TICK:
            self._waiting = message.sample
        elif message.topic == DECISION:
            self._own = twist_from_ros(message.sample)
        elif message.topic == ADDED:
            self._added = decode(message.sample.data)
        elif message.topic == MOVED:
            self._moved = message.sample
        elif message.topic.endswith(DEPTH):
            self._images[message.topic.removesuffix(DEPTH)] = message.sample
        elif message.topic == COLOR_TOPIC:
            self._images[COLOR] = message.sample
        elif message.topic in (*SCANS, *self._scan_names.values()):
            self._first.setdefault(message.topic, message.sample)  # a lidar may have the name of our own scan
            self._scans[message.topic] = message.sample
        return whole

    def last(self) -> TickRecord | None:
        """Return the waiting tick, None without one or if it is incomplete. Raises as `take`."""
        tick, keyframe = self._waiting, self._keyframe
        self._waiting, self._keyframe = None, ""
        return None if tick is None else self._tick(tick, keyframe)

    def _tick(self, tick: TickMessage, keyframe: str) -> TickRecord | None:
        """Return the tick, None if one of its scans was lost, and clear the gathered messages."""
        strangers = set() if self._cameras is None else set(tick.cameras) - self._cameras - {COLOR}
        if strangers:
            raise InputError(
                f"tick {tick.slot}: camera {min(strangers)} is not in the recorded mounts, which have "
                f"{', '.join(self._cameras or ())}"
            )
        came, images, own, added = self._scans, self._images, self._own, self._added
        ready_made, self._first = self._first, {}
        self._scans, self._images, self._own, self._added = {}, {}, None, NOTHING
        moved, self._moved = self._moved, None
        stamps = added.scan_stamps
        self._ready_made |= {
            name: self._scan(ready_made[name], name, tick, stamps.get(name)) for name in tick.scans if name in came
        }
        if not {"scan", *tick.scans} <= came.keys():
            return None
        try:
            scan = limits_scan = scan_of(came["scan"], tick.scan_stamp_ns)
            if "limits_scan" in came:
                limits_scan = scan_of(came["limits_scan"], tick.limits_scan_stamp_ns)
            moved_scan = None if moved is None else scan_of(moved, tick.start_ns)
            ready = dict(self._ready_made)
            return tick_record(tick, images, (scan, limits_scan), ready, keyframe, own, added, moved_scan)
        except (InputError, ValueError) as error:
            raise InputError(f"tick {tick.slot}: {error}") from error

    def _scan(self, message: ros.LaserScan, name: str, tick: TickMessage, own_ns: int | None) -> Scan:
        """Return the ready-made scan of a topic. Without a stamp of its own it has that of the tick's scan."""
        if own_ns is not None:
            return replace(scan_of(message, own_ns), arrival_ns=tick.start_ns)
        stamp_ns = tick.scan_stamp_ns if name == self._scan_names.get("scan") else tick.limits_scan_stamp_ns
        return replace(scan_of(message, stamp_ns), arrival_ns=tick.start_ns)


def topics_of(session: Session, *, images: bool = True) -> set[str]:
    """Return the names of the topics that ticks consist of. images: also of images and keyframes."""
    names = {TICK, DECISION, ADDED, MOVED, *SCANS, *scan_topics(session.config).values()}
    pictures = {KEYFRAME, COLOR_TOPIC, *(f"{camera}{DEPTH}" for camera in session.mounts.depth)}
    return names | pictures if images else names


def ticks_of(recording: Recording) -> Iterator[TickRecord]:
    """Yield the complete ticks of a recording's first session. Raises as `ticks_by_session`."""
    first = recording.sessions[0]
    for session, tick in ticks_by_session(recording, {one.name: TickReader(one) for one in recording.sessions}):
        if session is first:
            yield tick


def ticks_by_session(
    recording: Recording, readers: Mapping[str, TickReader], *, images: bool = True
) -> Iterator[tuple[Session, TickRecord]]:
    """Yield the complete ticks of all sessions, each with its session.

    readers: by session name; they continue from file to file
    images:  False leaves out images and keyframes, which takes less time and memory
    Raises InputError that names the file if it cannot be read.
    """
    only = set().union(*(topics_of(session, images=images) for session in recording.sessions))
    with naming(recording.path):
        for session, message in messages_by_session(recording, only):
            if (tick := readers[session.name].take(message)) is not None:
                yield session, tick
        for session in recording.sessions:
            if (tick := readers[session.name].last()) is not None:
                yield session, tick


@contextlib.contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Turn InputError and ValueError of the block into InputError that names the file."""
    try:
        yield
    except (InputError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InputError(text if str(path) in text else f"{path}: {text}") from error


# ---- Separates the messages of several sessions in one file

MOST_AHEAD = 64
"""Most times for which messages wait for their tick."""
OFFSET = "wall_minus_monotonic_ns"

Value = TypeVar("Value")


def messages_by_session(recording: Recording, only: Container[str]) -> Iterator[tuple[Session, TopicMessage]]:
    """Yield the messages of some topics, each with its session.

    All messages of a tick carry its start in wall time; the tick also has its start in the session's monotonic time.
    Their difference identifies the session. With several sessions, messages without a tick are left out.
    Raises InputError as `Recording.read`, and if two sessions have the same difference.
    """
    if len(recording.sessions) == 1:
        for message in recording.read(only):
            yield recording.sessions[0], message
        return
    by_offset = _by_offset(recording)
    ahead: OrderedDict[int, list[TopicMessage]] = OrderedDict()
    ticked: OrderedDict[int, Session] = OrderedDict()
    for message in recording.read(only):
        if message.topic == TICK:
            before = ahead.pop(message.time_ns, [])
            session = by_offset.get(message.time_ns - message.sample.start_ns)
            if session is not None:
                _keep(ticked, message.time_ns, session)
                for one in (*before, message):
                    yield session, one
        elif message.topic == KEYFRAME:
            if message.time_ns in ticked:
                yield ticked[message.time_ns], message
        else:
            _keep(ahead, message.time_ns, [*ahead.get(message.time_ns, []), message])


def _by_offset(recording: Recording) -> dict[int, Session]:
    found: dict[int, Session] = {}
    for session in recording.sessions:
        text = session.record.get(OFFSET, "")
        try:
            offset_ns = int(text)
        except ValueError as error:
            raise InputError(f"{recording.path}: session {session.name} has no {OFFSET}: {text[:40]!r}") from error
        if offset_ns in found:
            others = f"{found[offset_ns].name} and {session.name}"
            raise InputError(f"{recording.path}: sessions {others} have the same {OFFSET}")
        found[offset_ns] = session
    return found


def _keep(kept: OrderedDict[int, Value], time_ns: int, value: Value) -> None:
    kept[time_ns] = value
    while len(kept) > MOST_AHEAD:
        kept.popitem(last=False)
