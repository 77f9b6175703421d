"""Cameras whose images come over DDS: simulated ones, and those of another computer.

A frame's stamp is the tick that took it, less what it came later than the quickest one (`sender_clock.py`): the
sender's clock need not be ours. But that clock must go on: an image whose header is not stamped later than the last
one's is a frozen or repeated one, and leaves the last one to age. One without a stamp (0) cannot be told from a new one
and is taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection
from onboard.config.mounts import Mount
from onboard.drivers.dds.participant import InputWire, Messages
from onboard.drivers.dds.ros_convert import ns_from_time
from onboard.drivers.dds.ros_types import Image
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.values.errors import InputError
from onboard.values.images import covered, policy_image
from onboard.values.messages import CameraHealth, ColorFrame, DepthFrame

NS_PER_MS = 1_000_000
COLOR = "color"
"""Name of the colour camera."""
NOTHING_YET = "no image yet"
RGB_ENCODINGS = ("rgb8", "bgr8")
UINT16_ENCODINGS = ("16UC1", "mono16")
MAX_UNITS = np.iinfo(np.uint16).max


def depth_from_ros(sample: Image, mount: Mount) -> npt.NDArray[np.uint16]:
    """Return (height, width) depth in units of the mount; 0 is no return.

    Takes 16UC1 and mono16 as they are, in either byte order, and 32FC1 [m]; rows may be padded. Raises InputError
    naming both sizes when the image is not the mount's, or what else is wrong with it.
    """
    if (sample.width, sample.height) != (mount.width, mount.height):
        raise InputError(f"image is {sample.width}x{sample.height}, mounts say {mount.width}x{mount.height}")
    order = ">" if sample.is_bigendian else "<"
    if sample.encoding in UINT16_ENCODINGS:
        return _pixels(sample, np.dtype(f"{order}u2"), 1)[..., 0].astype(np.uint16)
    if sample.encoding == "32FC1":
        metres = _pixels(sample, np.dtype(f"{order}f4"), 1)[..., 0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            units = np.rint(metres / mount.depth_scale_m)
            return np.where((units > 0) & (units <= MAX_UNITS), units, 0).astype(np.uint16)
    raise InputError(f"encoding is {sample.encoding!r}, depth is {', '.join(UINT16_ENCODINGS)} or 32FC1")


def color_from_ros(sample: Image) -> npt.NDArray[np.uint8]:
    """Return (144, 256, 3) RGB; whole multiples of that size are averaged. Raises InputError saying what is wrong."""
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


class _Newest:
    """What both kinds of camera share: the reader, the count of frames, and why there is none."""

    def __init__(self, wire: InputWire[Messages], topic: str, name: str, stale_ms: float) -> None:
        self.name = name
        self.frames = 0
        self.repeated = 0
        self.sent_ns = 0
        self.late_ns = 0
        self.reason = NOTHING_YET
        self._reader = wire.reader(topic)
        self._clock = SenderClock()
        self._judges_late = wire.section.judge_late
        self._stale_ms = stale_ms

    def take(self, now_ns: int) -> Image | None:
        """Return an image that came since the last call; None when it is not stamped later than the one before."""
        messages = self._reader.take()
        self.frames += len(messages)
        if not messages:
            return None
        sample: Image = messages[-1].sample
        stamp_ns = ns_from_time(sample.header.stamp)
        late_ns = self._clock.take(stamp_ns, now_ns) if stamp_ns else 0
        if late_ns is None:
            self.repeated += 1
            return None
        self.sent_ns = stamp_ns
        self.late_ns = late_ns if self._judges_late else 0
        return sample

    def is_fresh(self, stamp_ns: int, now_ns: int) -> bool:
        """Return whether a frame of that time is still to be used, and note if not."""
        age_ms = (now_ns - stamp_ns) / NS_PER_MS
        if age_ms > self._stale_ms:
            late = f", which came {self.late_ns / NS_PER_MS:.0f} ms late" if self.late_ns > 0.0 else ""
            self.reason = f"no image for {age_ms:.0f} ms, limit {self._stale_ms:.0f} ms{late}"
        return age_ms <= self._stale_ms

    def health(self) -> CameraHealth:
        """Return the state for diagnostics."""
        late_ms = round(self.late_ns / NS_PER_MS)
        detail = {"undecodable": self._reader.undecodable, "repeated": self.repeated, "late_ms": late_ms}
        return CameraHealth(self.name, not self.reason, self.reason, self.frames, restarts=0, detail=detail)


class DdsDepthCamera:
    """One depth camera behind `<name>/depth/image`."""

    def __init__(self, wire: InputWire[Messages], mount: Mount, section: CamerasSection) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self.name = mount.name
        self._mount = mount
        self._min_valid_fraction = section.min_valid_fraction
        self._newest = _Newest(wire, f"{mount.name}/depth/image", mount.name, section.stale_ms)
        self._frame: DepthFrame | None = None

    def latest(self, now_ns: int) -> DepthFrame | None:
        """Return the newest usable frame, or None while the camera is blind (see `health`)."""
        sample = self._newest.take(now_ns)
        if sample is not None:
            self._frame = self._judge(sample, now_ns)
        if self._frame is None or not self._newest.is_fresh(self._frame.stamp_ns, now_ns):
            return None
        return self._frame

    @property
    def sent_ns(self) -> int:
        """Return the stamp of the newest image, in the clock of its sender [ns]; 0 before the first."""
        return self._newest.sent_ns

    def health(self) -> CameraHealth:
        """Return the state for diagnostics, as of the last `latest`."""
        return self._newest.health()

    def close(self) -> None:
        """Do nothing: the reader is the wire's and closes with it."""

    def _judge(self, sample: Image, now_ns: int) -> DepthFrame | None:
        """Return the frame in an image, or None and note why it is of no use."""
        try:
            depth = depth_from_ros(sample, self._mount)
        except InputError as error:
            self._newest.reason = str(error)
            return None
        self._newest.reason = covered(int(np.count_nonzero(depth)), depth.size, self._min_valid_fraction)
        if self._newest.reason:
            return None
        return DepthFrame(self.name, self._newest.frames, now_ns - self._newest.late_ns, depth)


class DdsColorCamera:
    """The forward colour camera behind `color/image`."""

    def __init__(self, wire: InputWire[Messages], section: CamerasSection) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self.name = COLOR
        self._newest = _Newest(wire, "color/image", COLOR, section.stale_ms)
        self._frame: ColorFrame | None = None

    def latest(self, now_ns: int) -> ColorFrame | None:
        """Return the newest frame at the policy's size, or None while there is none that is fresh."""
        sample = self._newest.take(now_ns)
        if sample is not None:
            self._frame = self._judge(sample, now_ns)
        if self._frame is None or not self._newest.is_fresh(self._frame.stamp_ns, now_ns):
            return None
        return self._frame

    @property
    def sent_ns(self) -> int:
        """Return the stamp of the newest image, in the clock of its sender [ns]; 0 before the first."""
        return self._newest.sent_ns

    def health(self) -> CameraHealth:
        """Return the state for diagnostics, as of the last `latest`."""
        return self._newest.health()

    def close(self) -> None:
        """Do nothing: the reader is the wire's and closes with it."""

    def _judge(self, sample: Image, now_ns: int) -> ColorFrame | None:
        """Return the frame in an image, or None and note why it is of no use."""
        try:
            image = color_from_ros(sample)
        except InputError as error:
            self._newest.reason = str(error)
            return None
        self._newest.reason = ""
        return ColorFrame(self._newest.frames, now_ns - self._newest.late_ns, image)
