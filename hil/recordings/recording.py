"""Opens a recording, checks it, and reads its messages chunk by chunk."""

from __future__ import annotations

import json
import struct
import tempfile
import textwrap
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from cyclonedds.idl import IdlStruct
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, ChunkIndex, Message, Metadata, MetadataIndex, Schema
from mcap.stream_reader import get_chunk_data_stream
from pydantic import ValidationError

from onboard.assembly.robot import scan_topics
from onboard.config.config import Config
from onboard.config.fixed_keys import without_fixed
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.toml_file import validation_lines
from onboard.drivers.dds.ros_types import BY_ROS_NAME, LaserScan, String, Twist, from_cdr, ros_name
from onboard.drivers.dds.tick_types import TickMessage
from onboard.drivers.dds.topics import CAMERA, TOPICS, raw_topic, ros_topic, scan_source
from onboard.recording.added_inputs import ADDED_TOPIC
from onboard.recording.mcap_file import FORMAT, SESSION
from onboard.recording.mcap_summary import MAGIC
from onboard.recording.repair import is_finished
from onboard.recording.ros_schema import message_type
from onboard.recording.tick_message import DECISION_TOPIC, KEYFRAME_TOPIC, MOVED_TOPIC, TICK_TOPIC
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, InputError, naming

IMPORTED_COMMANDS = "imported/cmd_vel"
"""Topic of a bag's own commands in the recording that `onboard-hil import` makes of it."""
THEN = (
    ("scan", "drop_m", 0.0),
    ("scan", "noise_per_m", 0.0),
    ("scan", "move_images", False),
    ("policy", "model", "reactive"),
    ("policy", "fallback", "none"),
    ("odometry", "scan_matching", False),
    ("limits", "slow_steps", 1),
    ("limits", "seen_free_s", 0.0),
    ("goal", "progress_timeout_s", 60.0),
    ("goal", "arrival_confidence", 0.0),
)
"""Former defaults of older recordings: section, key, value."""


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """One message.

    topic:   name in `onboard/drivers/dds/topics.py`, such as "scan"; "tick" of the recorder
    time_ns: arrival, wall time [ns since 1970]
    sample:  of a type of `ros_types` or `tick_types`
    """

    topic: str
    time_ns: int
    sample: Any


# ---- Messages of an MCAP file in file order, with at most one chunk in memory

MOST_BYTES = 1 << 26
"""Limit of a chunk or record, far above `mcap_file.CHUNK_BYTES`; a larger claim means damage."""
RECORD_HEAD = struct.Struct("<BQ")
MESSAGE_HEAD = struct.Struct("<HIQQ")
ZSTD = "zstd"
COMPRESSIONS = (ZSTD, "")


def messages_of(stream: BinaryIO, chunks: Iterable[ChunkIndex], channels: Container[int]) -> Iterator[Message]:
    """Yield the undecoded messages of some channels. Chunks without such messages by their index are not read.

    Raises ValueError, struct.error, McapError or ZstdError for a damaged file.
    """
    for index in sorted(chunks, key=lambda one: one.chunk_start_offset):
        if not index.message_index_offsets or any(channel in channels for channel in index.message_index_offsets):
            yield from _messages(_content(stream, index), channels)


def metadata_of(stream: BinaryIO, indexes: Iterable[MetadataIndex]) -> Iterator[Metadata]:
    """Yield the metadata records of a file. Raises as `messages_of`."""
    for index in sorted(indexes, key=lambda one: one.offset):
        yield Metadata.read(ReadDataStream(BytesIO(_record(stream, index.offset, index.length, Opcode.METADATA))))


def _content(stream: BinaryIO, index: ChunkIndex) -> bytes:
    """Return the records in a chunk."""
    body = _record(stream, index.chunk_start_offset, index.chunk_length, Opcode.CHUNK)
    chunk = Chunk.read(ReadDataStream(BytesIO(body)))
    if chunk.compression not in COMPRESSIONS:
        raise ValueError(f"a chunk compressed with {chunk.compression!r}, must be {ZSTD}")
    size = max(chunk.uncompressed_size, _frame_bytes(chunk.data) if chunk.compression == ZSTD else 0)
    if size > MOST_BYTES:
        raise ValueError(f"a chunk claims {size} bytes, the limit is {MOST_BYTES}")
    content, length = get_chunk_data_stream(chunk, validate_crc=True)
    return content.read(length)


def _frame_bytes(data: bytes) -> int:
    """Return the content size in the header of a zstd frame, 0 if unknown: the chunk's own size is then the bound."""
    size: int = zstandard.get_frame_parameters(data).content_size
    return 0 if size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) else size


def _record(stream: BinaryIO, offset: int, length: int, opcode: int) -> bytes:
    """Return the body of an indexed record."""
    if not RECORD_HEAD.size <= length <= MOST_BYTES:
        raise ValueError(f"an index of a record of {length} bytes")
    stream.seek(offset)
    record = stream.read(length)
    if len(record) < length or RECORD_HEAD.unpack_from(record) != (opcode, length - RECORD_HEAD.size):
        raise ValueError(f"the indexed record is not at byte {offset}")
    return record[RECORD_HEAD.size :]


def _messages(content: bytes, channels: Container[int]) -> Iterator[Message]:
    at = 0
    while at < len(content):
        opcode, length = RECORD_HEAD.unpack_from(content, at)
        at, end = at + RECORD_HEAD.size, at + RECORD_HEAD.size + length
        if end > len(content):
            raise ValueError(f"a record of {length} bytes, longer than its chunk")
        if opcode == Opcode.MESSAGE:
            channel, sequence, time_ns, published_ns = MESSAGE_HEAD.unpack_from(content, at)
            if channel in channels:
                yield Message(channel, time_ns, content[at + MESSAGE_HEAD.size : end], published_ns, sequence)
        at = end


TICK, KEYFRAME, DECISION, ADDED, MOVED = "tick", "keyframe", "decision", "added_inputs", "moved_scan"
KINDS: dict[str, type[IdlStruct]] = {**BY_ROS_NAME, ros_name(TickMessage): TickMessage}
DAMAGE = (
    McapError, zstandard.ZstdError, ValueError, KeyError, struct.error, OverflowError, RuntimeError, StopIteration,
    MemoryError,
)  # fmt: skip
"""Errors of reading a damaged file; StopIteration comes from a generator that ends too early."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the recorder, possibly over several files.

    name:   unique name; record: metadata of the recorder (`Recorder`)
    part:   number of this file in the session, from 0
    config, mounts: the robot's configuration and cameras as recorded
    """

    name: str
    record: Mapping[str, str]
    part: int
    config: Config
    mounts: Mounts


@dataclass(frozen=True, slots=True)
class Recording:
    """An open recording.

    sessions: sessions in the file; several if another tool joined recordings
    messages: number of messages in the file
    left_out: topics with message definitions of another version; they cannot be read
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
        """Metadata of the first session."""
        return self.sessions[0].record

    @property
    def config(self) -> Config:
        """Configuration of the first session."""
        return self.sessions[0].config

    @property
    def mounts(self) -> Mounts:
        """Mounts of the first session."""
        return self.sessions[0].mounts

    @property
    def wall_minus_monotonic_ns(self) -> int:
        """Offset of the recorder's clocks in the first session [ns]. Raises InputError."""
        try:
            return int(self.session["wall_minus_monotonic_ns"])
        except (KeyError, ValueError) as error:
            raise InputError(f"{self.path}: its session has no wall_minus_monotonic_ns") from error

    def name_of(self, channel: int) -> str:
        """Return the topic name of a channel, "" if it is unknown or cannot be read."""
        return self._names[channel][0] if channel in self._names else ""

    def read(self, only: Container[str] | None = None) -> Iterator[TopicMessage]:
        """Yield the messages in file order. only: topic names, None for all.

        Memory does not grow with the file. Decoding takes most of the time, so name the topics that you need.
        Raises InputError that names a damaged file; the messages before it are valid.
        """
        names = {number: name for number, name in self._names.items() if only is None or name[0] in only}
        at_ns = 0
        try:
            for message in messages_of(self._stream, self._chunks, names):
                at_ns = message.log_time
                name, kind = names[message.channel_id]
                yield TopicMessage(name, at_ns, from_cdr(kind, message.data))
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from error
        except DAMAGE as error:
            where = f"damaged after the messages of {at_ns / NS_PER_S:.3f} s"
            raise InputError(f"{self.path}: {where}: {_why(error)}") from error


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording of `onboard run`. Raises InputError in one line that names the file and the problem."""
    with naming(path), path.open("rb") as stream:
        _check_ends(path, stream)
        try:
            opened = _opened(path, stream)
        except DAMAGE as error:
            raise InputError(f"{path}: damaged: {_why(error)}") from error
        yield opened


def session_name(record: Mapping[str, str]) -> str:
    """Return the unique name of a session."""
    return record.get("session") or f"{record.get('robot', '')}_{record.get('wall_minus_monotonic_ns', '')}"


def part_of(record: Mapping[str, str]) -> int:
    """Return the number of this file in its session."""
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
        raise InputError(f"{path}: not written by onboard: its messages have no chunks or no index")
    sessions: dict[str, Session] = {}
    twice = [one for one, count in Counter((session_name(one), part_of(one)) for one in records).items() if count > 1]
    if twice:
        raise InputError(f"{path}: it contains part {twice[0][1]} of session {twice[0][0]} twice")
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


def _as_recorded(configuration: str) -> Any:
    """Return a recorded configuration; missing keys get the defaults of their time, and former ones are left out."""
    table = json.loads(configuration)
    if isinstance(table, dict):
        table, _ = without_fixed(table)
        for section, key, value in THEN:
            if isinstance(keys := table.setdefault(section, {}), dict):
                keys.setdefault(key, value)
    return table


def _session(path: Path, record: Mapping[str, str]) -> Session:
    """Return a session with its recorded configuration and mounts."""
    missing = [name for name in ("configuration", "mounts") if name not in record]
    if missing:
        raise InputError(f"{path}: not a recording of onboard: its session has no {missing[0]}")
    found = record.get("format", "unknown")
    version = "" if found == FORMAT else f" (format {found}, this version's is {FORMAT})"
    try:
        config = Config.model_validate(_as_recorded(record["configuration"]))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: recorded configuration{version}: {error}") from error
    except ValidationError as error:
        raise InputError(validation_lines(f"{path}: recorded configuration{version}", error)) from error
    with tempfile.TemporaryDirectory() as folder:
        mounts_file = Path(folder) / "mounts.toml"
        mounts_file.write_text(record["mounts"], encoding="utf-8")
        try:
            mounts = load_mounts(mounts_file)
        except ConfigError as error:
            why = str(error).replace(f"{mounts_file}: ", "")
            raise InputError(textwrap.indent(f"{why}{version}", f"{path}: recorded mounts: ")) from error
    return Session(session_name(record), record, part_of(record), config, mounts)


def _topics(
    session: Session,
    channels: Mapping[int, Channel],
    schemas: Mapping[int, Schema],
    names: dict[int, tuple[str, type[IdlStruct]]],
    left_out: set[str],
) -> None:
    """Add name and type of the readable channels to `names`, topics of the others to `left_out`."""
    known = _known(session)
    for number, channel in channels.items():
        if channel.topic not in known:
            continue
        name, kinds = known[channel.topic]
        schema = schemas.get(channel.schema_id)
        kind = KINDS[schema.name] if schema is not None and schema.name in kinds else None
        if schema is None or kind is None or schema.data.decode() != message_type(kind).definition:
            left_out.add(channel.topic)
        else:
            names[number] = name, kind


def _known(session: Session) -> dict[str, tuple[str, tuple[str | None, ...]]]:
    """Return topic name and possible ROS types of each configured topic of a session.

    Earlier versions recorded a command as Twist where they sent a TwistStamped.
    """
    section = session.config.dds
    known: dict[str, tuple[str, tuple[str | None, ...]]] = {
        TICK_TOPIC: (TICK, (ros_name(TickMessage),)),
        KEYFRAME_TOPIC: (KEYFRAME, (ros_name(String),)),
        DECISION_TOPIC: (DECISION, (ros_name(Twist),)),
        ADDED_TOPIC: (ADDED, (ros_name(String),)),
        MOVED_TOPIC: (MOVED, (ros_name(LaserScan),)),
    }
    for row in TOPICS:
        cameras = session.mounts.depth if CAMERA in row.name else [""]
        for name in (row.name.replace(CAMERA, camera) for camera in cameras):
            known[raw_topic(section, name)] = name, (row.kind, row.stamped_kind)
    for name in scan_topics(session.config).values():
        known[ros_topic(section, scan_source(name))] = name, (ros_name(LaserScan),)
    if "imported_from" in session.record:
        known[f"/{IMPORTED_COMMANDS}"] = IMPORTED_COMMANDS, (ros_name(Twist),)
    return known
