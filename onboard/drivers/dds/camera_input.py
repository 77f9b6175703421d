"""Cameras whose images come over DDS: simulated cameras, and cameras of another computer.

A frame's stamp is the time of the tick that took it minus its latency (`sender_clock.py`); the sender's clock may
differ from this machine's. An image whose header stamp does not increase is frozen or repeated and is dropped, so that
the last frame becomes stale. An image without a stamp (0) is always taken.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection
from onboard.config.mounts import Mount
from onboard.drivers.dds.participant import InputWire, Messages
from onboard.drivers.dds.ros_convert import ns_from_time
from onboard.drivers.dds.ros_types import Image
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.drivers.dds.sole_writer import SECOND, SoleReader
from onboard.values.errors import InputError
from onboard.values.images import FALSE_DEPTH, covered, policy_image, without_false_depth
from onboard.values.messages import CameraHealth, ColorFrame, DepthFrame

NS_PER_MS = 1_000_000
COLOR = "color"
"""Name of the colour camera."""
NOTHING_YET = "no image yet"
RGB_ENCODINGS = ("rgb8", "bgr8")
UINT16_ENCODINGS = ("16UC1", "mono16")


def depth_from_ros(sample: Image, mount: Mount) -> npt.NDArray[np.uint16]:
    """Return (height, width) depth in units of the mount; 0 is no return.

    Accepts 16UC1 and mono16 in either byte order, and 32FC1 [m]; rows may be padded. Raises InputError for a size other
    than the mount's, another encoding, or missing bytes.
    """
    if (sample.width, sample.height) != (mount.width, mount.height):
        raise InputError(f"image is {sample.width}x{sample.height}, mounts say {mount.width}x{mount.height}")
    order = ">" if sample.is_bigendian else "<"
    if sample.encoding in UINT16_ENCODINGS:
        return without_false_depth(_pixels(sample, np.dtype(f"{order}u2"), 1)[..., 0].astype(np.uint16))
    if sample.encoding == "32FC1":
        metres = _pixels(sample, np.dtype(f"{order}f4"), 1)[..., 0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            units = np.rint(metres / mount.depth_scale_m)
            return np.where((units > 0) & (units < FALSE_DEPTH), units, 0).astype(np.uint16)
    raise InputError(f"encoding is {sample.encoding!r}, depth is {', '.join(UINT16_ENCODINGS)} or 32FC1")


def color_from_ros(sample: Image) -> npt.NDArray[np.uint8]:
    """Return (144, 256, 3) RGB; whole multiples of that size are averaged. Raises InputError."""
    if sample.encoding not in RGB_ENCODINGS:
        raise InputError(f"encoding is {sample.encoding!r}, colour is {' or '.join(RGB_ENCODINGS)}")
    image = _pixels(sample, np.dtype(np.uint8), 3).astype(np.uint8, copy=False)
    if sample.encoding == "bgr8":
        image = image[..., ::-1]
    return policy_image(image)


def _pixels(sample: Image, dtype: np.dtype[np.generic], channels: int) -> npt.NDArray[np.generic]:
    """Return a read-only view (height, width, channels) of the image, padding left out. Raises InputError."""
    row_bytes = sample.width * channels * dtype.itemsize
    if sample.step < row_bytes or len(sample.data) != sample.step * sample.height:
        raise InputError(
            f"{len(sample.data)} bytes in rows of {sample.step} are no {sample.width}x{sample.height} {sample.encoding}"
        )
    rows = np.frombuffer(sample.data, dtype=np.uint8).reshape(sample.height, sample.step)[:, :row_bytes]
    return np.ascontiguousarray(rows).view(dtype).reshape(sample.height, sample.width, channels)


FrameT = TypeVar("FrameT", DepthFrame, ColorFrame)


class _DdsCamera(Generic[FrameT]):
    """A camera behind one image topic.

    reader:  of the topic
    sent_ns: stamp of the newest image in its sender's clock [ns]; 0 before the first
    """

    def __init__(self, wire: InputWire[Messages], topic: str, name: str, stale_ms: float) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self.name = name
        self.sent_ns = 0
        self._frames = self._repeated = self._late_ns = 0
        self._reason = NOTHING_YET
        self._frame: FrameT | None = None
        self.reader = SoleReader(wire, topic)
        self._clock = SenderClock()
        self._judges_late = wire.section.judge_late
        self._stale_ms = stale_ms

    def latest(self, now_ns: int) -> FrameT | None:
        """Return the newest usable frame, or None while the camera is blind (see `health`)."""
        sample = self._take(now_ns)
        if sample is not None:
            try:
                self._frame = self._decode(sample, now_ns - self._late_ns)
                self._reason = ""
            except InputError as error:
                self._frame, self._reason = None, str(error)
        if self._frame is None:
            return None
        age_ms = (now_ns - self._frame.stamp_ns) / NS_PER_MS
        if age_ms <= self._stale_ms:
            return self._frame
        late = f", which came {self._late_ns / NS_PER_MS:.0f} ms late" if self._late_ns > 0.0 else ""
        self._reason = f"no image for {age_ms:.0f} ms, limit {self._stale_ms:.0f} ms{late}"
        return None

    def health(self) -> CameraHealth:
        """Return the state for diagnostics, as of the last `latest`."""
        late_ms = round(self._late_ns / NS_PER_MS)
        detail = {"undecodable": self.reader.undecodable, "repeated": self._repeated, "late_ms": late_ms}
        return CameraHealth(self.name, not self._reason, self._reason, self._frames, restarts=0, detail=detail)

    def close(self) -> None:
        """Do nothing: the reader belongs to the wire and closes with it."""

    def _decode(self, sample: Image, stamp_ns: int) -> FrameT:
        """Return the frame in an image. Raises InputError if the image cannot be used."""
        raise NotImplementedError

    def _take(self, now_ns: int) -> Image | None:
        """Return the newest image since the last call; None without one, or if its stamp did not increase."""
        messages = self.reader.take(now_ns)
        self._frames += len(messages)
        if self.reader.rivals:
            self._frame, self._reason = None, f"{SECOND} on {self.reader.topic}"
        if not messages:
            return None
        sample: Image = messages[-1].sample
        stamp_ns = ns_from_time(sample.header.stamp)
        late_ns = self._clock.take(stamp_ns, now_ns) if stamp_ns else 0
        if late_ns is None:
            self._repeated += 1
            return None
        self.sent_ns = stamp_ns
        self._late_ns = late_ns if self._judges_late else 0
        return sample


class DdsDepthCamera(_DdsCamera[DepthFrame]):
    """One depth camera behind `<name>/depth/image`."""

    def __init__(self, wire: InputWire[Messages], mount: Mount, section: CamerasSection) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        super().__init__(wire, f"{mount.name}/depth/image", mount.name, section.stale_ms)
        self._mount = mount

    def _decode(self, sample: Image, stamp_ns: int) -> DepthFrame:
        depth = depth_from_ros(sample, self._mount)
        reason = covered(int(np.count_nonzero(depth)), depth.size)
        if reason:
            raise InputError(reason)
        return DepthFrame(self.name, self._frames, stamp_ns, depth)


class DdsColorCamera(_DdsCamera[ColorFrame]):
    """The forward colour camera behind `color/image`; frames have the policy's size."""

    def __init__(self, wire: InputWire[Messages], section: CamerasSection) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        super().__init__(wire, "color/image", COLOR, section.stale_ms)

    def _decode(self, sample: Image, stamp_ns: int) -> ColorFrame:
        return ColorFrame(self._frames, stamp_ns, color_from_ros(sample))
