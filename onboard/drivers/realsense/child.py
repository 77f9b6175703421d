"""A process that touches librealsense: one task, given as JSON on its command line, then it ends.

    python -m onboard.drivers.realsense.child capture|info|read|list '{"parent_pid": ..., ...}'

It prints one JSON object a line to standard output, writes frames into the inherited shared memory, and dies with its
parent. `device.py` and `supervisor.py` are the other end.

The only file that imports pyrealsense2. All of librealsense's functions may hang or crash.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.drivers.realsense.device import Device, Source, StreamInfo, frame_form
from onboard.drivers.realsense.shared_memory import FrameSlots
from onboard.system.threads import die_with_parent
from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.images import policy_image, without_false_depth

# ---- One stream of a device or recording

NS_PER_MS = 1_000_000
END_SETTLE_S = 0.2
"""A recording has ended if librealsense reports "stopped" and gave no frame for this time."""
SILENT_S = 10.0
"""A recording without a frame for this time hangs (#4766)."""
DAMAGE_S = 1.0
"""A recording is damaged if its last frame is earlier before its end: librealsense stops at damage."""
SCALE_TOLERANCE = 1e-4
"""Relative; librealsense holds the depth scale as float32."""
RESET_LIMIT_S = 8.0
"""A camera returns to the bus some seconds after its reset."""
RESET_POLL_S = 0.1
UNRESOLVED = "Couldn't resolve requests"


@dataclass(frozen=True, slots=True)
class CapturedImage:
    """One image: arrival, monotonic [ns]; the device's own stamp [ns]; pixels."""

    stamp_ns: int
    device_stamp_ns: int
    pixels: npt.NDArray[Any]


def load_library() -> ModuleType:
    """Return pyrealsense2. Raises MissingExtraError; DriverError if it is installed but does not load."""
    try:
        import pyrealsense2
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyrealsense2", "realsense") from error
    except ImportError as error:
        raise DriverError(f"pyrealsense2 does not load: {error} (it needs Debian's libusb-1.0-0)") from error
    library: ModuleType = pyrealsense2
    return library


class Stream:
    """One stream, checked on creation, running after `start`. `poll` never waits."""

    def __init__(self, source: Source, pipeline: Any = None) -> None:
        """Open and check the stream. `pipeline` replaces the default one, for tests with a software device.

        Raises DriverError (device) or InputError (recording, or a device that differs from the mount).
        """
        library = load_library()
        self.source = source
        self._library = library
        self._pipeline = library.pipeline() if pipeline is None else pipeline
        try:
            self._config = _config(library, source)
            profile = self._config.resolve(self._pipeline)
            self.info, self._swap_colors = _checked_info(library, source, profile)
            self._playback = profile.get_device().as_playback() if source.recording else None
            if self._playback is not None:
                self._playback.set_real_time(source.rate_hz == 0)
        except RuntimeError as error:
            raise _failure(source, error) from error
        self._position_s = 0.0
        self._frames = 0
        self._quiet_since_s: float | None = None

    def start(self) -> None:
        """Start the frames. Raises as the constructor does."""
        try:
            self._pipeline.start(self._config)
        except RuntimeError as error:
            raise _failure(self.source, error) from error

    def poll(self) -> CapturedImage | None:
        """Return the next image, None without one. Raises InputError for a damaged recording."""
        frames = self._pipeline.poll_for_frames()
        now_ns = time.monotonic_ns()
        self._follow_playback()
        if not frames:
            self._quiet_since_s = now_ns / 1e9 if self._quiet_since_s is None else self._quiet_since_s
            return None
        frame = frames.get_depth_frame() if self.source.stream == "depth" else frames.get_color_frame()
        self._quiet_since_s = None
        self._frames += 1
        pixels = np.asanyarray(frame.get_data())
        return CapturedImage(
            stamp_ns=now_ns,
            device_stamp_ns=round(frame.get_timestamp() * NS_PER_MS),
            pixels=pixels[:, :, ::-1] if self._swap_colors else pixels,
        )

    def ended(self) -> bool:
        """Return True once a recording has ended. Raises InputError if it hangs or is damaged."""
        if self._playback is None or self._quiet_since_s is None:
            return False
        quiet_s = time.monotonic() - self._quiet_since_s
        if quiet_s > SILENT_S:
            raise InputError(f"{self.source}: no {self.source.stream} frame for {SILENT_S:g} s after {self._frames}")
        stopped = self._playback.current_status() == self._library.playback_status.stopped
        if not (stopped and self._frames > 0 and quiet_s > END_SETTLE_S):
            return False
        self._check_whole(self._playback)
        return True

    def close(self) -> None:
        """Stop. May hang (#9184); the parent then kills this process."""
        self._pipeline.stop()

    def _follow_playback(self) -> None:
        """Track the position in a recording. librealsense resets its own at a restart and at a stop."""
        if self._playback is None:
            return
        position_s = self._playback.get_position() / 1e9
        if position_s < self._position_s:
            if not self.source.loop:
                return
            self._check_whole(self._playback)
        self._position_s = position_s

    def _check_whole(self, playback: Any) -> None:
        duration_s = playback.get_duration().total_seconds()
        if duration_s - self._position_s > DAMAGE_S:
            raise InputError(
                f"{self.source}: recording is damaged: "
                f"{self.source.stream} frames stop at {self._position_s:.2f} s of {duration_s:.2f} s"
            )


def _config(library: ModuleType, source: Source) -> Any:
    config = library.config()
    depth = source.stream == "depth"
    stream = library.stream.depth if depth else library.stream.color
    if source.recording:
        config.enable_device_from_file(source.recording, source.loop)
        config.enable_stream(stream)
    else:
        config.enable_device(source.serial)
        image_format = library.format.z16 if depth else library.format.rgb8
        config.enable_stream(stream, source.width, source.height, image_format, source.fps)
    return config


def _checked_info(library: ModuleType, source: Source, profile: Any) -> tuple[StreamInfo, bool]:
    """Return the resolved stream's properties, and whether colours are BGR. Raises InputError if they differ."""
    depth = source.stream == "depth"
    stream = profile.get_stream(library.stream.depth if depth else library.stream.color).as_video_stream_profile()
    device = profile.get_device()
    lens = stream.get_intrinsics()
    info = StreamInfo(
        device=describe(library, device),
        width=stream.width(),
        height=stream.height(),
        fps=stream.fps(),
        fx=lens.fx,
        fy=lens.fy,
        cx=lens.ppx,
        cy=lens.ppy,
        distortion=lens.model.name,
        coefficients=tuple(lens.coeffs),
        depth_scale_m=device.first_depth_sensor().get_depth_scale() if depth else 0.0,
    )
    formats = (library.format.z16,) if depth else (library.format.rgb8, library.format.bgr8)
    if stream.format() not in formats:
        expected = " or ".join(wanted.name for wanted in formats)
        raise InputError(f"{source}: {source.stream} images are {stream.format().name}, must be {expected}")
    if source.width and (info.width, info.height) != (source.width, source.height):
        raise InputError(
            f"{source}: {source.stream} images are {info.width}x{info.height}, "
            f"the mount of {source.camera} says {source.width}x{source.height}"
        )
    if depth and source.depth_scale_m and abs(info.depth_scale_m / source.depth_scale_m - 1) > SCALE_TOLERANCE:
        raise InputError(
            f"{source}: depth scale is {info.depth_scale_m:.6g} m, "
            f"the mount of {source.camera} says depth_scale_m = {source.depth_scale_m:.6g}"
        )
    return info, stream.format() == library.format.bgr8


def describe(library: ModuleType, device: Any) -> Device:
    """Return a device's description; "" for unknown fields."""
    names = library.camera_info
    wanted = (
        names.serial_number,
        names.name,
        names.firmware_version,
        names.usb_type_descriptor,
        names.recommended_firmware_version,
        names.physical_port,
    )
    return Device(*(device.get_info(name) if device.supports(name) else "" for name in wanted))


def connected_devices() -> list[Device]:
    """Return the cameras on the bus."""
    library = load_library()
    return [describe(library, device) for device in library.context().query_devices()]


def _failure(source: Source, error: RuntimeError) -> DriverError | InputError:
    """Return librealsense's error as one line; for a missing device with the list of connected devices."""
    text = " ".join(str(error).split()).rsplit("Reason: ", 1)[-1]
    if source.recording and text == UNRESOLVED:
        return InputError(f"{source}: recording has no {source.stream} stream")
    if source.recording:
        return InputError(f"{source}: recording cannot be played: {text}")
    serials = [device.serial for device in connected_devices()]
    if source.serial not in serials:
        return DriverError(f"{source}: not connected (connected: {', '.join(serials) or 'none'})")
    requested = f"{source.stream} {source.width}x{source.height} at {source.fps}/s"
    return DriverError(f"{source}: {requested}: {text}")


def reset(serial: str) -> None:  # pragma: no cover - needs a camera
    """Reset a live camera; wait at most RESET_LIMIT_S until it returns to the bus. May crash (#7261)."""
    library = load_library()
    context = library.context()
    deadline_ns = time.monotonic_ns() + round(RESET_LIMIT_S * 1e9)
    for device in context.query_devices():
        if describe(library, device).serial == serial:
            device.hardware_reset()
            break
    else:
        return
    left = False
    while time.monotonic_ns() < deadline_ns:
        listed = serial in [describe(library, device).serial for device in context.query_devices()]
        if left and listed:
            return
        left = left or not listed
        time.sleep(RESET_POLL_S)


# ---- The tasks

POLL_S = 0.001
"""Poll period of the device; bounds the error of the arrival stamp."""


def report(event: str, **fields: Any) -> None:
    """Send one event to the parent."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def capture(order: dict[str, Any]) -> None:
    """Write frames into the shared memory until SIGTERM or a recording's end."""
    source = Source(**order["source"])
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    if order["reset"]:
        reset(source.serial)
    slots = FrameSlots(order["fd"], *frame_form(source))
    stream = Stream(source)
    stream.start()
    report("started", info=asdict(stream.info))
    period_s = 1 / source.rate_hz if source.rate_hz else 0.0
    number = order["first_number"]
    while not stop.is_set() and not stream.ended():
        began_s = time.monotonic()
        captured = stream.poll()
        if captured is None:
            stop.wait(POLL_S)
            continue
        pixels = without_false_depth(captured.pixels) if source.stream == "depth" else policy_image(captured.pixels)
        slots.write(number, captured.stamp_ns, int(np.count_nonzero(pixels)), pixels)
        number += 1
        stop.wait(max(0.0, period_s - (time.monotonic() - began_s)))
    if not stop.is_set():
        report("ended")
    stream.close()


def info(order: dict[str, Any]) -> None:
    """Answer with the stream's description."""
    report("answer", info=asdict(Stream(Source(**order["source"])).info))


def read(order: dict[str, Any]) -> None:
    """Answer with one frame of a recording: pixels into the inherited memory, metadata as JSON."""
    source, index = Source(**order["source"]), order["index"]
    stream = Stream(source)
    stream.start()
    frames = 0
    while True:
        captured = stream.poll()
        if captured is None:
            if stream.ended():
                raise InputError(f"{source}: no depth frame {index}: has {frames} depth frames, 0 to {frames - 1}")
            time.sleep(POLL_S)
        elif frames == index:
            break
        else:
            frames += 1
    with os.fdopen(order["fd"], "wb") as memory:
        memory.write(np.ascontiguousarray(captured.pixels).data)
    height, width = captured.pixels.shape
    report("answer", stamp_ns=captured.device_stamp_ns, height=height, width=width)


def list_devices(_order: dict[str, Any]) -> None:
    """Answer with the connected devices."""
    report("answer", devices=[asdict(device) for device in connected_devices()])


TASKS = {"capture": capture, "info": info, "read": read, "list": list_devices}


def main(arguments: list[str]) -> int:
    """Run one task; return the exit code, 1 after an error that was reported."""
    task, order = arguments[0], json.loads(arguments[1])
    try:
        die_with_parent(order["parent_pid"])
        TASKS[task](order)
    except MissingExtraError as error:
        report("error", kind="missing", text=str(error))
    except InputError as error:
        report("error", kind="input", text=str(error))
    except (DriverError, OSError, RuntimeError) as error:
        report("error", kind="driver", text=str(error))
    else:
        return 0
    return 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # librealsense's destructors may hang or crash: leave without them
