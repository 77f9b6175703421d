"""Messages of chunks: equal to the library's reader; impossible sizes are refused."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from mcap.reader import SeekingReader
from mcap.records import ChunkIndex
from mcap.writer import CompressionType, Writer

from hil.recordings.recording import MOST_BYTES, messages_of, metadata_of

MESSAGES = 400


def written(compression: CompressionType = CompressionType.ZSTD) -> bytes:
    """Return a file of two topics in several chunks."""
    stream = BytesIO()
    writer = Writer(stream, chunk_size=1 << 12, compression=compression)
    writer.start(profile="ros2", library="test")
    writer.add_metadata("about", {"a": "b"})
    schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data\n")
    channels = [writer.register_channel(topic, "cdr", schema) for topic in ("/even", "/odd")]
    for number in range(MESSAGES):
        writer.add_message(channels[number % 2], 1000 + number, bytes([number % 251]) * 50, 1000 + number)
    writer.finish()
    return stream.getvalue()


def summary_of(content: bytes) -> Any:
    return SeekingReader(BytesIO(content)).get_summary()


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
@pytest.mark.parametrize("topics", [{"/even", "/odd"}, {"/odd"}, set()])
def test_messages_are_those_of_the_librarys_reader(compression: CompressionType, topics: set[str]) -> None:
    content = written(compression)
    summary = summary_of(content)
    assert len(summary.chunk_indexes) > 3
    channels = {number for number, one in summary.channels.items() if one.topic in topics}
    theirs = [
        message for _, channel, message in SeekingReader(BytesIO(content)).iter_messages() if channel.topic in topics
    ]
    assert list(messages_of(BytesIO(content), summary.chunk_indexes, channels)) == theirs
    assert len(theirs) == MESSAGES // 2 * len(topics)


def test_metadata_is_read_where_its_index_says() -> None:
    content = written()
    (about,) = metadata_of(BytesIO(content), summary_of(content).metadata_indexes)
    assert (about.name, about.metadata) == ("about", {"a": "b"})


def test_a_compression_that_is_not_ours_is_named() -> None:
    content = written(CompressionType.LZ4)
    with pytest.raises(ValueError, match="a chunk compressed with 'lz4', must be zstd"):
        list(messages_of(BytesIO(content), summary_of(content).chunk_indexes, {1, 2}))


#   what the index says that is not so          said
LIES = [
    ({"chunk_length": MOST_BYTES + 1},           "an index of a record of 67108865 bytes"),
    ({"chunk_length": 3},                        "an index of a record of 3 bytes"),
    ({"chunk_start_offset": 1 << 40},            "the indexed record is not at byte 1099511627776"),
    ({"chunk_start_offset": 9},                  "the indexed record is not at byte 9"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "expected"), LIES)
def test_an_index_that_lies_is_found_out(lie: dict[str, int], expected: str) -> None:
    content = written()
    index: ChunkIndex = summary_of(content).chunk_indexes[0]
    for name, value in lie.items():
        setattr(index, name, value)
    with pytest.raises(ValueError, match=expected):
        list(messages_of(BytesIO(content), [index], {1, 2}))


def test_a_chunk_is_not_believed_to_hold_more_than_any_of_ours() -> None:
    content = bytearray(written())
    index = summary_of(bytes(content)).chunk_indexes[0]
    struct.pack_into("<Q", content, index.chunk_start_offset + 9 + 16, MOST_BYTES + 1)
    with pytest.raises(ValueError, match=f"claims {MOST_BYTES + 1} bytes"):
        list(messages_of(BytesIO(bytes(content)), [index], {1, 2}))
