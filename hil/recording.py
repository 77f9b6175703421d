"""One of our recordings as messages: opened, checked, and read chunk by chunk, whatever its length."""

from __future__ import annotations

import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import zstandard
from cyclonedds.idl import IdlStruct
from mcap.exceptions import McapError
from mcap.reader import SeekingReader
from mcap.records import Channel, ChunkIndex, Schema
from pydantic import ValidationError

from hil.heard import Heard
from hil.record_chunks import MOST_BYTES, Packed, messages_of, metadata_of
from onboard.config import Config
from onboard.description import scan_topics
from onboard.drivers.dds_topics import CAMERA, TOPICS, ros_topic, scan_source
from onboard.drivers.onboard_types import Tick
from onboard.drivers.record_tick import KEYFRAME_TOPIC, TICK_TOPIC
from onboard.drivers.ros_schema import message_type
from onboard.drivers.ros_types import BY_ROS_NAME, LaserScan, String, from_cdr, ros_name
from onboard.errors import ConfigError, InputError
from onboard.mounts import Mounts, load_mounts
from onboard.record import FORMAT
from onboard.record_file import SESSION
from onboard.record_summary import MAGIC
from onboard.repair import is_finished
from onboard.scheduler import NS_PER_S
from onboard.toml_file import validation_line

Made = TypeVar("Made")
TICK, KEYFRAME = "tick", "keyframe"
KINDS: dict[str, type[IdlStruct]] = {**BY_ROS_NAME, ros_name(Tick): Tick}
DAMAGE = (
    McapError, zstandard.ZstdError, ValueError, KeyError, struct.error, OverflowError, RuntimeError, StopIteration,
    MemoryError,
)  # fmt: skip
"""What reading a damaged file raises; the last but one where a generator meets its end too early."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the recorder, which may go on over several files.

    name:   tells it from all others; record: what was recorded by whom (`record.Recorder`)
    part:   number of the file among those of the session, from 0
    config: of the robot when it was recorded; mounts: its cameras
    """

    name: str
    record: Mapping[str, str]
    part: int
    config: Config
    mounts: Mounts


@dataclass(frozen=True, slots=True)
class Recording:
    """An open recording.

    sessions: in the file, one unless another tool has joined several
    messages: in the whole file
    left_out: topics that were recorded by a version of ours with other fields; they cannot be read
    """

    path: Path
    sessions: tuple[Session, ...]
    messages: int
    left_out: tuple[str, ...]
    _stream: BinaryIO
    _chunks: Sequence[ChunkIndex]
    _names: Mapping[int, tuple[str, type[IdlStruct]]]

    @property
    def session(self) -> Mapping[str, str]:
        """What was recorded by whom, in the first session."""
        return self.sessions[0].record

    @property
    def config(self) -> Config:
        """The robot's configuration in the first session."""
        return self.sessions[0].config

    @property
    def mounts(self) -> Mounts:
        """The robot's cameras in the first session."""
        return self.sessions[0].mounts

    def name_of(self, channel: int) -> str:
        """Return our name of a channel's topic, "" of one that is not ours or cannot be read."""
        return self._names[channel][0] if channel in self._names else ""

    def heard(self, only: Container[str] | None = None) -> Iterator[Heard]:
        """Yield the messages in their order, those of some topics where `only` names them.

        Memory does not grow with the file. Most of the time goes into taking messages apart: ask for what you need.
        Raises InputError that names the file where it is damaged; what came before was good.
        """
        return self._each(only, lambda name, kind, packed: Heard(name, packed.time_ns, from_cdr(kind, packed.data)))

    def walked(self) -> Iterator[tuple[str, int]]:
        """Yield topic and time [ns since 1970] of each message, every chunk unpacked and checked, none taken apart.

        Raises as `heard`.
        """
        return self._each(None, lambda name, kind, packed: (name, packed.time_ns))

    def _each(
        self, only: Container[str] | None, make: Callable[[str, type[IdlStruct], Packed], Made]
    ) -> Iterator[Made]:
        """Yield what is made of each message."""
        names = {number: one for number, one in self._names.items() if only is None or one[0] in only}
        at_ns = 0
        try:
            for packed in messages_of(self._stream, self._chunks, names):
                at_ns = packed.time_ns
                yield make(*names[packed.channel], packed)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from error
        except DAMAGE as error:
            where = f"damaged after the messages of {at_ns / NS_PER_S:.3f} s"
            raise InputError(f"{self.path}: {where}: {_why(error)}") from error


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording of `onboard run`. Raises InputError with one line that names the file and what is wrong."""
    try:
        with path.open("rb") as stream:
            _check_ends(path, stream)
            try:
                opened = _opened(path, stream)
            except DAMAGE as error:
                raise InputError(f"{path}: damaged: {_why(error)}") from error
            yield opened
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def session_name(record: Mapping[str, str]) -> str:
    """Return what tells a session from all others."""
    return record.get("session") or f"{record.get('robot', '')}_{record.get('wall_minus_monotonic_ns', '')}"


def part_of(record: Mapping[str, str]) -> int:
    """Return which of its session's files a record stands in."""
    number = record.get("file_number", "0")
    return int(number) if number.isascii() and number.isdecimal() else 0


def _why(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _check_ends(path: Path, stream: BinaryIO) -> None:
    if stream.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{path}: not a recording: no MCAP file")
    if not is_finished(path):
        raise InputError(f"{path}: unfinished: still being recorded, or cut off: then `onboard repair` completes it")
    stream.seek(0)


def _opened(path: Path, stream: BinaryIO) -> Recording:
    summary = SeekingReader(stream, record_size_limit=MOST_BYTES).get_summary()
    if summary is None or summary.statistics is None:
        raise InputError(f"{path}: not a recording of onboard: it has no summary")
    records = [one.metadata for one in metadata_of(stream, summary.metadata_indexes) if one.name == SESSION]
    if not records:
        raise InputError(f"{path}: not a recording of onboard: it has no record {SESSION!r}")
    messages = summary.statistics.message_count
    if messages and not summary.chunk_indexes:
        raise InputError(f"{path}: not as onboard records: its messages are in no chunks, or without their index")
    sessions: dict[str, Session] = {}
    twice = [one for one, count in Counter((session_name(one), part_of(one)) for one in records).items() if count > 1]
    if twice:
        raise InputError(f"{path}: part {twice[0][1]} of session {twice[0][0]} stands in it twice")
    for session in (_session(path, record) for record in records):
        if session.name not in sessions or session.part < sessions[session.name].part:
            sessions[session.name] = session
    names: dict[int, tuple[str, type[IdlStruct]]] = {}
    left_out: set[str] = set()
    for session in sessions.values():
        _topics(session, summary.channels, summary.schemas, names, left_out)
    return Recording(
        path, tuple(sessions.values()), messages, tuple(sorted(left_out)), stream, summary.chunk_indexes, names
    )


def _session(path: Path, record: Mapping[str, str]) -> Session:
    """Return a session with the robot's configuration and mounts as they were recorded."""
    missing = [name for name in ("configuration", "mounts") if name not in record]
    if missing:
        raise InputError(f"{path}: not a recording of onboard: its session has no {missing[0]}")
    told = record.get("format", "unknown")
    version = "" if told == FORMAT else f" (format {told}, this version's is {FORMAT})"
    try:
        config = Config.model_validate_json(record["configuration"])
    except ValidationError as error:
        raise InputError(f"{validation_line(path, error)}, in the recorded configuration{version}") from error
    with tempfile.TemporaryDirectory() as folder:
        mounts_file = Path(folder) / "mounts.toml"
        mounts_file.write_text(record["mounts"], encoding="utf-8")
        try:
            mounts = load_mounts(mounts_file)
        except ConfigError as error:
            why = str(error).replace(str(mounts_file), "mounts")
            raise InputError(f"{path}: recorded mounts: {why}{version}") from error
    return Session(session_name(record), record, part_of(record), config, mounts)


def _topics(
    session: Session,
    channels: Mapping[int, Channel],
    schemas: Mapping[int, Schema],
    names: dict[int, tuple[str, type[IdlStruct]]],
    left_out: set[str],
) -> None:
    """Enter our name and type of the channels that can be read, and the topics of those that cannot."""
    known = _known(session)
    for number, channel in channels.items():
        if channel.topic not in known:
            continue
        name, ros_kind = known[channel.topic]
        kind, schema = KINDS[ros_kind], schemas.get(channel.schema_id)
        if schema is None or (schema.name, schema.data.decode()) != (ros_kind, message_type(kind).definition):
            left_out.add(channel.topic)
        else:
            names[number] = name, kind


def _known(session: Session) -> dict[str, tuple[str, str]]:
    """Return our name and the ROS type of what a session has on the topics of its configuration."""
    section = session.config.dds
    known = {TICK_TOPIC: (TICK, ros_name(Tick)), KEYFRAME_TOPIC: (KEYFRAME, ros_name(String))}
    for row in TOPICS:
        cameras = session.mounts.depth if CAMERA in row.name else [""]
        for name in (row.name.replace(CAMERA, camera) for camera in cameras):
            known[ros_topic(section, name)] = name, row.kind
    for name in scan_topics(session.config).values():
        known[ros_topic(section, scan_source(name))] = name, ros_name(LaserScan)
    return known
