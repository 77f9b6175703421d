"""Smaller images: the same view, and what the demo writes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live.demo_result import Files
from hil.sensors.camera import rays_of
from hil.sensors.image_size import MOST_PIXELS, enlarged, reduced, resized
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.mounts import Mount, load_mounts
from tests.rigs.runtime_bench import MOUNTS

FRONT = MOUNTS.depth["front"]
BIG = replace(FRONT, width=640, height=480, fx=386.0, fy=385.0, cx=321.4, cy=238.2)


def edges(mount: Mount) -> tuple[float, float, float, float]:
    """Return the tangents of the image's left, right, upper and lower edge, half a pixel beyond the centres."""
    left, up = (-0.5 - mount.cx) / mount.fx, (-0.5 - mount.cy) / mount.fy
    return left, left + mount.width / mount.fx, up, up + mount.height / mount.fy


@given(st.integers(2, 640), st.integers(2, 480))
def test_another_size_has_the_same_edges(width: int, height: int) -> None:
    np.testing.assert_allclose(edges(resized(BIG, width, height)), edges(BIG), atol=1e-9)


def test_few_pixels_stay_as_they_are_and_many_become_few() -> None:
    assert reduced(MOUNTS) is MOUNTS
    small = reduced(replace(MOUNTS, depth={"front": BIG, "rear": replace(BIG, name="rear")}))
    assert {(one.width, one.height) for one in small.depth.values()} == {(213, 160)}
    assert sum(one.width * one.height for one in small.depth.values()) <= MOST_PIXELS


def test_an_enlarged_image_is_a_depth_of_nearly_the_same_ray() -> None:
    small = resized(BIG, 213, 160)
    along = rays_of(small).directions @ BIG.base_from_camera[:3, 1]  # of each ray, along the image's rows
    image = enlarged(np.round(1000 + 100 * along.reshape(160, 213)).astype(np.uint16), BIG)
    want = 1000 + 100 * (rays_of(BIG).directions @ BIG.base_from_camera[:3, 1]).reshape(480, 640)
    assert image.shape == (480, 640)
    assert np.abs(image - want).max() <= 0.5 + 100 * 1.5 / BIG.fy


def test_a_demo_drives_with_mounts_that_say_their_new_size(tmp_path: Path) -> None:
    text = (DEFAULT_ROBOT / "mounts.toml").read_text()
    big = text.replace("width = 80", "width = 640").replace("height = 60", "height = 480").replace("= 40.0", "= 320.0")
    mounts = tmp_path / "mounts.toml"
    mounts.write_text(big.replace("cx = 39.5", "cx = 319.5").replace("cy = 29.5", "cy = 239.5"))
    config = Config(robot={"mounts": mounts})
    files = Files(tmp_path / "out", "a", config, ())
    written = load_config(files.config).robot.mounts
    assert "640x480 -> 160x120" in files.sizes
    assert "640x480 -> 160x120" in written.read_text(), "the recording holds this text"
    for name, mount in load_mounts(written).depth.items():
        assert edges(mount) == pytest.approx(edges(FRONT), abs=1e-9), name
        np.testing.assert_array_equal(mount.base_from_camera, MOUNTS.depth[name].base_from_camera)
    full = Files(tmp_path / "full", "a", config, (), full_size=True)
    assert (full.sizes, load_config(full.config).robot.mounts) == ("", mounts)
