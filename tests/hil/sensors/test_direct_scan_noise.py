"""Noise of a cast scan: equal to the noise in scans fused from rendered, noisy frames."""

from __future__ import annotations

import numpy as np
import pytest

from hil.drive.episodes import load_episodes
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space
from hil.sensors.camera import rays_of, render_depth
from hil.sensors.depth_noise import EMPTY, load_depth_noise, noisy_scan
from hil.sensors.direct_scan import looked_at
from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import load_mounts
from onboard.perception.scan_fusion import ScanMemory, build_rig, fuse
from onboard.values.geometry import IDENTITY
from onboard.values.messages import BINS, DepthFrame, Pose

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
SECTION = ScanSection()
PLACES = 25
OTHER = 0.3
"""Relative changes above this limit are hits on another object, not noise."""


def both_fused() -> tuple[np.ndarray, np.ndarray]:
    """Return fused scans of true and of noisy frames at many places, each (places, bins that cameras see)."""
    world, rig, noise = load_episodes("gdc3").world, build_rig(MOUNTS, SECTION), load_depth_noise()
    standing, rng = np.argwhere(free_space(world, Body()).standing), np.random.default_rng(3)
    rays = {name: rays_of(mount) for name, mount in MOUNTS.depth.items()}
    scans: list[list[np.ndarray]] = [[], []]
    for place in range(PLACES):
        row, column = standing[rng.integers(len(standing))]
        pose = Pose(*world.centre_of((int(row), int(column))), float(rng.uniform(-3.0, 3.0)))
        true = {name: render_depth(world, ray, pose) for name, ray in rays.items()}
        spoilt = {
            name: noise.apply(image, MOUNTS.depth[name].fx, MOUNTS.depth[name].depth_scale_m, (place, number))
            for number, (name, image) in enumerate(true.items())
        }
        for images, kept in zip((true, spoilt), scans, strict=True):
            frames = {name: DepthFrame(name, 1, 0, image) for name, image in images.items()}
            kept.append(fuse(frames, 0, IDENTITY, ScanMemory(), rig)[0].ranges_m[looked_at(MOUNTS, SECTION)])
    return np.array(scans[0]), np.array(scans[1])


def errors(true: np.ndarray, noisy: np.ndarray, band: tuple[float, float]) -> np.ndarray:
    """Return the relative errors of ranges in a band."""
    chosen = (true >= band[0]) & (true < band[1]) & np.isfinite(noisy)
    relative = noisy[chosen] / true[chosen] - 1.0
    return np.asarray(relative[np.abs(relative) < OTHER])


def test_scan_noise_matches_the_noise_of_rendered_frames() -> None:
    """Bias agrees to 0.4 % and scatter within a factor of 1.6 from 1.5 m on. Nearer ranges are exact to 1 cm."""
    true, fused = both_fused()
    cast = np.array([noisy_scan(row, 1, tick) for tick, row in enumerate(true.astype(np.float32))])
    for band in ((1.5, 2.5), (2.5, 4.0), (4.0, 8.0)):
        ours, theirs = errors(true, cast, band), errors(true, fused, band)
        assert len(theirs) > 200
        assert abs(np.mean(ours) - np.mean(theirs)) < 0.004
        assert abs(np.mean(theirs)) < 0.012  # the nearest pixels of the same frames: 0.6, 1.4 and 3.9 %
        assert 0.6 < np.std(ours) / np.std(theirs) < 1.6
    near = (0.5, 1.0)
    assert max(abs(np.median(errors(true, cast, near))), abs(np.median(errors(true, fused, near)))) < 0.01
    lost = [np.isinf(noisy[np.isfinite(true)]).mean() for noisy in (cast, fused)]
    assert lost == pytest.approx([EMPTY, EMPTY], abs=0.006)


def test_scan_noise_depends_on_seed_and_tick() -> None:
    ranges = np.linspace(0.3, 9.0, BINS, dtype=np.float32)
    one, again, later, other = (noisy_scan(ranges, *key) for key in ((4, 5), (4, 5), (4, 6), (5, 5)))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, later)
    assert not np.array_equal(one, other)


def test_an_empty_scan_stays_empty() -> None:
    ranges = np.full(BINS, np.inf, np.float32)
    ranges[3] = 0.0
    noisy = noisy_scan(ranges, 1, 1)
    assert noisy[3] in (0.0, np.inf)
    assert np.isinf(np.delete(noisy, 3)).all()
    assert noisy.dtype == np.float32
    assert ranges[3] == 0.0
