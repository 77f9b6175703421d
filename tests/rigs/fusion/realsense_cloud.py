"""A peer of the fusion kernel in a process of its own: librealsense's `pointcloud`, then bins by numpy.

Call: python -m tests.rigs.fusion.realsense_cloud IMAGES.npz. Prints JSON: "ms" of processor time, "ranges_m" (180).
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import pyrealsense2 as rs

from onboard.config.config import ScanSection
from onboard.perception.kernels import NEAR_M, bins_of
from onboard.values.messages import BINS

ROUNDS = 5


def frames_of(images: np.ndarray, lens: np.ndarray) -> list[rs.depth_frame]:
    """Return the images as librealsense's own depth frames; lens: fx, fy, cx, cy, depth unit."""
    height, width = images[0].shape
    device = rs.software_device()
    sensor = device.add_sensor("depth")
    intrinsics = rs.intrinsics()
    intrinsics.width, intrinsics.height = width, height
    intrinsics.fx, intrinsics.fy, intrinsics.ppx, intrinsics.ppy = lens[:4].tolist()
    intrinsics.model = rs.distortion.none
    stream = rs.video_stream()
    stream.type, stream.fmt, stream.bpp = rs.stream.depth, rs.format.z16, 2
    stream.width, stream.height, stream.fps, stream.intrinsics = width, height, 30, intrinsics
    profile = sensor.add_video_stream(stream)
    sensor.add_read_only_option(rs.option.depth_units, float(lens[4]))
    queue = rs.frame_queue(len(images), keep_frames=True)
    sensor.open(profile)
    sensor.start(queue)
    for number, image in enumerate(images):
        frame = rs.software_video_frame()
        frame.stride, frame.bpp, frame.pixels = 2 * width, 2, image
        frame.timestamp, frame.frame_number, frame.profile = float(number), number, profile.as_video_stream_profile()
        frame.depth_units = float(lens[4])
        sensor.on_video_frame(frame)
    return [queue.wait_for_frame().as_depth_frame() for _ in images]


def fuse(frames: list[rs.depth_frame], transforms: np.ndarray, cloud: rs.pointcloud) -> np.ndarray:
    section, ranges_m = ScanSection(), np.full(BINS, np.inf, np.float32)
    for frame, base_from_camera in zip(frames, transforms.astype(np.float32), strict=True):
        points = np.asanyarray(cloud.calculate(frame).get_vertices(2))
        points = points[(points[:, 2] >= NEAR_M) & (points[:, 2] <= section.far_m)]
        x, y, z = base_from_camera[:3, :3] @ points.T + base_from_camera[:3, 3:]
        kept = (z >= section.z_min_m) & (z <= section.z_max_m)
        np.minimum.at(ranges_m, bins_of(x[kept], y[kept]), np.hypot(x[kept], y[kept]))
    return ranges_m


def main() -> None:
    given = np.load(sys.argv[1])
    frames, cloud, times = frames_of(given["images"], given["lens"]), rs.pointcloud(), []
    for _ in range(ROUNDS):
        begun = time.process_time()
        ranges_m = fuse(frames, given["transforms"], cloud)
        times.append((time.process_time() - begun) * 1e3)
    result = {"ms": min(times), "ranges_m": [float(range_m) for range_m in ranges_m]}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)  # librealsense may hang or crash on its way out


if __name__ == "__main__":
    main()
