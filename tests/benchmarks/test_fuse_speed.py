"""How fast four 848x480 depth images become a scan: the kernel against its definition and peers, in the same run."""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import load_mounts
from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import NEAR_M, fuse_plain, planar
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS
from tests.benchmarks.conftest import Ratios
from tests.benchmarks.test_record_cost import real_images
from tests.rigs.fusion.plain_fusion import by_angle

HEIGHT, WIDTH = 480, 848
LENS = (424.0, 424.0, (WIDTH - 1) / 2, (HEIGHT - 1) / 2, 0.001)
SECTION = ScanSection()
LIMITS = (NEAR_M, SECTION.far_m, SECTION.z_min_m, SECTION.z_max_m, np.empty((0, 6)), SECTION.noise_per_m)
NEAREST = (*LIMITS[:-1], 0.0)
"""Limits of the paper's scan: the nearest pixel."""
CPP = Path(__file__).parents[1] / "rigs" / "fusion" / "peers.cpp"
ROUNDS = 40
Images = list[np.ndarray]
Fusion = Callable[..., None]


def landscape() -> list[np.ndarray]:
    """Return four mounts like that of the real images: 0.6 m up, 20 deg down, to all sides."""
    down = math.radians(20.0)
    level = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    pitch = np.array([[math.cos(down), 0, math.sin(down)], [0, 1, 0], [-math.sin(down), 0, math.cos(down)]])
    mounts = []
    for yaw in np.radians([0.0, 90.0, 180.0, -90.0]):
        c, s = math.cos(yaw), math.sin(yaw)
        mount = np.eye(4)
        mount[:3, :3] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ pitch @ level
        mount[:3, 3] = 0.2 * c, 0.2 * s, 0.6
        mounts.append(mount)
    return mounts


def default_robot() -> list[np.ndarray]:
    """Return the mounts of the default robot: three cameras on their side, one level, 10 deg down."""
    return [mount.base_from_camera for mount in load_mounts(DEFAULT_ROBOT / "mounts.toml").depth.values()]


def standing(image: np.ndarray) -> np.ndarray:
    """Return a real image as a camera on its side sees it: the middle 480 columns, their mirror image below."""
    middle = image[:, :HEIGHT]
    return np.ascontiguousarray(np.rot90(np.vstack([middle, middle[::-1]])[:WIDTH]))


def room(rng: np.random.Generator) -> np.ndarray:
    """Return an image of smooth surfaces 0.5 to 6 m away, a little noise, 15 % holes."""
    surfaces = np.kron(rng.uniform(500, 6000, (16, 16)), np.ones((30, 53)))
    noisy = surfaces * rng.normal(1.0, 0.005, (HEIGHT, WIDTH))
    return np.where(rng.random((HEIGHT, WIDTH)) < 0.15, 0, noisy).astype(np.uint16)


def scenes() -> dict[str, tuple[Images, list[np.ndarray]]]:
    """Return four images and their mounts by name; the first two are real."""
    rng, images = np.random.default_rng(0), real_images()
    return {
        "real images": (images[:4], landscape()),
        "real images, default robot": ([*map(standing, images[:3]), images[3]], default_robot()),
        "room": ([room(rng) for _ in range(4)], default_robot()),
        "noise": ([rng.integers(0, 10_000, (HEIGHT, WIDTH), dtype=np.uint16) for _ in range(4)], default_robot()),
    }


def fuse_all(fusion: Fusion, images: Images, mounts: list[np.ndarray]) -> np.ndarray:
    ranges_m = np.full(BINS, np.inf, dtype=np.float32)
    for image, mount in zip(images, mounts, strict=True):
        fusion(ranges_m, image, *LENS, mount, planar(IDENTITY), *LIMITS)
    return ranges_m


def prepared(
    images: Images, mounts: list[np.ndarray], lens: tuple[float, ...] = LENS, limits: tuple[Any, ...] = LIMITS
) -> Callable[[], np.ndarray]:
    """Return the kernel as the runtime calls it, with projections made beforehand."""
    projections = [projection_of(images[0].shape, *lens, mount, *limits) for mount in mounts]

    def fuse() -> np.ndarray:
        ranges_m = np.full(BINS, np.inf, dtype=np.float32)
        for image, projection in zip(images, projections, strict=True):
            lower_ranges(ranges_m, image, projection, planar(IDENTITY))
        return ranges_m

    return fuse


def best_ms(*calls: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Return the shortest processor time of each call; the rounds alternate, so that all meet the same load."""
    times = [math.inf] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begun = time.thread_time_ns()
            call()
            times[i] = min(times[i], (time.thread_time_ns() - begun) / 1e6)
    return times


PEERS = {
    "a loop with arctan2": (by_angle, 7.0, ROUNDS),
    "numpy": (fuse_plain, 40.0, 3),  # 97 to 115 alone, 54 beside the other tests
}
"""Peers by name, how many times as long they must take on the real images, and rounds."""


@pytest.mark.parametrize("name", scenes())
def test_kernel_against_plain_loops(name: str, ratios: Ratios) -> None:
    images, mounts = scenes()[name]
    kernel = prepared(images, mounts)
    assert np.array_equal(kernel(), fuse_all(fuse_plain, images, mounts))
    for peer, (fusion, least, rounds) in PEERS.items():

        def measure(fusion: Fusion = fusion, rounds: int = rounds) -> float:
            kernel_ms, peer_ms = best_ms(kernel, lambda: fuse_all(fusion, images, mounts), rounds=rounds)
            return peer_ms / kernel_ms

        ratios.check(f"fusion, {name}: {peer}", measure, least if name == "real images" else 1.0)


def test_mean_against_the_nearest_pixel(ratios: Ratios) -> None:
    images, mounts = scenes()["real images"]
    mean, nearest = prepared(images, mounts), prepared(images, mounts, limits=NEAREST)

    def measure() -> float:
        mean_ms, nearest_ms = best_ms(mean, nearest)
        return nearest_ms / mean_ms

    ratios.check("fusion, real images: the paper's nearest pixel", measure, 1.0 / 1.15)


def test_growth_with_pixels(ratios: Ratios) -> None:
    images, mounts = scenes()["real images"]
    twice = [np.repeat(image, 2, axis=0) for image in images]
    lens = (LENS[0], 2 * LENS[1], LENS[2], 2 * LENS[3] + 0.5, LENS[4])

    def measure() -> float:
        single_ms, double_ms = best_ms(prepared(images, mounts), prepared(twice, mounts, lens))
        return 2.0 * single_ms / double_ms

    ratios.check("fusion, real images: twice the pixels in one image, for each", measure, 2.0 / 2.1)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ to build the peer")
def test_kernel_against_pointcloud_to_laserscan(tmp_path: Path, ratios: Ratios) -> None:
    subprocess.run(["g++", "-O3", "-shared", "-fPIC", "-o", tmp_path / "peers.so", CPP], check=True)
    peer = ctypes.CDLL(str(tmp_path / "peers.so"))
    images, mounts = scenes()["real images"]
    cloud, lens = np.empty((HEIGHT * WIDTH, 3), np.float32), np.array(LENS[:4])
    at = cloud.ctypes.data_as(ctypes.c_void_p)

    def convert() -> None:
        for image, mount in zip(images, mounts, strict=True):
            clouds(image, mount)

    def clouds(image: np.ndarray, mount: np.ndarray) -> None:
        pixels = image.ctypes.data_as(ctypes.c_void_p)
        peer.to_cloud(pixels, HEIGHT, WIDTH, lens.ctypes.data_as(ctypes.c_void_p), ctypes.c_double(LENS[4]), at)
        peer.transform(at, len(cloud), np.ascontiguousarray(mount).ctypes.data_as(ctypes.c_void_p))

    def whole() -> np.ndarray:
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, mount in zip(images, mounts, strict=True):
            clouds(image, mount)
            bounds = [ctypes.c_double(bound) for bound in (SECTION.z_min_m, SECTION.z_max_m, SECTION.far_m)]
            peer.to_scan(at, len(cloud), *bounds, BINS, ranges_m.ctypes.data_as(ctypes.c_void_p))
        return ranges_m

    kernel = prepared(images, mounts, limits=NEAREST)
    assert_alike(whole(), kernel())

    def loop_alone() -> float:
        kernel_ms, whole_ms, convert_ms = best_ms(kernel, whole, convert, rounds=15)
        return (whole_ms - convert_ms) / kernel_ms

    ratios.check("fusion, real images: pointcloud_to_laserscan's loop, C++", loop_alone)


def test_kernel_against_realsense_pointcloud(tmp_path: Path, ratios: Ratios) -> None:
    pytest.importorskip("pyrealsense2", reason="the peer is librealsense's pointcloud")
    images, mounts = scenes()["real images"]
    np.savez(tmp_path / "images.npz", images=images, transforms=mounts, lens=LENS)
    command = [sys.executable, "-m", "tests.rigs.fusion.realsense_cloud", str(tmp_path / "images.npz")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    peer = json.loads(run.stdout.splitlines()[-1])
    kernel = prepared(images, mounts, limits=NEAREST)
    assert_alike(np.array(peer["ranges_m"]), kernel())
    ratios.check("fusion, real images: librealsense's pointcloud, numpy", lambda: peer["ms"] / best_ms(kernel)[0])


def assert_alike(peer_m: np.ndarray, ours_m: np.ndarray) -> None:
    """Check that a peer did the same work: it has other rules at a bin's edge and float32 points."""
    both = np.isfinite(peer_m) & np.isfinite(ours_m)
    assert both.sum() > 100
    assert (np.abs(peer_m[both] - ours_m[both]) < 0.01).mean() > 0.95
