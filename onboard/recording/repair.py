"""Repairs an unfinished recording: cuts the incomplete end and appends the summary.

A killed process or a full disk leaves an MCAP file without its summary. `rosbags`, Foxglove and `ros2 bag` refuse this
file, although it has every chunk up to the last flush. The repair never rewrites complete records, so it is fast and
needs almost no space. A second repair completes an interrupted repair.
"""

from __future__ import annotations

import fcntl
import io
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, ChunkIndex, Message, MessageIndex, Metadata, MetadataIndex, Schema
from mcap.stream_reader import get_chunk_data_stream

from onboard.recording.mcap_summary import MAGIC, Contents, write_summary
from onboard.values.errors import InputError

MAX_CUT_BYTES = 16 * 1024 * 1024
"""Maximum size of an incomplete end. A larger part is damage in the middle, which the repair leaves unchanged."""

RECORD_HEAD = struct.Struct("<BQ")
CHUNK_HEAD = struct.Struct("<QQQII")
PACKED_LENGTH_BYTES = 8
INDEX_HEAD = struct.Struct("<HI")
INDEX_ENTRY_BYTES = 16
FOOTER_BYTES = RECORD_HEAD.size + 20
DATA = (Opcode.HEADER, Opcode.METADATA, Opcode.CHUNK, Opcode.MESSAGE_INDEX)
FOREIGN = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.ATTACHMENT)
DAMAGE = (McapError, zstandard.ZstdError, ValueError, struct.error, OverflowError, MemoryError)
"""Errors from damaged bytes; the last two from an impossible length."""

MAX_CHUNK_BYTES = 1 << 30
"""Maximum uncompressed size of a chunk. A larger size means damage, so the reader allocates no memory for it."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Result of the repair of a file.

    finished:  the file was complete and is unchanged
    messages:  number of messages in the file; 0 if the file is unchanged
    cut_bytes: size of the incomplete end that was cut
    problem:   why the repair failed, one line; "" if the file is complete
    """

    path: Path
    finished: bool
    messages: int = 0
    cut_bytes: int = 0
    problem: str = ""


def is_finished(path: Path) -> bool:
    """Return whether the file has the end of a complete MCAP file. Raises OSError."""
    with path.open("rb") as file:
        return _ends_well(file)


def repair(path: Path) -> Repair:
    """Repair an unfinished recording in place.

    Raises OSError, or InputError with the file: no MCAP file, in use, or damaged before its end.
    """
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{path}: is being recorded") from error
        if _ends_well(file):
            return Repair(path, finished=True)
        size = file.seek(0, io.SEEK_END)
        contents = _readable(file, path, size)
        if size - contents.end > MAX_CUT_BYTES:
            raise InputError(f"{path}: damaged at byte {contents.end} of {size}, not only at its end")
        file.truncate(contents.end)
        write_summary(file, contents)
        file.flush()
        os.fsync(file.fileno())
        return Repair(path, False, sum(contents.messages.values()), size - contents.end)


def repair_leftovers(paths: Iterable[Path]) -> tuple[Repair, ...]:
    """Repair the unfinished files; return the result for each of them."""
    return tuple(done for path in paths if not (done := _try_repair(path)).finished)


def _try_repair(path: Path) -> Repair:
    try:
        return Repair(path, finished=True) if is_finished(path) else repair(path)
    except (OSError, InputError) as error:
        return Repair(path, finished=False, problem=str(error))


@dataclass(slots=True)
class _Part:
    """Content of a chunk: schemas, channels, and for each channel the time and offset of its messages."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    messages: dict[int, MessageIndex] = field(default_factory=dict)


def _ends_well(file: BinaryIO) -> bool:
    size = file.seek(0, io.SEEK_END)
    tail = FOOTER_BYTES + len(MAGIC)
    if size < len(MAGIC) + tail:
        return False
    file.seek(size - tail)
    end = file.read(tail)
    return end[0] == Opcode.FOOTER and end.endswith(MAGIC)


def _readable(file: BinaryIO, path: Path, size: int) -> Contents:
    """Return the complete records of the file; check the last chunk and rebuild its index."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{path}: not an MCAP file")
    contents = _scan(file, path, size)
    if contents.end == len(MAGIC):
        raise InputError(f"{path}: ends before its first record")
    while contents.chunks:
        last = contents.chunks[-1]
        contents.end = last.chunk_start_offset + last.chunk_length
        try:
            part = _read_chunk(file, last)
        except DAMAGE:
            contents.end = last.chunk_start_offset
            contents.chunks.pop()
            contents.counts.pop()
            continue
        contents.last_index = list(part.messages.values())
        contents.counts[-1] = Counter({index.channel_id: len(index.records) for index in contents.last_index})
        break
    _collect_definitions(file, path, contents)
    return contents


def _scan(file: BinaryIO, path: Path, size: int) -> Contents:
    """Return the offsets of the complete records, without reading the content of chunks."""
    contents = Contents(end=len(MAGIC))
    with suppress(*DAMAGE):
        for opcode, start, length in _records(file, size):
            if opcode in FOREIGN:
                raise InputError(f"{path}: not recorded by onboard: a message or definition alone at byte {start}")
            if opcode not in DATA:
                break
            _note(file, contents, opcode, start, length)
            contents.end = start + length
    return contents


def _note(file: BinaryIO, contents: Contents, opcode: int, start: int, length: int) -> None:
    """Add a record to the contents. Raises one of DAMAGE if the record does not match its length."""
    if opcode == Opcode.CHUNK:
        contents.chunks.append(_chunk_index(file, start, length))
        contents.counts.append(Counter())
    elif opcode == Opcode.MESSAGE_INDEX:
        channel, entries_bytes = INDEX_HEAD.unpack(file.read(INDEX_HEAD.size))
        if not contents.chunks or RECORD_HEAD.size + INDEX_HEAD.size + entries_bytes != length:
            raise ValueError("a message index that does not fit")
        contents.chunks[-1].message_index_offsets[channel] = start
        contents.chunks[-1].message_index_length += length
        contents.counts[-1][channel] += entries_bytes // INDEX_ENTRY_BYTES
    elif opcode == Opcode.METADATA:
        name = Metadata.read(ReadDataStream(file)).name
        if file.tell() != start + length:
            raise ValueError("a metadata record that does not fit")
        contents.metadata.append(MetadataIndex(offset=start, length=length, name=name))


def _records(file: BinaryIO, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield opcode, offset and total length of each complete record; the file position is then after the head."""
    at = len(MAGIC)
    while at + RECORD_HEAD.size <= size:
        file.seek(at)
        opcode, body = RECORD_HEAD.unpack(file.read(RECORD_HEAD.size))
        length = RECORD_HEAD.size + body
        if at + length > size:
            return
        yield opcode, at, length
        at += length


def _chunk_index(file: BinaryIO, start: int, length: int) -> ChunkIndex:
    first_ns, last_ns, raw_bytes, _, name_bytes = CHUNK_HEAD.unpack(file.read(CHUNK_HEAD.size))
    packed_bytes = length - RECORD_HEAD.size - CHUNK_HEAD.size - name_bytes - PACKED_LENGTH_BYTES
    if packed_bytes < 0:
        raise ValueError("a chunk that does not fit its own length")
    compression = file.read(name_bytes).decode("ascii", errors="replace")
    if int.from_bytes(file.read(PACKED_LENGTH_BYTES), "little") != packed_bytes:
        raise ValueError("a chunk whose content does not fit its own length")
    return ChunkIndex(
        chunk_start_offset=start,
        chunk_length=length,
        compression=compression,
        compressed_size=packed_bytes,
        uncompressed_size=raw_bytes,
        message_start_time=first_ns,
        message_end_time=last_ns,
        message_index_length=0,
        message_index_offsets={},
    )


def _read_chunk(file: BinaryIO, index: ChunkIndex) -> _Part:
    """Return the content of a chunk. Raises one of DAMAGE if the chunk is damaged."""
    if index.uncompressed_size > MAX_CHUNK_BYTES:
        raise ValueError(f"a chunk of {index.uncompressed_size} bytes")
    file.seek(index.chunk_start_offset + RECORD_HEAD.size)
    body = io.BytesIO(file.read(index.chunk_length - RECORD_HEAD.size))
    stream, length = get_chunk_data_stream(Chunk.read(ReadDataStream(body)), validate_crc=True)
    part = _Part()
    while stream.count < length:
        offset = stream.count
        opcode, size = stream.read1(), stream.read8()
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            part.schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(stream)
            part.channels[channel.id] = channel
        elif opcode == Opcode.MESSAGE:
            message = Message.read(stream, size)
            entry = part.messages.setdefault(message.channel_id, MessageIndex(message.channel_id, []))
            entry.records.append((message.log_time, offset))
        else:
            raise ValueError(f"a chunk holds a record of kind {opcode}")
    if not part.messages or length != index.uncompressed_size:
        raise ValueError("a chunk that does not fit its head")
    return part


def _collect_definitions(file: BinaryIO, path: Path, contents: Contents) -> None:
    """Read chunks from the start until every channel with messages has its schema, usually a few chunks."""
    for chunk in contents.chunks:
        if contents.is_described():
            return
        try:
            part = _read_chunk(file, chunk)
        except DAMAGE as error:
            raise InputError(f"{path}: damaged at byte {chunk.chunk_start_offset}, not only at its end") from error
        contents.schemas.update(part.schemas)
        contents.channels.update(part.channels)
    if not contents.is_described():
        raise InputError(f"{path}: has messages of a channel that it does not describe")
