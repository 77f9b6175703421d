"""The messages of an MCAP file chunk by chunk, in the order of the file, and never more in memory than a chunk.

`mcap`'s own reader takes every message apart, orders them again, and believes what a chunk says of its size. Ours are
in order; of most of their topics a replay needs nothing; and a damaged file may say anything.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator
from io import BytesIO
from typing import BinaryIO, NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Chunk, ChunkIndex, Metadata, MetadataIndex
from mcap.stream_reader import get_chunk_data_stream

MOST_BYTES = 1 << 26
"""No chunk or record of ours is nearly as long (`record_file.CHUNK_BYTES`); one that says so is damaged."""
RECORD_HEAD = struct.Struct("<BQ")
MESSAGE_HEAD = struct.Struct("<HIQQ")
ZSTD = "zstd"
COMPRESSIONS = (ZSTD, "")


class Packed(NamedTuple):
    """A message as it stands in the file. time_ns: its log time [ns since 1970]; data: CDR."""

    channel: int
    time_ns: int
    data: bytes


def messages_of(stream: BinaryIO, chunks: Iterable[ChunkIndex], channels: Container[int]) -> Iterator[Packed]:
    """Yield the messages of some channels. Chunks that hold none of them by their index are not read.

    Raises ValueError, struct.error, McapError or ZstdError where the file is damaged.
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
    told = max(chunk.uncompressed_size, _frame_bytes(chunk.data) if chunk.compression == ZSTD else 0)
    if told > MOST_BYTES:
        raise ValueError(f"a chunk that says it holds {told} bytes, at most {MOST_BYTES} are believed")
    content, length = get_chunk_data_stream(chunk, validate_crc=True)
    return content.read(length)


def _frame_bytes(data: bytes) -> int:
    """Return how much a zstd frame says that it holds, 0 where it says nothing: its chunk's word then bounds it."""
    told: int = zstandard.get_frame_parameters(data).content_size
    return 0 if told in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) else told


def _record(stream: BinaryIO, offset: int, length: int, opcode: int) -> bytes:
    """Return the body of the record that an index tells of."""
    if not RECORD_HEAD.size <= length <= MOST_BYTES:
        raise ValueError(f"an index of a record of {length} bytes")
    stream.seek(offset)
    record = stream.read(length)
    if len(record) < length or RECORD_HEAD.unpack_from(record) != (opcode, length - RECORD_HEAD.size):
        raise ValueError(f"no such record at byte {offset} as its index tells of")
    return record[RECORD_HEAD.size :]


def _messages(content: bytes, channels: Container[int]) -> Iterator[Packed]:
    at = 0
    while at < len(content):
        opcode, length = RECORD_HEAD.unpack_from(content, at)
        at, end = at + RECORD_HEAD.size, at + RECORD_HEAD.size + length
        if end > len(content):
            raise ValueError(f"a record of {length} bytes, longer than its chunk")
        if opcode == Opcode.MESSAGE:
            channel, _, time_ns, _ = MESSAGE_HEAD.unpack_from(content, at)
            if channel in channels:
                yield Packed(channel, time_ns, content[at + MESSAGE_HEAD.size : end])
        at = end
