"""Intrinsics from rendered rooms: a wrong focal length, a wrong depth scale and a bent image are noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calib.cameras.keyframes import KeyFrame
from calib.commands.intrinsics import check_intrinsics
from hil.drive.episodes import choose
from hil.physics.collision_world import Body
from hil.scene.furniture import furnish
from hil.sensors.camera import rays_of, render_depth
from hil.sensors.depth_noise import load_depth_noise
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import Mount, load_mounts
from onboard.values.messages import Pose

MOUNT = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
HEIGHT_M = float(MOUNT.base_from_camera[2, 3])


@pytest.fixture(scope="module")
def frames() -> list[KeyFrame]:
    scenario = choose("home", 1, None, Body())
    world, start, rays = furnish(scenario.world, 1), scenario.episode.start, rays_of(MOUNT)
    made = []
    for number in range(24):
        pose = Pose(start.x_m, start.y_m, number * np.pi / 12.0)
        depth = load_depth_noise().apply(render_depth(world, rays, pose), MOUNT.fx, MOUNT.depth_scale_m, (number,))
        per_m = np.divide(1.0 / MOUNT.depth_scale_m, depth, out=np.zeros(depth.shape, np.float32), where=depth > 0)
        made.append(KeyFrame(pose, {"front": per_m}))
    return made


def test_right_intrinsics_give_no_warning(frames: list[KeyFrame]) -> None:
    found = check_intrinsics(frames, MOUNT, HEIGHT_M)
    assert found.warnings == ()
    assert found.focal == pytest.approx(1.0, abs=0.05)
    assert found.scale == pytest.approx(1.0, abs=0.01)
    assert abs(found.bow) < 0.002


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_wrong_focal_length_is_said(frames: list[KeyFrame], factor: float) -> None:
    wrong: Mount = replace(MOUNT, fx=factor * MOUNT.fx, fy=factor * MOUNT.fy)
    found = check_intrinsics(frames, wrong)
    assert found.focal == pytest.approx(1.0 / factor, rel=0.06)
    assert any("focal length" in line for line in found.warnings)


def test_a_wrong_depth_scale_is_said(frames: list[KeyFrame]) -> None:
    longer = [KeyFrame(frame.odometry, {"front": frame.per_m["front"] / np.float32(1.1)}) for frame in frames]
    found = check_intrinsics(longer, MOUNT, HEIGHT_M)
    assert found.scale == pytest.approx(1.0 / 1.1, rel=0.02)
    assert any("depth scale" in line for line in found.warnings)


def test_a_bent_image_is_said(frames: list[KeyFrame]) -> None:
    v, u = np.mgrid[0 : MOUNT.height, 0 : MOUNT.width]
    square = ((u - MOUNT.cx) / MOUNT.fx) ** 2 + ((v - MOUNT.cy) / MOUNT.fy) ** 2
    bend = (1.0 + 0.03 * square).astype(np.float32)
    found = check_intrinsics(
        [KeyFrame(frame.odometry, {"front": frame.per_m["front"] * bend}) for frame in frames], MOUNT
    )
    assert any("bent" in line for line in found.warnings)
