"""RealSense cameras and recordings of them, through librealsense.

librealsense can hang (`pipeline.stop`, #9184; replug, #10543) and crash (`hardware_reset`, #7261; destructors, #14470),
so it never runs in the caller's process. The functions below start a child process and give up after a timeout;
`supervisor.py` keeps a child for each camera. The child polls for frames, which also suits several cameras better
(#14925). Frames are stamped on arrival by the host's monotonic clock.
"""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.images import POLICY_HEIGHT, POLICY_WIDTH
from onboard.values.messages import DepthFrame

SQLITE_MAGIC = b"SQLite format 3\0"
SQLITE_HEADER_BYTES = 100
BAG_MAGIC = b"#ROSBAG V2.0\n"
BAG_HEAD_BYTES = 4096
"""A bag's header record is padded to this size (ROS bag format 2.0)."""


def check_recording_file(path: Path) -> None:
    """Raise InputError, in one line, unless the file is a complete `.db3` or `.bag` by its header."""
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
        raise InputError(f"{path}: recording is truncated: has {size} bytes, its header states {expected}")


def _sqlite_size(head: bytes) -> int:
    """Return the file size by an SQLite header: page size (1 means 65536) times pages."""
    (page_bytes,) = struct.unpack_from(">H", head, 16)
    (pages,) = struct.unpack_from(">I", head, 28)
    return (65536 if page_bytes == 1 else int(page_bytes)) * int(pages)


def _bag_index_start(path: Path, head: bytes) -> int:
    """Return the offset of a bag's closing index. Raises InputError for a bag without one, which was not closed."""
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


CHILD_COMMAND = (sys.executable, "-m", "onboard.drivers.realsense.child")
ANSWER_LIMIT_S = 20.0
"""Timeout for listing the cameras of a slow USB bus, and for opening a camera."""
READ_LIMIT_S = 120.0
"""Timeout for reading a recording's frame; librealsense decodes all frames before it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of images: live device or recording, and its required properties.

    camera:        name of the mount, for messages
    stream:        "depth" (Z16) or "color" (RGB8)
    serial:        of the live device; not used with a recording
    recording:     path of a .db3 or .bag; "" for the live device
    width, height: required size [px]; 0 accepts any
    fps:           requested from the live device [1/s]; 0 accepts any
    depth_scale_m: required scale [m per unit]; 0 accepts any
    loop:          repeat a recording
    rate_hz:       0 plays a recording in its own time; otherwise all frames, at most this many a second
    """

    camera: str
    stream: Literal["depth", "color"] = "depth"
    serial: str = ""
    recording: str = ""
    width: int = 0
    height: int = 0
    fps: int = 0
    depth_scale_m: float = 0.0
    loop: bool = False
    rate_hz: float = 0.0

    def __str__(self) -> str:
        return self.recording if self.recording else f"camera {self.camera}, serial {self.serial}"


@dataclass(frozen=True, slots=True)
class Device:
    """A connected camera's names from librealsense; "" if unknown.

    usb_type:    "3.2", "2.1", ...
    recommended: the firmware that this librealsense recommends
    port:        a path in /sys with "video4linux" for the kernel's driver, "2-1-3" for librealsense's own driver
                 (its issue 6836)
    """

    serial: str
    name: str
    firmware: str
    usb_type: str
    recommended: str = ""
    port: str = ""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Properties of one stream of a device or recording.

    fx, fy, cx, cy: pinhole intrinsics [px]; integer pixel coordinates are pixel centres
    distortion:     librealsense's name of the model, with its five coefficients
    depth_scale_m:  metres a depth unit; 0 for colour
    """

    device: Device
    width: int
    height: int
    fps: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: str
    coefficients: tuple[float, ...]
    depth_scale_m: float


def require_library() -> None:
    """Raise MissingExtraError unless pyrealsense2 is installed."""
    if find_spec("pyrealsense2") is None:
        raise MissingExtraError("pyrealsense2", "realsense")


def list_devices(time_limit_s: float = ANSWER_LIMIT_S) -> list[Device]:
    """Return the connected cameras. Raises DriverError if librealsense fails or does not answer."""
    answer = _ask("list", {}, "librealsense", time_limit_s)
    return [Device(**row) for row in answer["devices"]]


def read_intrinsics(source: Source, time_limit_s: float = ANSWER_LIMIT_S) -> StreamInfo:
    """Return the stream's properties, after checking them against the source.

    Raises InputError (recording) or DriverError (device) if it is missing, damaged, silent, or differs.
    """
    if source.recording:
        check_recording_file(Path(source.recording))
    answer = _ask("info", {"source": asdict(source)}, str(source), time_limit_s, recording=bool(source.recording))
    return stream_info(answer["info"])


def read_depth_frame(path: Path, index: int, time_limit_s: float = READ_LIMIT_S) -> DepthFrame:
    """Return depth frame `index` (from 0) of a recording: camera "", number index + 1, stamp of the device's own clock.

    Raises InputError, in one line, if the file is missing, damaged or no recording, or has too few frames.
    """
    if index < 0:
        raise InputError(f"{path}: depth frame {index}: the first is 0")
    check_recording_file(path)
    source = Source(camera="", recording=str(path), rate_hz=math.inf)
    fd = os.memfd_create("depth-frame", os.MFD_CLOEXEC)
    with os.fdopen(fd, "rb") as memory:
        order = {"source": asdict(source), "index": index, "fd": fd}
        answer = _ask("read", order, str(path), time_limit_s, recording=True, pass_fds=(fd,))
        memory.seek(0)
        depth = np.frombuffer(bytearray(memory.read()), np.uint16).reshape(answer["height"], answer["width"])
    return DepthFrame("", index + 1, answer["stamp_ns"], depth)


def frame_form(source: Source) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of a camera process's frames; colour has the policy's size."""
    if source.stream == "depth":
        return (source.height, source.width), "uint16"
    return (POLICY_HEIGHT, POLICY_WIDTH, 3), "uint8"


def stream_info(answer: dict[str, Any]) -> StreamInfo:
    """Return the StreamInfo that a child sent as JSON."""
    return StreamInfo(
        **{
            **answer,
            "device": Device(**answer["device"]),
            "coefficients": tuple(answer["coefficients"]),
        }
    )


def error_of(answer: dict[str, Any]) -> DriverError | InputError | MissingExtraError:
    """Return the error that a child sent as JSON."""
    if answer["kind"] == "missing":
        return MissingExtraError("pyrealsense2", "realsense")
    return InputError(answer["text"]) if answer["kind"] == "input" else DriverError(answer["text"])


def parse_line(line: str) -> dict[str, Any] | None:
    """Return the event in one line of a child's output; None for a line that a library printed."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _ask(
    task: str,
    order: dict[str, Any],
    subject: str,
    time_limit_s: float,
    *,
    recording: bool = False,
    pass_fds: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Return a child's answer to one task. Raises the child's reported error, or an error if it does not answer."""
    require_library()
    failure = InputError if recording else DriverError
    command = [*CHILD_COMMAND, task, json.dumps({**order, "parent_pid": os.getpid()})]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=time_limit_s,
            pass_fds=pass_fds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise failure(f"{subject}: librealsense did not answer within {time_limit_s:g} s") from error
    lines = done.stdout.splitlines()
    answer = next((event for event in map(parse_line, reversed(lines)) if event is not None), None)
    if answer is None:
        reason = lines[-1] if lines else "nothing said"
        raise failure(f"{subject}: librealsense ended with code {done.returncode}: {reason}")
    if answer["event"] == "error":
        raise error_of(answer)
    return answer
