"""Writes the summary at the end of an MCAP file: index and statistics (MCAP specification 1.0)."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    McapRecord,
    MessageIndex,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC as MAGIC

__all__ = ["MAGIC", "Contents", "write_summary"]

FOOTER_BODY_BYTES = 20


@dataclass(slots=True)
class Contents:
    """The complete records of a file without its summary.

    end:        offset after the last chunk; without chunks, after the records at the start
    counts:     number of messages of each channel, one entry per chunk
    last_index: message index of the last chunk, to be written again
    """

    end: int
    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    chunks: list[ChunkIndex] = field(default_factory=list)
    counts: list[Counter[int]] = field(default_factory=list)
    metadata: list[MetadataIndex] = field(default_factory=list)
    last_index: list[MessageIndex] = field(default_factory=list)

    @property
    def messages(self) -> Counter[int]:
        """Number of messages of each channel in the file."""
        return sum(self.counts, Counter())

    def is_described(self) -> bool:
        """Return whether every channel with messages has a channel record and a schema."""
        used = [self.channels.get(channel) for channel in self.messages]
        return all(channel is not None and channel.schema_id in self.schemas for channel in used)


def write_summary(file: BinaryIO, contents: Contents) -> None:
    """Write the last chunk's message index, the DataEnd record and the summary at `contents.end`. Raises OSError."""
    file.seek(contents.end)
    builder = RecordBuilder()
    if contents.chunks:
        last = contents.chunks[-1]
        last.message_index_offsets = {}
        for index in contents.last_index:
            last.message_index_offsets[index.channel_id] = contents.end + builder.count
            index.write(builder)
        last.message_index_length = builder.count
    DataEnd(0).write(builder)
    file.write(builder.end())
    file.write(_summary(contents, file.tell()))
    file.write(MAGIC)


def _summary(contents: Contents, start: int) -> bytes:
    """Return summary and footer of a file whose summary starts at offset `start`."""
    groups: list[tuple[Opcode, Sequence[McapRecord]]] = [
        (Opcode.SCHEMA, list(contents.schemas.values())),
        (Opcode.CHANNEL, list(contents.channels.values())),
        (Opcode.STATISTICS, [_statistics(contents)]),
        (Opcode.CHUNK_INDEX, contents.chunks),
        (Opcode.METADATA_INDEX, contents.metadata),
    ]
    builder = RecordBuilder()
    offsets = []
    for opcode, records in groups:
        at = builder.count
        for record in records:
            record.write(builder)
        if records:
            offsets.append(SummaryOffset(opcode, start + at, builder.count - at))
    offsets_start = start + builder.count
    for offset in offsets:
        offset.write(builder)
    summary: bytes = builder.end()
    footer_head = struct.pack("<BQQQ", Opcode.FOOTER, FOOTER_BODY_BYTES, start, offsets_start)
    Footer(start, offsets_start, zlib.crc32(footer_head, zlib.crc32(summary))).write(builder)
    footer: bytes = builder.end()
    return summary + footer


def _statistics(contents: Contents) -> Statistics:
    return Statistics(
        attachment_count=0,
        channel_count=len(contents.channels),
        channel_message_counts=dict(contents.messages),
        chunk_count=len(contents.chunks),
        message_count=sum(contents.messages.values()),
        message_end_time=max((chunk.message_end_time for chunk in contents.chunks), default=0),
        message_start_time=min((chunk.message_start_time for chunk in contents.chunks), default=0),
        metadata_count=len(contents.metadata),
        schema_count=len(contents.schemas),
    )
