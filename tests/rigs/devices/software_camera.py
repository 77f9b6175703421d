"""A camera made of librealsense's `software_device`: its frames go through the real SDK, without hardware.

    python software_camera.py record FILE.db3 '{"stream": "depth", "width": 64, "height": 48, "count": 6, ...}'
    python software_camera.py live '{...}'

`record` runs software_device -> recorder; `live` runs software_device -> pipeline -> our `Stream` and prints, a line a
frame, the frame's device stamp [ns] and the pixels' CRC. In processes of their own: the SDK is not trusted in pytest's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

SERIAL = "SOFT1"
FIRST_STAMP_MS = 1000.0
POLL_S = 0.002


@dataclass(frozen=True)
class Scene:
    """What the software camera shows: `count` frames of random pixels, each another, the same for the same scene."""

    stream: str = "depth"
    width: int = 64
    height: int = 48
    count: int = 6
    period_ms: float = 20.0
    depth_scale_m: float = 0.001
    focal_px: float = 32.0
    valid_fraction: float = 1.0

    def image(self, index: int) -> np.ndarray:
        random = np.random.default_rng(index)
        if self.stream == "color":
            return random.integers(0, 256, (self.height, self.width, 3), dtype=np.uint8)
        depth = random.integers(1, 2**16, (self.height, self.width), dtype=np.uint16)
        depth.flat[round(self.valid_fraction * depth.size) :] = 0
        return depth

    def stamp_ns(self, index: int) -> int:
        return round((FIRST_STAMP_MS + index * self.period_ms) * 1e6)


class SoftwareCamera:
    """The device, one sensor, one stream."""

    def __init__(self, scene: Scene) -> None:
        import pyrealsense2 as rs

        self._rs, self.scene = rs, scene
        self.device = rs.software_device()
        self.device.register_info(rs.camera_info.serial_number, SERIAL)
        self.device.register_info(rs.camera_info.name, "Software Camera")
        self.device.register_info(rs.camera_info.firmware_version, "1.2.3")
        depth = scene.stream == "depth"
        self.sensor = self.device.add_sensor("Stereo Module" if depth else "RGB Camera")
        lens = rs.intrinsics()
        lens.width, lens.height = scene.width, scene.height
        lens.fx = lens.fy = scene.focal_px
        lens.ppx, lens.ppy = (scene.width - 1) / 2, (scene.height - 1) / 2
        lens.model, lens.coeffs = rs.distortion.none, [0.0] * 5
        stream = rs.video_stream()
        stream.type = rs.stream.depth if depth else rs.stream.color
        stream.fmt = rs.format.z16 if depth else rs.format.rgb8
        stream.width, stream.height, stream.intrinsics = scene.width, scene.height, lens
        stream.index, stream.uid, stream.fps, stream.bpp = 0, 1, 30, 2 if depth else 3
        self.profile = self.sensor.add_video_stream(stream)
        self._bytes_per_pixel = stream.bpp
        if depth:
            self.sensor.add_read_only_option(rs.option.depth_units, scene.depth_scale_m)

    def show(self, index: int) -> None:
        """Inject frame `index`."""
        frame = self._rs.software_video_frame()
        frame.pixels = self.scene.image(index)
        frame.bpp, frame.stride = self._bytes_per_pixel, self._bytes_per_pixel * self.scene.width
        frame.timestamp = self.scene.stamp_ns(index) / 1e6
        frame.domain = self._rs.timestamp_domain.hardware_clock
        frame.frame_number = index + 1
        frame.profile = self.profile.as_video_stream_profile()
        frame.depth_units = self.scene.depth_scale_m
        self.sensor.on_video_frame(frame)


def record(path: str, scene: Scene) -> None:
    """Show every frame to librealsense's recorder, `period_ms` apart."""
    import pyrealsense2 as rs

    camera = SoftwareCamera(scene)
    recorder = rs.recorder(path, camera.device)
    sensor = recorder.query_sensors()[0]
    queue = rs.frame_queue(scene.count + 1, True)
    sensor.open(sensor.get_stream_profiles()[0])
    sensor.start(queue)
    for index in range(scene.count):
        camera.show(index)
        threading.Event().wait(scene.period_ms / 1e3)
    sensor.stop()
    sensor.close()
    del sensor, recorder


def live(scene: Scene) -> None:
    """Print what our `Stream` makes of the device as a live one."""
    import pyrealsense2 as rs

    from onboard.drivers.realsense.child import Stream
    from onboard.drivers.realsense.device import Source

    camera = SoftwareCamera(scene)
    pipeline = rs.pipeline()
    pipeline.set_device(camera.device)
    source = Source("front", scene.stream, SERIAL, "", scene.width, scene.height, 30, scene.depth_scale_m)
    stream = Stream(source, pipeline)
    stream.start()
    say(asdict(stream.info))
    last_ns = 0
    for index in range(scene.count):
        camera.show(index)
        while (captured := stream.poll()) is None:
            threading.Event().wait(POLL_S)
        say([captured.device_stamp_ns, zlib.crc32(captured.pixels.tobytes()), captured.stamp_ns > last_ns])
        last_ns = captured.stamp_ns
    say(stream.ended())
    stream.close()


def say(value: object) -> None:
    """Print a line for `run`."""
    sys.stdout.write(json.dumps(value) + "\n")


def run(task: str, scene: Scene, *arguments: str) -> list[str]:
    """Run this file's `task` in a process of its own; return the lines that it printed."""
    command = [sys.executable, __file__, task, *arguments, json.dumps(asdict(scene))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def make_recording(path: Path, scene: Scene) -> Path:
    """Return `path` after the scene was recorded there."""
    run("record", scene, str(path))
    return path


if __name__ == "__main__":
    shown = Scene(**json.loads(sys.argv[-1]))
    if sys.argv[1] == "record":
        record(sys.argv[2], shown)
    else:
        live(shown)
    sys.stdout.flush()
    os._exit(0)
