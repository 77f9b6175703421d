"""One MCAP file being written: ROS 2 profile, zstd chunks, whole up to the last flush whatever happens after."""

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
"""A chunk is compressed as one, without the interpreter's lock; a reader decompresses one to find one message."""

SESSION = "onboard_session"
"""Name of the MCAP metadata record that says what was recorded by whom, at the start of every file."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's ROS name (`geometry_msgs/msg/Twist`) and its definition, with all parts appended (`ros2msg`)."""

    name: str
    definition: str


class RecordFile:
    """Not thread-safe. `messages` have been added, `flushed` of them are safe from the end of the process.

    The file is locked while it is open, so that no other process repairs or deletes it.
    """

    def __init__(self, path: Path, session: Mapping[str, str], library: str) -> None:
        """Create the file with its session record. Raises OSError, FileExistsError among them."""
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
        """Close the chunk in progress and hand all to the operating system; return the file's size. Raises OSError."""
        self._writer.flush()
        self.flushed = self.messages
        return self._stream.tell()

    def size_bytes(self) -> int:
        """Return the bytes written so far, without the chunk in progress."""
        return self._stream.tell()

    def finish(self) -> int:
        """Write what is pending and the index, and close; return the size. Raises OSError: then `abandon` is left."""
        self._writer.finish()
        size = self._stream.tell()
        self._stream.close()
        return size

    def abandon(self) -> int | None:
        """Give up writing: close, and complete what stands in the file. Return its messages, None if not completed."""
        with suppress(OSError):
            self._stream.close()  # tries once more to write what is buffered
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
