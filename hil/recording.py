"""One of our recordings as messages: opened, checked, and read chunk by chunk, whatever its length."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard
from cyclonedds.idl import IdlStruct
from mcap.exceptions import McapError
from mcap.reader import SeekingReader
from mcap.records import Channel, Schema
from pydantic import ValidationError

from hil.heard import Heard
from onboard.assembly import scan_topics
from onboard.config import Config, validation_line
from onboard.drivers.dds_topics import CAMERA, TOPICS, ros_topic, scan_source
from onboard.drivers.onboard_types import Tick
from onboard.drivers.record_tick import KEYFRAME_TOPIC, TICK_TOPIC
from onboard.drivers.ros_schema import message_type
from onboard.drivers.ros_types import BY_ROS_NAME, from_cdr, ros_name
from onboard.errors import ConfigError, InputError
from onboard.mounts import Mounts, load_mounts
from onboard.record_file import SESSION
from onboard.record_summary import MAGIC
from onboard.repair import is_finished

TICK, KEYFRAME = "tick", "keyframe"
MOST_RECORD_BYTES = 1 << 30
"""No record of ours is nearly as long; one that says so is damaged."""
KINDS: dict[str, type[IdlStruct]] = {**BY_ROS_NAME, ros_name(Tick): Tick}
DAMAGE = (McapError, zstandard.ZstdError, ValueError, KeyError, struct.error, RuntimeError, StopIteration, MemoryError)
"""What reading a damaged file raises; the last but one where a generator meets its end too early."""


@dataclass(frozen=True, slots=True)
class Recording:
    """An open recording.

    session:  what was recorded by whom (`record.Recorder`)
    config:   of the robot when it was recorded
    mounts:   its cameras
    messages: in the whole file
    left_out: topics that were recorded by a version of ours with other fields; they cannot be read
    """

    path: Path
    session: Mapping[str, str]
    config: Config
    mounts: Mounts
    messages: int
    left_out: tuple[str, ...]
    _reader: SeekingReader
    _names: dict[int, tuple[str, type[IdlStruct]]]

    def heard(self, only: Container[str] | None = None) -> Iterator[Heard]:
        """Yield the messages in their order, those of some topics where `only` names them.

        Memory does not grow with the file. Most of the time goes into taking messages apart: ask for what you need.
        Raises InputError that names the file where it is damaged; what came before was good.
        """
        at_ns = 0
        try:
            for _, channel, message in self._reader.iter_messages():
                at_ns = message.log_time
                if channel.id not in self._names:
                    continue
                name, kind = self._names[channel.id]
                if only is None or name in only:
                    yield Heard(name, at_ns, from_cdr(kind, message.data))
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from error
        except DAMAGE as error:
            raise InputError(f"{self.path}: damaged after the messages of {at_ns / 1e9:.3f} s: {error}") from error


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording of `onboard run`. Raises InputError with one line that names the file and what is wrong."""
    try:
        with path.open("rb") as stream:
            _check_ends(path, stream)
            try:
                opened = _opened(path, stream)
            except DAMAGE as error:
                raise InputError(f"{path}: damaged: {error or type(error).__name__}") from error
            yield opened
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _check_ends(path: Path, stream: BinaryIO) -> None:
    if stream.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{path}: not a recording: no MCAP file")
    if not is_finished(path):
        raise InputError(f"{path}: unfinished: still being recorded, or cut off: then `onboard repair` completes it")
    stream.seek(0)


def _opened(path: Path, stream: BinaryIO) -> Recording:
    reader = SeekingReader(stream, validate_crcs=True, record_size_limit=MOST_RECORD_BYTES)
    session = next((record.metadata for record in reader.iter_metadata() if record.name == SESSION), None)
    summary = reader.get_summary()
    if session is None or summary is None or summary.statistics is None:
        raise InputError(f"{path}: not a recording of onboard: it has no record {SESSION!r}")
    config, mounts = _robot(path, session)
    names, left_out = _topics(config, mounts, summary.channels, summary.schemas)
    return Recording(path, session, config, mounts, summary.statistics.message_count, left_out, reader, names)


def _robot(path: Path, session: dict[str, str]) -> tuple[Config, Mounts]:
    """Return configuration and mounts as they were recorded."""
    try:
        config = Config.model_validate_json(session["configuration"])
    except ValidationError as error:
        raise InputError(f"{validation_line(path, error)}, in the recorded configuration") from error
    with tempfile.TemporaryDirectory() as folder:
        mounts_file = Path(folder) / "mounts.toml"
        mounts_file.write_text(session["mounts"], encoding="utf-8")
        try:
            return config, load_mounts(mounts_file)
        except ConfigError as error:
            raise InputError(f"{path}: recorded mounts: {str(error).replace(str(mounts_file), 'mounts')}") from error


def _topics(
    config: Config, mounts: Mounts, channels: dict[int, Channel], schemas: dict[int, Schema]
) -> tuple[dict[int, tuple[str, type[IdlStruct]]], tuple[str, ...]]:
    """Return our name and type of the channels that can be read, and the topics of those that cannot."""
    section, cameras = config.dds, list(mounts.depth)
    ours = [row.name for row in TOPICS if CAMERA not in row.name]
    ours += [row.name.replace(CAMERA, camera) for row in TOPICS if CAMERA in row.name for camera in cameras]
    known = {ros_topic(section, name): name for name in ours} | {TICK_TOPIC: TICK, KEYFRAME_TOPIC: KEYFRAME}
    known |= {ros_topic(section, scan_source(name)): name for name in scan_topics(config).values()}
    names, left_out = {}, []
    for number, channel in channels.items():
        schema = schemas.get(channel.schema_id)
        kind = KINDS.get(schema.name) if schema is not None else None
        if channel.topic not in known:
            continue
        if schema is None or kind is None or schema.data.decode() != message_type(kind).definition:
            left_out.append(channel.topic)
        else:
            names[number] = (known[channel.topic], kind)
    return names, tuple(sorted(left_out))
