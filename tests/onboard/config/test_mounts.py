"""`onboard/config/robots/default/mounts.toml`: the default robot's mounts, and one line for each error in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import MountTable, load_mounts, unusual_views
from onboard.values.errors import ConfigError
from onboard.values.geometry import rotation_from_quaternion

CAMERA = {
    "serial": '""',
    "width": "80",
    "height": "60",
    "fx": "40.0",
    "fy": "41.0",
    "cx": "39.5",
    "cy": "29.5",
    "depth_scale_m": "0.001",
    "translation_m": "[0.1, 0.2, 0.3]",
    "rotation_xyzw": "[-0.5, 0.5, -0.5, 0.5]",
}


def write(folder: Path, text: str) -> Path:
    path = folder / "mounts.toml"
    path.write_text(text, encoding="utf-8")
    return path


def table(name: str = "front", **changes: str | None) -> str:
    rows = {key: value for key, value in {**CAMERA, **changes}.items() if value is not None}
    return f"[cameras.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())


def test_a_mount_holds_what_the_file_says(tmp_path: Path) -> None:
    mount = load_mounts(write(tmp_path, table(serial='"0123"'))).depth["front"]
    assert (mount.name, mount.serial, mount.width, mount.height) == ("front", "0123", 80, 60)
    assert (mount.fx, mount.fy, mount.cx, mount.cy, mount.depth_scale_m) == (40.0, 41.0, 39.5, 29.5, 0.001)
    # A level camera that looks ahead: optical z is base x, optical x is base -y, optical y is base -z.
    expected = np.array([[0, 0, 1, 0.1], [-1, 0, 0, 0.2], [0, -1, 0, 0.3], [0, 0, 0, 1]])
    assert np.array_equal(mount.base_from_camera, expected)


def test_the_least_distance_is_what_the_file_states(tmp_path: Path) -> None:
    assert load_mounts(write(tmp_path, table(least_m="0.17"))).depth["front"].least_m == 0.17
    assert load_mounts(write(tmp_path, table())).depth["front"].least_m is None
    with pytest.raises(ConfigError, match=r"cameras\.front\.least_m"):
        load_mounts(write(tmp_path, table(least_m="-0.1")))


#   camera of the default robot   how a person would state its rotation
SAME_ROTATIONS = [
    ("front_left", {"look_deg": "[70.0, 10.0, 90.0]"}),
    ("front", {"look_deg": "[0.0, 10.0, 90.0]"}),
    ("front_right", {"look_deg": "[-70.0, 10.0, 90.0]"}),
    ("rear", {"look_deg": "[180.0, 10.0, 0.0]"}),
    ("rear", {"rotation_rpy_deg": "[0.0, 10.0, 180.0]"}),
    ("front_left", {"rotation_rpy_deg": "[90.0, 10.0, 70.0]"}),
]


@pytest.mark.parametrize(("camera", "stated"), SAME_ROTATIONS)
def test_a_rotation_may_be_stated_by_angles(tmp_path: Path, camera: str, stated: dict[str, str]) -> None:
    expected = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth[camera].base_from_camera[:3, :3]
    mount = load_mounts(write(tmp_path, table(rotation_xyzw=None, **stated))).depth["front"]
    assert mount.base_from_camera[:3, :3] == pytest.approx(expected, abs=1e-9)


@given(st.tuples(*[st.floats(-180.0, 180.0)] * 3))
def test_roll_pitch_and_yaw_are_those_of_scipy(angles: tuple[float, float, float]) -> None:
    row = MountTable(width=1, height=1, fx=1, fy=1, cx=0, cy=0, translation_m=(0, 0, 0), rotation_rpy_deg=angles)
    body = Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
    optical = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])
    assert rotation_from_quaternion(row.quaternion()) == pytest.approx(body @ optical, abs=1e-12)


def test_a_camera_that_looks_into_the_floor_or_the_sky_is_named(tmp_path: Path) -> None:
    #   look_deg                 named
    rows = [
        ("[0.0, 60.0, 0.0]", ""),
        ("[90.0, -30.0, 90.0]", ""),
        ("[0.0, 70.0, 0.0]", "70 deg below"),
        ("[0.0, -90.0, 0.0]", "90 deg above"),
    ]
    for look, named in rows:
        lines = unusual_views(load_mounts(write(tmp_path, table(rotation_xyzw=None, look_deg=look))))
        assert [named in line for line in lines] == ([True] if named else []), look
    assert unusual_views(load_mounts(DEFAULT_ROBOT / "mounts.toml")) == []


def test_a_slightly_rounded_quaternion_is_normalised(tmp_path: Path) -> None:
    mount = load_mounts(write(tmp_path, table(rotation_xyzw="[-0.5002, 0.5002, -0.5002, 0.5002]"))).depth["front"]
    assert np.linalg.norm(mount.rotation_xyzw) == pytest.approx(1.0, abs=1e-15)
    assert mount.base_from_camera[:3, :3] == pytest.approx(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]]), abs=1e-15)


WRONG = [
    # change, words in the message
    ({"rotation_xyzw": "[0.0, 0.0, 0.0, 1.11]"}, ["cameras.front.rotation_xyzw", "norm 1.11", "within 0.1 of 1"]),
    ({"rotation_xyzw": "[0.0, 0.0, 0.0, 0.0]"}, ["cameras.front.rotation_xyzw", "norm 0"]),
    ({"rotation_xyzw": "[0.0, 0.0, nan, 1.0]"}, ["cameras.front.rotation_xyzw", "finite"]),
    ({"rotation_xyzw": "[0.0, 0.0, 1.0]"}, ["cameras.front.rotation_xyzw"]),
    ({"rotation_xyzw": None}, ["cameras.front", "expected one of", "look_deg", "found none"]),
    ({"look_deg": "[0.0, 0.0, 0.0]"}, ["cameras.front", "found rotation_xyzw and look_deg"]),
    ({"rotation_xyzw": None, "look_deg": "[0.0, inf, 0.0]"}, ["cameras.front.look_deg", "finite"]),
    ({"rotation_xyzw": None, "rotation_rpy_deg": "[0.0, 0.0]"}, ["cameras.front.rotation_rpy_deg"]),
    ({"translation_m": "[0.0, inf, 0.0]"}, ["cameras.front.translation_m", "finite"]),
    ({"width": "0"}, ["cameras.front.width", "greater than 0"]),
    ({"height": "5000"}, ["cameras.front.height", "4096"]),
    ({"width": "80.5"}, ["cameras.front.width", "80.5"]),
    ({"fx": "-1.0"}, ["cameras.front.fx", "greater than 0"]),
    ({"fy": "0.0"}, ["cameras.front.fy", "greater than 0"]),
    ({"cx": "nan"}, ["cameras.front.cx", "finite"]),
    ({"depth_scale_m": "0.0"}, ["cameras.front.depth_scale_m", "greater than 0"]),
    ({"fx": None}, ["cameras.front", "fx: Field required next to fy, cx, cy"]),
    ({"translation_m": None}, ["cameras.front", "translation_m: Field required", 'or pose = "tf"']),
    ({"width": None}, ["cameras.front", "width: Field required next to height"]),
    ({"pose": '"tf"'}, ["cameras.front", 'pose = "tf" replaces rotation_xyzw and translation_m']),
    ({"pose": '"urdf"'}, ["cameras.front.pose", "'tf'"]),
    ({"focal": "3"}, ["unknown key cameras.front.focal"]),
]


@pytest.mark.parametrize(("changes", "names"), WRONG)
def test_a_wrong_field_is_named_in_one_line(tmp_path: Path, changes: dict[str, str | None], names: list[str]) -> None:
    path = write(tmp_path, table(**changes))
    with pytest.raises(ConfigError) as caught:
        load_mounts(path)
    line = str(caught.value)
    assert "\n" not in line
    for name in [str(path), *names]:
        assert name in line


@pytest.mark.parametrize("text", ["", "[cameras]\n", "[cameras.front\n", "cameras = 3\n", "\x00"])
def test_a_file_without_cameras_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=str(path)):
        load_mounts(path)


#   camera, yaw [deg], portrait: rows of the image run sideways
DEFAULT = [("front_left", 70, True), ("front", 0, True), ("front_right", -70, True), ("rear", 180, False)]


@pytest.mark.parametrize(("name", "yaw_deg", "portrait"), DEFAULT)
def test_the_default_cameras_sit_as_documented(name: str, yaw_deg: float, portrait: bool) -> None:
    mount = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth[name]
    yaw, pitch = np.radians(yaw_deg), np.radians(10.0)
    away = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    right, down, forward = mount.base_from_camera[:3, :3].T
    assert mount.base_from_camera[:3, 3] == pytest.approx(0.2 * away + [0, 0, 0.3], abs=1e-8)
    assert forward == pytest.approx(np.cos(pitch) * away - [0, 0, np.sin(pitch)], abs=1e-9)
    sideways, upright = (down, right) if portrait else (right, down)
    assert sideways[2] == pytest.approx(0.0, abs=1e-9)
    assert abs(upright[2]) == pytest.approx(np.cos(pitch), abs=1e-9)
