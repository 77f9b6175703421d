"""Writes an MCAP file: ROS 2 profile, zstd chunks, readable up to the last flush after any crash."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcap.writer import CompressionType, Writer

from onboard.recording.repair import repair
from onboard.values.errors import InputError

CHUNK_BYTES = 1024 * 1024
"""Size of a chunk. Compression of a chunk releases the GIL; a reader decompresses a whole chunk for one message."""

FORMAT = "3"
"""Version of the recorded format; a replay refuses or migrates other versions."""

SESSION = "onboard_session"
"""Name of the MCAP metadata record at the start of every file, with robot, configuration and code."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's ROS name (`geometry_msgs/msg/Twist`) and its definition with all nested messages (`ros2msg`)."""

    name: str
    definition: str


class RecordFile:
    """An open MCAP file, locked so that no other process repairs or deletes it. Not thread-safe.

    messages: number of added messages; flushed: number of these that survive a crash of the process
    """

    def __init__(self, path: Path, session: Mapping[str, str], library: str) -> None:
        """Create the file with its session record. Raises OSError, for example FileExistsError."""
        self.path = path
        self._stream = path.open("xb")
        fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._writer = Writer(self._stream, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self.messages = 0
        self.flushed = 0
        try:
            self._writer.start(profile="ros2", library=library)
            self._writer.add_metadata(SESSION, dict(session))
            self.flush()
        except OSError:
            path.unlink()
            with suppress(OSError):
                self._stream.close()
            raise

    def add(self, topic: str, kind: MessageType, data: bytes, log_ns: int, number: int) -> None:
        """Append a message. `log_ns` is wall time [ns since 1970]. Raises OSError."""
        channel = self._channels.get(topic)
        if channel is None:
            channel = self._channels[topic] = self._register(topic, kind)
        self.messages += 1
        self._writer.add_message(channel, log_time=log_ns, data=data, publish_time=log_ns, sequence=number)

    def flush(self) -> int:
        """Close the current chunk and write all to the operating system; return the file's size. Raises OSError."""
        self._writer.flush()
        self.flushed = self.messages
        return self._stream.tell()

    def size_bytes(self) -> int:
        """Return the bytes written so far, without the current chunk."""
        return self._stream.tell()

    def finish(self) -> int:
        """Write pending messages and the index, and close; return the size. After OSError call `abandon`."""
        self._writer.finish()
        size = self._stream.tell()
        self._stream.close()
        return size

    def abandon(self) -> int | None:
        """Close and repair the file. Return its number of messages, None if the repair failed."""
        with suppress(OSError):
            self._stream.close()  # also tries to write the buffer
        try:
            return repair(self.path).messages
        except (OSError, InputError):
            return None

    def _register(self, topic: str, kind: MessageType) -> int:
        schema = self._schemas.get(kind.name)
        if schema is None:
            schema = self._writer.register_schema(kind.name, "ros2msg", kind.definition.encode())
            self._schemas[kind.name] = schema
        return self._writer.register_channel(topic, "cdr", schema, {"offered_qos_profiles": ""})
