"""Cameras whose images come over DDS: simulated cameras, and cameras of another computer.

A frame's stamp is the time of the tick that took it minus its latency (`sender_clock.py`); the sender's clock may
differ from this machine's. An image whose header stamp does not increase is frozen or repeated and is dropped, so that
the last frame becomes stale. An image without a stamp (0) is always taken.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from onboard.config.config import CamerasSection, DdsSection
from onboard.config.mounts import Mount
from onboard.drivers.dds.participant import InputWire, Messages
from onboard.drivers.dds.ros_convert import ns_from_time
from onboard.drivers.dds.ros_types import CameraInfo, CompressedImage, Image
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import (
    BY_NAME,
    COMPRESSED_DEPTH,
    COMPRESSED_TOPICS,
    NEWEST,
    Topic,
    ros_topic,
    without_codec,
)
from onboard.drivers.images.compressed import decoded, encoded
from onboard.drivers.images.raw import Y_FIRST, depth_pixels, rgb_pixels
from onboard.values import reasons
from onboard.values.errors import InputError
from onboard.values.images import covered, policy_image
from onboard.values.messages import CameraHealth, ColorFrame, DepthFrame
from onboard.values.reasons import NO_REASON, Said

NS_PER_MS = 1_000_000
LENS_TOLERANCE = 1e-4
"""Relative difference of a size or lens that is rounding."""
COLOR = "color"
"""Name of the colour camera."""


def depth_from_ros(sample: Image | CompressedImage, mount: Mount) -> npt.NDArray[np.uint16]:
    """Return (height, width) depth in units of the mount; 0 is no return.

    Accepts 16UC1 and mono16 in either byte order, and 32FC1 [m]; rows may be padded. Raises InputError for a size other
    than the mount's, another encoding, or missing bytes.
    """
    image = uncompressed(sample) if isinstance(sample, CompressedImage) else sample
    if (image.width, image.height) != (mount.width, mount.height):
        raise InputError(f"image is {image.width}x{image.height}, mounts say {mount.width}x{mount.height}")
    return depth_pixels(image, mount.depth_scale_m)


def color_from_ros(sample: Image | CompressedImage) -> npt.NDArray[np.uint8]:
    """Return (144, 256, 3) RGB of an image of any size, by `policy_image`. Raises InputError."""
    return policy_image(rgb_pixels(uncompressed(sample) if isinstance(sample, CompressedImage) else sample))


def uncompressed(sample: CompressedImage) -> Image:
    """Return the raw image in a compressed one. Raises InputError."""
    raw = decoded(sample.format, sample.data)
    return Image(sample.header, raw.height, raw.width, raw.encoding, 0, raw.step, raw.data)


def as_sent(sample: Image, section: DdsSection, name: str) -> Image | CompressedImage:
    """Return a 16UC1 or rgb8 image as its topic, one of our names, has it: compressed where its name says so."""
    topic = ros_topic(section, name)
    if not topic.endswith(COMPRESSED_TOPICS):
        return sample
    depth = sample.encoding == "16UC1"
    pixels = np.frombuffer(sample.data, "<u2" if depth else np.uint8)
    shape = (sample.height, sample.width) if depth else (sample.height, sample.width, 3)
    return CompressedImage(sample.header, *encoded(pixels.reshape(shape), head=topic.endswith(COMPRESSED_DEPTH)))


def info_topic(image_topic: str) -> str:
    """Return the CameraInfo topic next to an image topic, raw or compressed, by image_transport's custom."""
    return f"{without_codec(image_topic).rpartition('/')[0]}/camera_info"


def lens_topic(section: DdsSection, camera: str) -> Topic:
    """Return the row of the CameraInfo next to a camera's depth images, as its driver publishes it."""
    wire = info_topic(ros_topic(section, f"{camera}/depth/image"))
    return Topic(f"lens of {camera}", wire, BY_NAME["color/camera_info"].kind, NEWEST)


def lens_of(info: CameraInfo, topic: str) -> tuple[tuple[float, float, float, float], list[str]]:
    """Return fx, fy, cx, cy [px] of rectified images, and notes. Raises InputError for one that states none."""
    bent = any(value != 0.0 for value in info.d)
    k = [float(value) for value in (info.p if bent and info.p[0] > 0.0 else info.k)]
    fx, cx, fy, cy = (k[0], k[2], k[5], k[6]) if len(k) == 12 else (k[0], k[2], k[4], k[5])
    if not (np.isfinite([fx, fy, cx, cy]).all() and fx > 0.0 and fy > 0.0 and info.width and info.height):
        raise InputError(
            f"{topic} states focal lengths {fx:g}, {fy:g} for {info.width}x{info.height}: calibrate the camera, or "
            "write its lens into mounts.toml"
        )
    values = ", ".join(f"{value:.3g}" for value in info.d)
    note = (
        f"{topic} has a distortion ({info.distortion_model}, {values}): its image topic must be a rectified one, whose "
        "lens was written"
    )
    return (fx, fy, cx, cy), [note] if bent else []


def changed_lens(info: CameraInfo, mount: Mount, image_topic: str) -> Said:
    """Return that a camera has another size or lens than at the start, "" if it has not."""
    topic = info_topic(image_topic)
    was = mount.width, mount.height, mount.fx, mount.fy, mount.cx, mount.cy
    try:
        now = info.width, info.height, *lens_of(info, topic)[0]
    except InputError as error:
        return reasons.IMAGE_REFUSED.say(why=error)
    if np.allclose(now, was, rtol=LENS_TOLERANCE, atol=0.0):
        return NO_REASON
    size, focal_px = f"{now[0]}x{now[1]}", now[2]
    return reasons.LENS_CHANGED.say(topic=topic, size=size, fx=focal_px, was=f"{was[0]}x{was[1]}", was_fx=was[2])


FrameT = TypeVar("FrameT", DepthFrame, ColorFrame)


class UnusableError(InputError):
    """An image that cannot be used, for a reason of its own. said: `covered`, or that its camera was changed"""

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self.said = said


def _takes_long(sample: Image | CompressedImage) -> bool:
    return isinstance(sample, CompressedImage) or sample.encoding in Y_FIRST


class _DdsCamera(Generic[FrameT]):
    """A camera behind one image topic.

    With a decoder, an image whose decoding takes milliseconds is decoded there, and the tick does not wait. Of images
    that come faster than they are decoded, only the newest is.

    reader:  of the topic
    sent_ns: stamp of the newest image in its sender's clock [ns]; 0 before the first
    """

    def __init__(
        self, wire: InputWire[Messages], topic: str, name: str, stale_ms: float, decoder: Executor | None
    ) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self.name = name
        self._decoder = decoder
        self._decoding: tuple[Future[FrameT], int] | None = None
        self._waiting: tuple[Callable[[], FrameT], int] | None = None
        self.sent_ns = 0
        self._frames = self._repeated = self._late_ns = 0
        self._reason = reasons.IMAGE_NONE.say()
        self._frame: FrameT | None = None
        self.reader = SoleReader(wire, topic)
        self._clock = SenderClock()
        self._judges_late = wire.section.judge_late
        self._stale_ms = stale_ms

    def latest(self, now_ns: int) -> FrameT | None:
        """Return the newest usable frame, or None while the camera is blind (see `health`)."""
        sample = self._take(now_ns)
        if sample is not None:
            decode = partial(self._decode, sample, self._frames, now_ns - self._late_ns)
            self._waiting = decode, ns_from_time(sample.header.stamp)
            if self._decoder is None or not _takes_long(sample):
                self._keep(*self._waiting)
                self._waiting = self._decoding = None
        if self._decoding is not None and self._decoding[0].done():
            self._keep(self._decoding[0].result, self._decoding[1])
            self._decoding = None
        if self._decoding is None and self._waiting is not None and self._decoder is not None:
            self._decoding, self._waiting = (self._decoder.submit(self._waiting[0]), self._waiting[1]), None
        if self._frame is None:
            return None
        age_ms = (now_ns - self._frame.stamp_ns) / NS_PER_MS
        if age_ms <= self._stale_ms:
            return self._frame
        late = f", which came {self._late_ns / NS_PER_MS:.0f} ms late" if self._late_ns > 0.0 else ""
        self._reason = reasons.IMAGE_STALE.say(age_ms=age_ms, limit_ms=self._stale_ms, late=late)
        return None

    def health(self) -> CameraHealth:
        """Return the state for diagnostics, as of the last `latest`."""
        late_ms = round(self._late_ns / NS_PER_MS)
        detail = {"undecodable": self.reader.undecodable, "repeated": self._repeated, "late_ms": late_ms}
        return CameraHealth(self.name, not self._reason, self._reason, self._frames, restarts=0, detail=detail)

    def close(self) -> None:
        """Do nothing: the reader belongs to the wire and closes with it."""

    def _keep(self, decode: Callable[[], FrameT], sent_ns: int) -> None:
        """Keep a decoded frame, or the reason why there is none."""
        self.sent_ns = sent_ns or self.sent_ns
        try:
            self._frame, self._reason = decode(), NO_REASON
        except UnusableError as error:
            self._frame, self._reason = None, error.said
        except InputError as error:
            self._frame, self._reason = None, reasons.IMAGE_REFUSED.say(why=error)

    def _decode(self, sample: Image | CompressedImage, number: int, stamp_ns: int) -> FrameT:
        """Return the frame in an image. Raises InputError if the image cannot be used."""
        raise NotImplementedError

    def _take(self, now_ns: int) -> Image | CompressedImage | None:
        """Return the newest image since the last call; None without one, or if its stamp did not increase."""
        messages = self.reader.take(now_ns)
        self._frames += len(messages)
        if self.reader.rivals:
            self._frame, self._reason = None, reasons.IMAGE_WITHHELD.say(topic=self.reader.topic)
        if not messages:
            return None
        sample: Image | CompressedImage = messages[-1].sample
        stamp_ns = ns_from_time(sample.header.stamp)
        late_ns = self._clock.take(stamp_ns, now_ns) if stamp_ns else 0
        if late_ns is None:
            self._repeated += 1
            return None
        self._late_ns = late_ns if self._judges_late else 0
        return sample


class DdsDepthCamera(_DdsCamera[DepthFrame]):
    """One depth camera behind `<name>/depth/image`."""

    def __init__(
        self, wire: InputWire[Messages], mount: Mount, section: CamerasSection, decoder: Executor | None = None
    ) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        super().__init__(wire, f"{mount.name}/depth/image", mount.name, section.stale_ms, decoder)
        self._mount = mount
        self._changed = NO_REASON
        self._infos = wire.reader(lens_topic(wire.section, mount.name)) if mount.lens_taken else None

    def latest(self, now_ns: int) -> DepthFrame | None:
        """Return the newest usable frame; none once `camera_info` states another lens than the start's."""
        for message in self._infos.take() if self._infos is not None else ():
            self._changed = self._changed or changed_lens(message.sample, self._mount, self.reader.topic)
        return super().latest(now_ns)

    def _decode(self, sample: Image | CompressedImage, number: int, stamp_ns: int) -> DepthFrame:
        if self._changed:
            raise UnusableError(self._changed)
        depth = depth_from_ros(sample, self._mount)
        reason = covered(int(np.count_nonzero(depth)), depth.size)
        if reason:
            raise UnusableError(reason)
        return DepthFrame(self.name, number, stamp_ns, depth)


class DdsColorCamera(_DdsCamera[ColorFrame]):
    """The forward colour camera behind `color/image`; frames have the policy's size."""

    def __init__(self, wire: InputWire[Messages], section: CamerasSection, decoder: Executor | None = None) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        super().__init__(wire, "color/image", COLOR, section.stale_ms, decoder)

    def _decode(self, sample: Image | CompressedImage, number: int, stamp_ns: int) -> ColorFrame:
        return ColorFrame(number, stamp_ns, color_from_ros(sample))
