"""A recording taken apart, spoiled as disks, networks, other tools and mistakes do, and put together again."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import zstandard
from mcap.reader import SeekingReader
from mcap.records import ChunkIndex
from mcap.writer import CompressionType, Writer

from onboard.recording.mcap_file import SESSION
from onboard.recording.tick_message import KEYFRAME_TOPIC, TICK_TOPIC

CHUNK_BYTES = 1 << 16
HALF_TICK_NS = 10**9 // 60
CDR_STRING_AT = 8
"""A string's text begins after the encapsulation header and its length."""
BOMB_BYTES = 1 << 31
DEEP = 100_000
JUNK = ("", "0", "-1", "NaN", "1e999", "null", "[[", "\0", "x" * 10_000, "9" * 400)


@dataclass(frozen=True)
class Message:
    topic: str
    schema: str
    definition: bytes
    time_ns: int
    data: bytes


@dataclass(frozen=True)
class Whole:
    """A recording taken apart."""

    content: bytes
    session: Mapping[str, str]
    messages: tuple[Message, ...]
    chunks: tuple[ChunkIndex, ...]


def taken_apart(content: bytes) -> Whole:
    reader = SeekingReader(BytesIO(content))
    (session,) = (one.metadata for one in reader.iter_metadata() if one.name == SESSION)
    messages = tuple(
        Message(channel.topic, schema.name, schema.data, message.log_time, message.data)
        for schema, channel, message in reader.iter_messages(log_time_order=False)
    )
    return Whole(content, session, messages, tuple(reader.get_summary().chunk_indexes))


def put_together(
    whole: Whole,
    compression: CompressionType = CompressionType.ZSTD,
    *,
    named: str = SESSION,
    more_sessions: Sequence[Mapping[str, str]] = (),
) -> bytes:
    """Return a whole file of a recording's parts, with checksums and index as they must be."""
    stream = BytesIO()
    writer = Writer(stream, chunk_size=CHUNK_BYTES, compression=compression)
    writer.start(profile="ros2", library="mutated")
    for session in (whole.session, *more_sessions):
        writer.add_metadata(named, dict(session))
    schemas: dict[tuple[str, bytes], int] = {}
    channels: dict[str, int] = {}
    for message in whole.messages:
        kind = message.schema, message.definition
        schemas[kind] = schemas.get(kind) or writer.register_schema(message.schema, "ros2msg", message.definition)
        channels[message.topic] = channels.get(message.topic) or writer.register_channel(
            message.topic, "cdr", schemas[kind]
        )
        writer.add_message(channels[message.topic], message.time_ns, message.data, message.time_ns)
    writer.finish()
    return stream.getvalue()


def join_sessions(recording: Path, file: Path) -> None:
    """Write to `file` a recording joined with itself, shifted by half a tick, as session "second"."""
    whole, offset = taken_apart(recording.read_bytes()), "wall_minus_monotonic_ns"
    later = {**whole.session, "session": "second", offset: str(int(whole.session[offset]) + HALF_TICK_NS)}
    moved = [replace(message, time_ns=message.time_ns + HALF_TICK_NS) for message in whole.messages]
    both = tuple(sorted([*whole.messages, *moved], key=lambda one: one.time_ns))
    file.write_bytes(put_together(replace(whole, messages=both), more_sessions=[later]))


def mutant(whole: Whole, number: int) -> bytes:
    """Return a spoiled recording; the same for the same number."""
    return MUTATIONS[number % len(MUTATIONS)](whole, np.random.default_rng(number))


# ---- the file as bytes; bits, cuts and noise come from `fuzz_bytes`


def swapped_chunks(whole: Whole, rng: np.random.Generator) -> bytes:
    a, b = sorted(rng.choice(len(whole.chunks), 2, replace=False))
    first, second = whole.chunks[a], whole.chunks[b]
    one = slice(first.chunk_start_offset, first.chunk_start_offset + first.chunk_length)
    other = slice(second.chunk_start_offset, second.chunk_start_offset + second.chunk_length)
    content = whole.content
    between = content[one.stop : other.start]
    return content[: one.start] + content[other] + between + content[one] + content[other.stop :]


def a_bomb(whole: Whole, rng: np.random.Generator) -> bytes:
    """A chunk that grows without end, its own size told rightly or not."""
    chunk = whole.chunks[rng.integers(len(whole.chunks))]
    compressed = zstandard.ZstdCompressor(level=1, write_content_size=bool(rng.integers(2)))
    zeros = compressed.compressobj(size=BOMB_BYTES if rng.integers(2) else -1)
    packed = b"".join(zeros.compress(bytes(1 << 24)) for _ in range(BOMB_BYTES >> 24)) + zeros.flush()
    reported = (BOMB_BYTES, 1000, 2**63)[rng.integers(3)]
    body = struct.pack("<QQQI", 0, 1, reported, 0) + struct.pack("<I4sQ", 4, b"zstd", len(packed)) + packed
    record = struct.pack("<BQ", 6, len(body)) + body
    start = chunk.chunk_start_offset
    padded = record.ljust(chunk.chunk_length, b"\0") if len(record) < chunk.chunk_length else record
    return whole.content[:start] + padded + whole.content[start + chunk.chunk_length :]


# ---- what stands in it, with checksums as they must be


def other_bytes_in_messages(whole: Whole, rng: np.random.Generator) -> bytes:
    return put_together(_with_data(whole, rng, _flipped))


def other_bytes_in_ticks(whole: Whole, rng: np.random.Generator) -> bytes:
    return put_together(_with_data(whole, rng, _flipped, topic=TICK_TOPIC))


def cut_messages(whole: Whole, rng: np.random.Generator) -> bytes:
    return put_together(_with_data(whole, rng, lambda data, rng: data[: rng.integers(0, len(data))]))


def lost_messages(whole: Whole, rng: np.random.Generator) -> bytes:
    kept = tuple(message for message in whole.messages if rng.random() > 0.02)
    return put_together(replace(whole, messages=kept))


def messages_in_another_order(whole: Whole, rng: np.random.Generator) -> bytes:
    order = np.arange(len(whole.messages)) + rng.normal(0.0, rng.choice([1.0, 10.0, 1000.0]), len(whole.messages))
    return put_together(replace(whole, messages=tuple(whole.messages[place] for place in np.argsort(order))))


def messages_twice(whole: Whole, rng: np.random.Generator) -> bytes:
    doubled = [message for message in whole.messages for _ in range(1 + (rng.random() < 0.05))]
    return put_together(replace(whole, messages=tuple(doubled)))


def other_topics(whole: Whole, rng: np.random.Generator) -> bytes:
    """Messages of one kind stand on the topic of another."""
    topics = sorted({message.topic for message in whole.messages})
    names = dict(zip(topics, rng.permutation(topics).tolist(), strict=True))
    return put_together(
        replace(whole, messages=tuple(replace(message, topic=names[message.topic]) for message in whole.messages))
    )


def another_state(whole: Whole, rng: np.random.Generator) -> bytes:
    """A whole state that says something else, or is none; ticks before it are gone, so that it is begun with."""
    first = next(place for place, message in enumerate(whole.messages) if message.topic == KEYFRAME_TOPIC)
    kept = replace(whole, messages=whole.messages[max(0, first - 3) :])
    return put_together(_with_data(kept, rng, _other_state, topic=KEYFRAME_TOPIC, share=1.0))


def another_session(whole: Whole, rng: np.random.Generator) -> bytes:
    """What the file says of robot, version and machine is something else."""
    name = rng.choice([*whole.session])
    text = whole.session[name]
    spoiled = [str(rng.choice(JUNK)), _with_junk(text, rng), text[: rng.integers(0, len(text) + 1)], None]
    value = spoiled[rng.integers(len(spoiled))]
    session = {key: one for key, one in whole.session.items() if key != name}
    return put_together(replace(whole, session=session if value is None else {**session, name: value}))


def an_older_version(whole: Whole, rng: np.random.Generator) -> bytes:
    session = {**whole.session, "format": str(rng.integers(0, 2)), "onboard_version": "0.0.1"}
    return put_together(replace(whole, session=session))


def foreign(whole: Whole, rng: np.random.Generator) -> bytes:
    """A whole MCAP file of something else: without our record, without messages, with others' on our topics."""
    kind = rng.integers(4)
    if kind == 0:
        return put_together(whole, named="another")
    if kind == 1:
        return put_together(replace(whole, messages=()))
    if kind == 2:
        return put_together(whole, CompressionType.LZ4)
    odd = tuple(
        replace(message, schema="std_msgs/msg/Header", definition=b"string odd\n") for message in whole.messages
    )
    return put_together(replace(whole, messages=odd))


def no_recording(whole: Whole, rng: np.random.Generator) -> bytes:
    """Nothing, noise, or noise between the right ends."""
    ends = whole.content[:8]
    return [b"", ends, rng.bytes(1000), ends + rng.bytes(1000) + whole.content[-37:]][rng.integers(4)]


MUTATIONS: tuple[Callable[[Whole, np.random.Generator], bytes], ...] = (
    swapped_chunks, other_bytes_in_messages, other_bytes_in_ticks, cut_messages, lost_messages,
    messages_in_another_order, messages_twice, other_topics, another_state, another_session, an_older_version, foreign,
    no_recording,
)  # fmt: skip


def _with_data(
    whole: Whole,
    rng: np.random.Generator,
    spoil: Callable[[bytes, np.random.Generator], bytes],
    *,
    topic: str = "",
    share: float = 0.02,
) -> Whole:
    """Return a recording in which some messages, at least one, hold something else."""
    places = [place for place, message in enumerate(whole.messages) if topic in ("", message.topic)]
    chosen = {place for place in places if rng.random() < share} or {places[rng.integers(len(places))]}
    messages = tuple(
        replace(message, data=spoil(message.data, rng)) if place in chosen else message
        for place, message in enumerate(whole.messages)
    )
    return replace(whole, messages=messages)


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    spoiled = np.frombuffer(data, np.uint8).copy()
    places = rng.integers(0, len(spoiled), rng.integers(1, 8))
    spoiled[places] = rng.choice([0, 1, 127, 128, 255], len(places))
    return spoiled.tobytes()


def _other_state(data: bytes, rng: np.random.Generator) -> bytes:
    text = data[CDR_STRING_AT:].split(b"\0")[0].decode()
    kind = rng.integers(4)
    if kind == 0:
        text = "[" * DEEP
    elif kind == 1:
        text = _with_junk(text, rng)
    else:
        state = json.loads(text)
        _spoil_leaf(state, rng)
        text = json.dumps(state)
    reported = text.encode() + b"\0"
    return data[:4] + struct.pack("<I", len(reported)) + reported


def _spoil_leaf(state: dict[str, object], rng: np.random.Generator) -> None:
    """Change one value, however deep, to another of any kind."""
    while True:
        name = rng.choice([*state])
        value = state[name]
        if not isinstance(value, dict) or not value or rng.random() < 0.1:
            others = [None, -1, 0, 1, 10**30, 1e308, float("nan"), float("inf"), "word", [], {}, [1.0] * 5, True]
            state[name] = others[rng.integers(len(others))]
            return
        state = value


def _with_junk(text: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(0, len(text) + 1))
    return text[:at] + str(rng.choice(JUNK)) + text[at + int(rng.integers(0, 20)) :]
