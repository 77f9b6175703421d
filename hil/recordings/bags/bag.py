"""Reads a rosbag2 (.db3, .mcap, or its folder) or a ROS 1 bag through `rosbags`, as messages of `ros_types`."""

from __future__ import annotations

import sqlite3
import struct
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, sequence

from hil.recordings.recording import TopicMessage
from onboard.drivers.dds.camera_input import uncompressed as plain_image
from onboard.drivers.dds.ros_types import BY_ROS_NAME, ByteSequence, CompressedImage, Image, TFMessage
from onboard.drivers.dds.topics import COMPRESSED_TOPICS
from onboard.recording.ros_schema import EMPTY_MEMBER
from onboard.values.errors import InputError, MissingExtraError


def uncompressed(topic: str) -> str:
    """Return the topic without a suffix for compressed images."""
    suffix = next((one for one in COMPRESSED_TOPICS if topic.endswith(one)), "")
    return topic.removesuffix(suffix)


def plain(sample: Any) -> Any:
    """Return a message; of a compressed image the raw one. One that is not read has its format as encoding."""
    if not isinstance(sample, CompressedImage):
        return sample
    try:
        return plain_image(sample)
    except InputError:
        return Image(sample.header, encoding=sample.format)


# ---- Conversion of the library's messages to `ros_types`, field by field


def ours(kind: type[IdlStruct], message: Any) -> Any:
    """Return a message of the library as a message of `kind`; other fields are dropped.

    ROS 1 headers have an extra `seq`, and ROS 1 CameraInfo has upper-case fields. Raises AttributeError for a missing
    field.
    """
    return kind(**{name: take(_of(message, name)) for name, take in _fields(kind)})


def _of(message: Any, name: str) -> Any:
    value = getattr(message, name, None)
    return getattr(message, name.upper()) if value is None else value


@cache
def _fields(kind: type[IdlStruct]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return the fields of a type, each with the converter of the library's value."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, _taker(hint)) for name, hint in hints.items() if name != EMPTY_MEMBER)


def _taker(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return partial(ours, hint)
    detail = get_args(hint)[1] if get_origin(hint) is Annotated else None
    if isinstance(detail, ByteSequence):
        return bytes
    if isinstance(detail, (array, sequence)):
        part = detail.subtype
        return partial(_all, part) if isinstance(part, type) and issubclass(part, IdlStruct) else _numbers
    return _plain


def _all(kind: type[IdlStruct], messages: Iterable[Any]) -> list[Any]:
    return [ours(kind, message) for message in messages]


def _plain(value: Any) -> Any:
    return value


def _numbers(values: Any) -> list[Any]:
    return list(np.asarray(values).tolist())


IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
ROSBAG2_INDEX = "metadata.yaml"
DAMAGE: tuple[type[Exception], ...] = (
    ValueError, LookupError, ArithmeticError, TypeError, AttributeError, NameError, SyntaxError, AssertionError,
    EOFError, RuntimeError, MemoryError, struct.error, sqlite3.Error,
)  # fmt: skip
"""Errors for a damaged file, besides the library's own; the library generates Python from message definitions."""


LASER = "sensor_msgs/msg/LaserScan"
CLOUD = "sensor_msgs/msg/PointCloud2"
IMU = "sensor_msgs/msg/Imu"
TRANSFORMS, TRANSFORMS_OF_OLD = "tf2_msgs/msg/TFMessage", "tf/msg/tfMessage"
KINDS: dict[str, type[IdlStruct]] = {
    **BY_ROS_NAME, TRANSFORMS_OF_OLD: TFMessage,
}  # fmt: skip
"""Message types that are read."""
ALIKE = {COMPRESSED: IMAGE, TRANSFORMS_OF_OLD: TRANSFORMS}
"""Types that become another one when they are read; a topic may have both."""


@dataclass(frozen=True, slots=True)
class BagTopic:
    """A topic of a bag. kind: its type, such as `nav_msgs/msg/Odometry`, by `ALIKE`; "" for several."""

    name: str
    kind: str
    messages: int


class Bag:
    """An open bag. Its times are recording times [ns since 1970]."""

    def __init__(self, name: str, reader: Any) -> None:
        self.name = name
        self._reader = reader
        self.start_ns: int = reader.start_time
        self.end_ns: int = reader.end_time
        self.topics = tuple(
            BagTopic(name, kinds.pop() if len(kinds) == 1 else "", info.msgcount)
            for name, info in sorted(reader.topics.items())
            if (kinds := {ALIKE.get(connection.msgtype, connection.msgtype) for connection in info.connections})
        )

    def read(self, topics: Collection[str]) -> Iterator[TopicMessage]:
        """Yield the messages of some topics in order. Memory does not grow with the bag.

        Raises InputError that names the bag for an unreadable message.
        """
        wanted = [one for one in self._reader.connections if one.topic in topics and one.msgtype in KINDS]
        if not wanted:
            return
        with _readable(self.name):
            for connection, time_ns, data in self._reader.messages(connections=wanted):
                message = self._reader.deserialize(data, connection.msgtype)
                sample = ours(KINDS[connection.msgtype], message)
                yield TopicMessage(connection.topic, time_ns, plain(sample))

    def first(self, topic: str) -> Any | None:
        """Return the first message of a topic or None. Raises InputError."""
        return next((one.sample for one in self.read({topic})), None)


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
            raise InputError(f"{name}: the bag has no message")
        with _readable(name):
            bag = Bag(name, reader)
        yield bag
    finally:
        reader.close()


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn errors of the library into an InputError that names the bag."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except (*_errors(), *DAMAGE) as error:
        line = (str(error).splitlines() or [""])[0] or _stopped_at(error)
        raise InputError(f"{name}: unreadable bag: {line}") from error


def _stopped_at(error: Exception) -> str:
    """Return where the library stopped on an error without a text, such as index entries of another size."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name} of the library, at `{frame.line}`; reindex or convert the bag"


def _errors() -> tuple[type[Exception], ...]:
    """Return the library's errors, and those of its SQLite and zstd bindings (from 0.11 on)."""
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
