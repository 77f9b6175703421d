"""RealSense cameras and recordings of them, through librealsense.

librealsense can hang (`pipeline.stop`, #9184; replug, #10543) and crash (`hardware_reset`, #7261; destructors, #14470),
so nothing here touches it in the caller's process: the functions below ask a child process of this same module and give
up after a time limit, and `cameras.py` keeps such a child for each camera. Within the child nothing waits for a
frame: `poll_for_frames` also suits several cameras better (#14925). Frames are stamped on arrival, by the monotonic
clock that all processes of the host share.
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

# ---- What a recording's first bytes say, before librealsense is trusted with it

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


CHILD_COMMAND = (sys.executable, "-m", "onboard.drivers.realsense.child")
ANSWER_LIMIT_S = 20.0
"""Long enough for librealsense to list the cameras of a slow USB bus, and to open one."""
READ_LIMIT_S = 120.0
"""For reading into a recording, all frames of which are decoded up to the wanted one."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which images to take, from where, and what they must be.

    camera:        name of the mount, for messages
    stream:        "depth" (Z16) or "color" (RGB8)
    serial:        of the live device; not used with a recording
    recording:     path of a .db3 or .bag; "" for the live device
    width, height: that the images must have [px]; 0 takes what is there
    fps:           asked of the live device [1/s]; 0 takes what is there
    depth_scale_m: that the device must have [m per unit]; 0 takes what is there
    loop:          start a recording again when it ends
    rate_hz:       0 plays a recording with its own times; otherwise every one of its frames, at most so many a second
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
    """A connected camera as librealsense names it; "" where it does not say.

    usb_type:    "3.2", "2.1", ...
    recommended: the firmware that this librealsense was made for
    port:        where it hangs: a path in /sys with "video4linux" in it through the kernel's driver, "2-1-3" through
                 librealsense's own (its issue 6836)
    """

    serial: str
    name: str
    firmware: str
    usb_type: str
    recommended: str = ""
    port: str = ""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a device or recording says of one of its streams.

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
    """Return the cameras that are connected. Raises DriverError when librealsense fails or does not answer."""
    answer = _ask("list", {}, "librealsense", time_limit_s)
    return [Device(**row) for row in answer["devices"]]


def read_intrinsics(source: Source, time_limit_s: float = ANSWER_LIMIT_S) -> StreamInfo:
    """Return what the device or recording says of the stream, after checking it against the source's own fields.

    Raises InputError for a recording, DriverError for a device, that is missing, damaged, silent, or differs.
    """
    if source.recording:
        check_recording_file(Path(source.recording))
    answer = _ask("info", {"source": asdict(source)}, str(source), time_limit_s, recording=bool(source.recording))
    return stream_info(answer["info"])


def read_depth_frame(path: Path, index: int, time_limit_s: float = READ_LIMIT_S) -> DepthFrame:
    """Return depth frame `index` (from 0) of a recording: camera "", number index + 1, stamp of the device's own clock.

    Raises InputError, in one line, when the file is missing, damaged or no recording, or has too few frames.
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
    """Return shape and dtype of the frames that a camera's process writes: colour is at the policy's size."""
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
    """Return the event in one line of a child's output; None for anything else that a library may have printed."""
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
    """Return a child's answer to one task. Raises what the child reports, or that it failed to answer."""
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
        said = lines[-1] if lines else "nothing said"
        raise failure(f"{subject}: librealsense ended with code {done.returncode}: {said}")
    if answer["event"] == "error":
        raise error_of(answer)
    return answer
