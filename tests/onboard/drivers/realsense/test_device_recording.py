"""A file's header tells whether it can be a whole recording, before librealsense opens it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from onboard.drivers.realsense.device import check_recording_file
from onboard.values.errors import InputError

OFFICE = Path(__file__).parents[3] / "data/realsense-recording/office_40f.db3"
SQLITE = OFFICE.read_bytes()
BAG_MAGIC = b"#ROSBAG V2.0\n"


def bag(index_start: int, size: int) -> bytes:
    """A ROS 1 bag's header record, then padding to `size`."""
    fields = [b"op=\x03", b"index_pos=" + struct.pack("<Q", index_start), b"conn_count=" + struct.pack("<I", 1)]
    header = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return (BAG_MAGIC + struct.pack("<I", len(header)) + header).ljust(size, b" ")


#   name                     content                                 part of the message
REFUSED = [
    ("empty", b"", "not a recording"),
    ("text", b"hello\n", "not a recording"),
    ("half of the pages", SQLITE[: len(SQLITE) // 2], f"truncated: has {len(SQLITE) // 2} bytes"),
    ("one byte short", SQLITE[:-1], f"its header states {len(SQLITE)}"),
    ("less than a header", SQLITE[:60], "not a recording"),
    ("bag without index", bag(index_start=0, size=6000), "was not closed and has no index"),
    (
        "bag cut before its index",
        bag(index_start=7000, size=6000),
        "truncated: has 6000 bytes, its header states 7000",
    ),
    ("bag cut in its header", bag(index_start=5000, size=6000)[:20], "truncated within its header"),
    ("bag of its magic only", BAG_MAGIC, "truncated within its header"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_any_other_file_is_refused_in_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.db3"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        check_recording_file(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_whole_bag_passes_and_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "whole.bag").write_bytes(bag(index_start=5000, size=6000))
    check_recording_file(tmp_path / "whole.bag")
    check_recording_file(OFFICE)
    with pytest.raises(InputError, match="No such file"):
        check_recording_file(tmp_path / "missing.db3")
    with pytest.raises(InputError, match="Is a directory"):
        check_recording_file(tmp_path)
