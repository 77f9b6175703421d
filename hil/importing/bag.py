"""A rosbag2 (.db3, .mcap, or the folder of them) or a ROS 1 bag as messages of our own types, by way of `rosbags`."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.importing.compressed import CompressedImage, plain
from hil.importing.convert import ours
from onboard.drivers.ros_types import BY_ROS_NAME
from onboard.errors import InputError, MissingExtraError
from onboard.scheduler import NS_PER_S

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
ROSBAG2_INDEX = "metadata.yaml"
DAMAGE = (
    ValueError, LookupError, ArithmeticError, TypeError, AttributeError, NameError, SyntaxError, AssertionError,
    EOFError, RuntimeError, MemoryError, struct.error, sqlite3.Error,
)  # fmt: skip
"""What the library raises, beside errors of its own, where a file is damaged: it writes Python of the definitions."""


KINDS = {**BY_ROS_NAME, COMPRESSED: CompressedImage}
"""Types of messages that are read."""


@dataclass(frozen=True, slots=True)
class BagTopic:
    """A topic of a bag, whatever its type: `nav_msgs/msg/Odometry`. Compressed images are images."""

    name: str
    kind: str
    messages: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it was heard. time_ns: when it was recorded, the bag's clock; sample: of a type of `ros_types`."""

    topic: str
    time_ns: int
    sample: Any


class Bag:
    """An open bag. Its times are those at which messages were recorded [ns since 1970]."""

    def __init__(self, name: str, reader: Any) -> None:
        self.name = name
        self._reader = reader
        self.start_ns: int = reader.start_time
        self.end_ns: int = reader.end_time
        self.topics = tuple(
            BagTopic(name, IMAGE if info.msgtype == COMPRESSED else info.msgtype or "", info.msgcount)
            for name, info in sorted(reader.topics.items())
        )

    @property
    def duration_s(self) -> float:
        """Return the time from the first message to the last."""
        return (self.end_ns - self.start_ns) / NS_PER_S

    def heard(self, topics: Collection[str]) -> Iterator[Arrived]:
        """Yield the messages of some topics in their order. Memory does not grow with the bag.

        Raises InputError that names the bag for one that cannot be read.
        """
        wanted = [one for one in self._reader.connections if one.topic in topics and one.msgtype in KINDS]
        if not wanted:
            return
        with _readable(self.name):
            for connection, time_ns, data in self._reader.messages(connections=wanted):
                message = self._reader.deserialize(data, connection.msgtype)
                sample = ours(KINDS[connection.msgtype], message)
                yield Arrived(connection.topic, time_ns, plain(sample) if type(sample) is CompressedImage else sample)

    def first(self, topic: str) -> Any | None:
        """Return the first message of a topic, None where there is none. Raises InputError."""
        return next((one.sample for one in self.heard({topic})), None)


@contextmanager
def open_bag(paths: Sequence[Path]) -> Iterator[Bag]:
    """Open one rosbag2, or the ROS 1 bags of one drive. Raises InputError in one line, or MissingExtraError."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtraError("rosbags", "bags") from error
    name = ", ".join(map(str, paths))
    if len(paths) > 1 and any(path.suffix != ".bag" for path in paths):
        raise InputError(f"{name}: several files of one drive are taken of ROS 1 (.bag) only; a rosbag2 is its folder")
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: there is no such bag")
        if path.is_dir() and not (path / ROSBAG2_INDEX).is_file():
            raise InputError(f"{path}: not a rosbag2: the folder has no {ROSBAG2_INDEX}")
    with _readable(name):
        reader = AnyReader(list(paths), default_typestore=get_typestore(Stores.ROS2_HUMBLE))
        reader.open()
    try:
        if reader.message_count == 0:
            raise InputError(f"{name}: there is no message in it")
        with _readable(name):
            bag = Bag(name, reader)
        yield bag
    finally:
        reader.close()


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn what the library raises into an InputError that names the bag."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except (*_errors(), *DAMAGE) as error:
        line = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(f"{name}: not a bag that can be read: {line}") from error


def _errors() -> tuple[type[Exception], ...]:
    """Return the library's own errors, with those of the SQLite and zstd bindings that it has from 0.11 on."""
    from rosbags.highlevel import AnyReaderError
    from rosbags.rosbag1 import ReaderError as Ros1Error
    from rosbags.rosbag2 import ReaderError as Ros2Error
    from rosbags.serde import SerdeError
    from rosbags.typesys import TypesysError

    found: list[type[Exception]] = [AnyReaderError, Ros1Error, Ros2Error, SerdeError, TypesysError]
    with suppress(ImportError):
        import apsw

        found.append(apsw.Error)
    with suppress(ImportError):
        from backports.zstd import ZstdError

        found.append(ZstdError)
    return tuple(found)
