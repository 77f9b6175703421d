"""The floor in one image: truth of rendered rooms, real office frames, and images without a floor."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib.cameras.floor import floor_in
from calib.commands.floor import floor
from hil.drive.episodes import choose
from hil.maps.world_grid import World, make_world
from hil.physics.collision_world import Body
from hil.scene.furniture import furnish
from hil.sensors.camera import rays_of, render_depth
from hil.sensors.depth_noise import load_depth_noise
from onboard.commands.scan import read_depth_png
from onboard.config.mounts import Mount, load_mounts
from onboard.values.errors import InputError
from onboard.values.messages import Pose

STILL = Path(__file__).parents[2] / "data/realsense-office/still"
#         roll, pitch [deg], height [m] of the true camera
TRUTHS = [(0.0, 10.0, 0.30), (4.0, 18.0, 0.62), (-92.0, 14.0, 0.35), (87.5, 25.0, 0.50)]
MOUNT = """[cameras.front]
width = {width}
height = {height}
fx = {f}
fy = {f}
cx = {cx}
cy = {cy}
translation_m = [{x}, {y}, {z}]
rotation_rpy_deg = [{roll}, {pitch}, {yaw}]
"""


def mount_of(folder: Path, roll: float, pitch: float, z: float, width: int = 160, f: float = 96.0) -> Mount:
    height = width * 3 // 4
    text = MOUNT.format(
        width=width, height=height, f=f, cx=width / 2 - 0.5, cy=height / 2 - 0.5, x=0.1, y=0.0, z=z, roll=roll,
        pitch=pitch, yaw=30.0,
    )  # fmt: skip
    file = folder / "mounts.toml"
    file.write_text(text)
    return load_mounts(file).depth["front"]


@cache
def room(seed: int) -> tuple[World, Pose]:
    scenario = choose("gdc1", seed, None, Body())
    return furnish(scenario.world, seed), scenario.episode.start


def seen(mount: Mount, seed: int) -> np.ndarray:
    world, start = room(seed)
    depth = render_depth(world, rays_of(mount), start)
    return load_depth_noise().apply(depth, mount.fx, mount.depth_scale_m, (seed,))


@pytest.mark.parametrize(("roll", "pitch", "height"), TRUTHS)
def test_the_truth_of_a_rendered_room_from_a_wrong_guess(
    tmp_path: Path, roll: float, pitch: float, height: float
) -> None:
    true = mount_of(tmp_path, roll, pitch, height)
    guess = mount_of(tmp_path, roll + 5.0, pitch - 5.0, height + 0.05)
    found = [floor_in(seen(true, seed), guess) for seed in range(3)]
    for one in found:
        assert one.roll_deg == pytest.approx(roll, abs=0.5)
        assert one.pitch_deg == pytest.approx(pitch, abs=0.5)
        assert one.height_m == pytest.approx(height, abs=0.01)
        assert one.rms_m < 0.02


def test_real_frames_of_a_still_camera_agree(tmp_path: Path) -> None:
    guess = mount_of(tmp_path, 0.0, 20.0, 0.6, 320, 192.0)
    found = [floor_in(read_depth_png(file), guess) for file in sorted(STILL.glob("*.png"))]
    assert len(found) == 10
    for value in ("roll_deg", "pitch_deg"):
        result = [getattr(one, value) for one in found]
        assert max(result) - min(result) < 0.3
    heights_m = [one.height_m for one in found]
    assert max(heights_m) - min(heights_m) < 0.01
    assert np.mean(heights_m) == pytest.approx(0.63, abs=0.03)  # the camera is about 0.6 m up


def test_a_table_that_is_larger_than_the_floor_is_no_floor(tmp_path: Path) -> None:
    mount = mount_of(tmp_path, 0.0, 20.0, 0.6)
    low = np.full((80, 80, 2), np.inf, np.float32)
    high = np.full((80, 80, 2), -np.inf, np.float32)
    low[:, 46:, 0], high[:, 46:, 0] = 0.0, 0.2  # a step that fills the upper part of the image
    world = make_world("step", 0.05, Pose(0.0, 0.0, 0.0), low, high)
    depth = render_depth(world, rays_of(mount), Pose(1.3, 2.0, -np.radians(30.0)))
    for seed in range(3):
        found = floor_in(load_depth_noise().apply(depth, mount.fx, mount.depth_scale_m, (seed,)), mount)
        assert found.height_m == pytest.approx(0.6, abs=0.01)
        assert found.pitch_deg == pytest.approx(20.0, abs=0.5)


@pytest.mark.parametrize("image", ["empty", "wall", "noise"])
def test_an_image_without_a_floor_is_refused(tmp_path: Path, image: str) -> None:
    mount = mount_of(tmp_path, 0.0, 0.0, 0.6)
    depth = np.zeros((120, 160), np.uint16)
    if image == "wall":
        depth[:] = 900
    elif image == "noise":
        depth[:] = np.random.default_rng(0).integers(200, 6000, depth.shape)
    with pytest.raises(InputError, match="camera front: no floor seen") as result:
        floor_in(depth, mount)
    assert "\n" not in str(result.value)


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    mount = mount_of(tmp_path, 2.0, 15.0, 0.4)
    Image.fromarray(seen(mount, 1)).save(tmp_path / "depth.png")
    out = tmp_path / "floor.json"
    floor(tmp_path / "mounts.toml", [f"front={tmp_path / 'depth.png'}"], 0, str(out))
    result = json.loads(out.read_text())["cameras"]["front"]
    assert set(result) == {"roll_deg", "pitch_deg", "height_m", "inliers", "rms_m"}
    assert result["pitch_deg"] == pytest.approx(15.0, abs=0.5)
