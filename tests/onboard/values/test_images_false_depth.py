"""The false depth of D4xx cameras, 65535, is no return in every unit: each reader takes it as it takes 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from calib.cameras.floor import floor_in
from onboard.commands.scan import read_depth_png, scan_command
from onboard.config.config import DEFAULT_ROBOT, ScanSection
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.camera_input import depth_from_ros
from onboard.drivers.dds.ros_convert import ros_image
from onboard.health.floor import floor
from onboard.perception.scan_fusion import ScanMemory, build_rig, fuse
from onboard.recording.tick_message import _depth_image
from onboard.values.geometry import IDENTITY
from onboard.values.images import FALSE_DEPTH, MIN_VALID_FRACTION, without_false_depth
from onboard.values.messages import DepthFrame

UNITS_M = [0.0001, 0.00025, 0.001, 0.01]
"""Depth units that RealSense cameras can be set to."""
FRONT = replace(load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"], width=64, height=48, cx=31.5, cy=23.5)
LOOK_DOWN = np.array([[0, -0.5, 0.866, 0.2], [-1, 0, 0, 0], [0, -0.866, -0.5, 0.5], [0, 0, 0, 1.0]])


def images(unit_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Return an image of a floor in which a third of the pixels is false, and the same with 0 there."""
    rng = np.random.default_rng(3)
    v, u = np.indices((48, 64))
    down = LOOK_DOWN[2, :3] @ np.stack([(u - 31.5) / FRONT.fx, (v - 23.5) / FRONT.fy, np.ones(u.shape)]).reshape(3, -1)
    metres = np.where(down < -0.05, -0.5 / np.minimum(down, -0.05), 0.0).reshape(48, 64)
    honest = np.where(metres / unit_m < 65000, np.rint(metres / unit_m), 0).astype(np.uint16)
    false = rng.random((48, 64)) < 0.33
    return np.where(false, FALSE_DEPTH, honest).astype(np.uint16), np.where(false, 0, honest).astype(np.uint16)


@pytest.mark.parametrize("unit_m", UNITS_M)
def test_the_scan_is_that_of_an_image_with_holes(unit_m):
    """With the default `drop_m`, so that a false depth could also be a drop."""
    mount = replace(FRONT, depth_scale_m=unit_m, base_from_camera=LOOK_DOWN)
    rig = build_rig(Mounts(DEFAULT_ROBOT, {"front": mount}, {}), ScanSection())
    scans = [
        fuse({"front": DepthFrame("front", 1, 1, image)}, 1, IDENTITY, ScanMemory(), rig)[0] for image in images(unit_m)
    ]
    np.testing.assert_array_equal(scans[0].ranges_m, scans[1].ranges_m)
    np.testing.assert_array_equal(scans[0].seen, scans[1].seen)


@pytest.mark.parametrize("unit_m", UNITS_M)
@pytest.mark.parametrize("encoding", ["16UC1", "mono16", "32FC1"])
def test_a_camera_over_dds(unit_m, encoding):
    mount, (false, holes) = replace(FRONT, depth_scale_m=unit_m), images(unit_m)
    pixels = false if encoding != "32FC1" else (false * unit_m).astype(np.float32)
    read = depth_from_ros(ros_image(0, "", encoding, pixels), mount)
    np.testing.assert_array_equal(read == 0, holes == 0)


@pytest.mark.parametrize("unit_m", UNITS_M)
def test_floors_and_files(unit_m, tmp_path):
    mount, (false, holes) = replace(FRONT, depth_scale_m=unit_m, base_from_camera=LOOK_DOWN), images(unit_m)
    Image.fromarray(false).save(tmp_path / "depth.png")
    read = read_depth_png(tmp_path / "depth.png")
    np.testing.assert_array_equal(read, holes)
    if unit_m > 0.0001:  # at 0.1 mm a uint16 ends at 6.5 m, where the floor goes on
        assert floor_in(read, mount).height_m == pytest.approx(0.5, abs=0.02)
    assert floor(DepthFrame("front", 1, 1, false).depth, mount) == floor(holes, mount)


def test_a_frame_of_any_source_holds_none():
    """Recordings too: their ticks hold frames."""
    frame = DepthFrame("front", 1, 1, _depth_image("front", ros_image(0, "", "16UC1", images(0.001)[0])))
    assert frame.depth.max() < FALSE_DEPTH
    whole = images(0.001)[1]
    assert without_false_depth(whole) is whole


@pytest.mark.parametrize("value", [0, FALSE_DEPTH])
def test_an_image_of_false_depth_alone_is_blind(value, tmp_path, capsys):
    lens = {"width": 64, "height": 48, "cx": 31.5, "cy": 23.5}
    text = (DEFAULT_ROBOT / "mounts.toml").read_text(encoding="utf-8").replace("0.001", "0.0001")
    lines = [
        f"{line.split(' ')[0]} = {lens[line.split(' ')[0]]}" if line.split(" ")[0] in lens else line
        for line in text.splitlines()
    ]
    (tmp_path / "mounts.toml").write_text("\n".join(lines))
    Image.fromarray(np.full((48, 64), value, np.uint16)).save(tmp_path / "depth.png")
    scan = scan_command(tmp_path / "mounts.toml", [f"front={tmp_path / 'depth.png'}"])
    assert not scan.seen.any()
    least = 100 * MIN_VALID_FRACTION
    assert f"camera front counts as blind: covered: 0.0 % valid pixels, limit {least:g} %" in capsys.readouterr().err
