"""What a recording's first bytes say, before librealsense is trusted with it.

librealsense plays ROS 1 bags (`.bag`, written up to 2.57) and rosbag2 SQLite files (`.db3`, written from 2.58). On a
damaged one it throws, or plays up to the damage and then stops as if that were the end.
"""

from __future__ import annotations

import struct
from pathlib import Path

from onboard.errors import InputError

SQLITE_MAGIC = b"SQLite format 3\0"
SQLITE_HEADER_BYTES = 100
BAG_MAGIC = b"#ROSBAG V2.0\n"
BAG_HEAD_BYTES = 4096
"""A bag's header record is padded to this size (ROS bag format 2.0)."""


def check_recording_file(path: Path) -> None:
    """Raise InputError, in one line, unless the file is a whole `.db3` or `.bag` by its header."""
    try:
        with path.open("rb") as file:
            head = file.read(BAG_HEAD_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: recording cannot be read: {error.strerror}") from error
    if head.startswith(SQLITE_MAGIC) and len(head) >= SQLITE_HEADER_BYTES:
        expected = _sqlite_size(head)
    elif head.startswith(BAG_MAGIC):
        expected = _bag_index_start(path, head)
    else:
        raise InputError(f"{path}: not a recording: neither rosbag2 SQLite (.db3) nor ROS 1 bag (.bag)")
    if size < expected:
        raise InputError(f"{path}: recording is truncated: has {size} bytes, its header tells of {expected}")


def _sqlite_size(head: bytes) -> int:
    """Return the size that an SQLite header tells of: page size (1 stands for 65536) times pages."""
    (page_bytes,) = struct.unpack_from(">H", head, 16)
    (pages,) = struct.unpack_from(">I", head, 28)
    return (65536 if page_bytes == 1 else int(page_bytes)) * int(pages)


def _bag_index_start(path: Path, head: bytes) -> int:
    """Return where a bag's closing index starts; a bag that was not closed has none. Raises InputError."""
    at = len(BAG_MAGIC)
    try:
        (header_bytes,) = struct.unpack_from("<I", head, at)
        at, end = at + 4, at + 4 + header_bytes
        while at < end:
            (field_bytes,) = struct.unpack_from("<I", head, at)
            name, _, value = head[at + 4 : at + 4 + field_bytes].partition(b"=")
            if name == b"index_pos":
                (start,) = struct.unpack("<Q", value)
                if start:
                    return int(start)
            at += 4 + field_bytes
    except struct.error as error:
        raise InputError(f"{path}: recording is truncated within its header") from error
    raise InputError(f"{path}: recording was not closed and has no index: repair it with `rosbag reindex`")
