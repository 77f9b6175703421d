"""How fast four 848x480 frames are fused: the kernel against its plain numpy definition, in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import load_mounts
from onboard.perception.kernels import fuse_plain, lower_ranges, planar
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS

SIZE = (480, 848)
F_PX = 424.0
REPEATS = 5
Fusion = Callable[..., None]


def room(rng: np.random.Generator) -> np.ndarray:
    """Return a frame like a real one: smooth surfaces 0.5 to 6 m away, a little noise, 15 % holes."""
    coarse = rng.uniform(500, 6000, (16, 16))
    surfaces = np.kron(coarse, np.ones((30, 53)))
    noisy = surfaces * rng.normal(1.0, 0.005, SIZE)
    return np.where(rng.random(SIZE) < 0.15, 0, noisy).astype(np.uint16)


def noise(rng: np.random.Generator) -> np.ndarray:
    """Return a frame in which no pixel is like its neighbour."""
    return rng.integers(0, 10_000, SIZE, dtype=np.uint16)


def fuse_all(fusion: Fusion, frames: list[np.ndarray]) -> np.ndarray:
    section = ScanSection()
    ranges_m = np.full(BINS, np.inf, dtype=np.float32)
    for frame, mount in zip(frames, load_mounts(DEFAULT_ROBOT / "mounts.toml").depth.values(), strict=True):
        lens = (F_PX, F_PX, (SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2, 0.001)
        limits = (section.near_m, section.far_m, section.z_min_m, section.z_max_m, np.empty((0, 6)))
        fusion(ranges_m, frame, *lens, mount.base_from_camera, planar(IDENTITY), *limits)
    return ranges_m


def best_s(fusion: Fusion, frames: list[np.ndarray]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fuse_all(fusion, frames)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("scene", [room, noise])
def test_kernel_against_definition(
    scene: Callable[[np.random.Generator], np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    frames = [scene(rng) for _ in range(4)]
    assert np.array_equal(fuse_all(lower_ranges, frames), fuse_all(fuse_plain, frames))
    kernel_s, plain_s = best_s(lower_ranges, frames), best_s(fuse_plain, frames)
    with capsys.disabled():
        print(
            f"\nfuse 4 x 848x480, {scene.__name__}: kernel {kernel_s * 1e3:.1f} ms, "
            f"definition {plain_s * 1e3:.1f} ms, ratio {plain_s / kernel_s:.1f}"
        )
    assert kernel_s < plain_s
