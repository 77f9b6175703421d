"""`onboard mounts`: poses of a URDF's frames, against scipy, and one line for each mistake."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.commands.mounts import mounts_command, nearest_floor_m, view_notes
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW, load_mounts
from onboard.config.urdf import read_urdf
from onboard.perception.collision import blind_sectors_deg
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_from_rpy, quaternion_product, rotation_from_quaternion

#   joint     parent         child                 xyz            rpy
JOINTS = [
    ("mast",  "base_link",   "mast",               (0.1, 0.0, 0.9), (0.0, 0.0, 0.3)),
    ("front", "mast",        "front_link",         (0.05, 0.02, 0.0), (0.1, 0.2, -0.4)),
    ("lens",  "front_link",  "front_optical_frame", (0.0, 0.015, 0.0), (-np.pi / 2, 0.0, -np.pi / 2)),
    ("lost",  "elsewhere",   "island",             (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
]  # fmt: skip
LENS = "width = 80\nheight = 60\nfx = 40.0\nfy = 40.0\ncx = 39.5\ncy = 29.5\n"


def urdf(folder: Path, joints: list[tuple[str, str, str, tuple[float, ...], tuple[float, ...]]] = JOINTS) -> Path:
    path = folder / "robot.urdf"
    rows = [
        f'<joint name="{name}" type="fixed"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{" ".join(map(str, xyz))}" rpy="{" ".join(map(str, rpy))}"/></joint>'
        for name, parent, child, xyz, rpy in joints
    ]
    path.write_text(f'<robot name="r">{"".join(rows)}<transmission><joint name="wheel"/></transmission></robot>')
    return path


def test_poses_along_a_chain_are_those_of_scipy(tmp_path: Path) -> None:
    path = urdf(tmp_path)
    read = read_urdf(path)
    expected = np.eye(4)
    for _, _, frame, xyz, rpy in JOINTS[:3]:
        step = np.eye(4)
        step[:3, :3], step[:3, 3] = Rotation.from_euler("xyz", rpy).as_matrix(), xyz
        expected = expected @ step
        translation, rotation = read.pose("base_link", frame)
        assert translation == pytest.approx(expected[:3, 3], abs=1e-12)
        assert rotation_from_quaternion(rotation) == pytest.approx(expected[:3, :3], abs=1e-12)


def test_the_tables_load_and_body_and_optical_frame_of_a_camera_agree(tmp_path: Path) -> None:
    out = tmp_path / "mounts.toml"
    mounts_command(urdf(tmp_path), ["optical=front_optical_frame", "body=front_link"], "base_link", out)
    out.write_text(out.read_text().replace("translation_m", LENS + "translation_m"))
    mounts = load_mounts(out).depth
    optical, body = (mounts[name].base_from_camera[:3, :3] for name in ("optical", "body"))
    assert optical == pytest.approx(body, abs=1e-9)


def joint(parent: str, child: str, origin: str = "") -> str:
    return f'<joint name="j" type="fixed"><parent link="{parent}"/><child link="{child}"/>{origin}</joint>'


NO_NUMBERS = f"""<robot>{joint("a", "b", '<origin xyz="1 2"/>')}</robot>"""
NOT_FINITE = f"""<robot>{joint("a", "b", '<origin rpy="nan 0 0"/>')}</robot>"""
RING = f"<robot>{joint('a', 'b')}{joint('b', 'a')}{joint('c', 'd')}</robot>"
XACRO = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:include filename="a"/></robot>'
#   mistake            file        camera           base         the line has
MISTAKES = [
    ("no such frame",  None,       "a=front_linc",  "base_link", "did you mean front_link"),
    ("no such base",   None,       "a=front_link",  "base_lin",  "did you mean base_link"),
    ("not joined",     None,       "a=island",      "base_link", "no chain of joints leads"),
    ("no frame named", None,       "front_link",    "base_link", "expected NAME=FRAME"),
    ("no XML",         "nonsense", "a=b",           "base_link", "not valid XML"),
    ("no URDF",        "<sdf/>",   "a=b",           "base_link", "the root is <sdf>"),
    ("xacro",          XACRO,      "a=b",           "base_link", "holds xacro; expand it first"),
    ("two numbers",    NO_NUMBERS, "a=b",           "a",         "joint j: xyz is '1 2'"),
    ("not finite",     NOT_FINITE, "a=b",           "a",         "finite"),
    ("a ring",         RING,       "a=b",           "c",         "no chain of joints"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "camera", "base", "message"), [row[1:] for row in MISTAKES], ids=[r[0] for r in MISTAKES]
)
def test_mistakes(tmp_path: Path, file: str | None, camera: str, base: str, message: str) -> None:
    path = urdf(tmp_path)
    if file is not None:
        path.write_text(file)
    with pytest.raises(InputError, match=r"a=b|urdf|--camera") as raised:
        mounts_command(path, [camera], base, tmp_path / "out.toml")
    assert message in str(raised.value)
    assert not (tmp_path / "out.toml").exists()


def test_all_missing_frames_are_told_at_once_and_a_file_is_kept(tmp_path: Path) -> None:
    path, out = urdf(tmp_path), tmp_path / "mounts.toml"
    with pytest.raises(InputError, match=r"no frame x1.*\n.*no frame x2"):
        mounts_command(path, ["a=x1", "b=x2"], "base_link", out)
    out.write_text("mine")
    with pytest.raises(InputError, match="already exists; --force"):
        mounts_command(path, ["a=front_link"], "base_link", out)
    assert out.read_text() == "mine"
    mounts_command(path, ["a=front_link"], "base_link", out, force=True)
    assert "[cameras.a]" in out.read_text()


def test_the_plot_is_a_picture_with_the_footprint(tmp_path: Path) -> None:
    mounts_command(plot=tmp_path / "views.png")
    with Image.open(tmp_path / "views.png") as image:
        assert image.format == "PNG"


def test_the_nearest_floor_is_where_the_lowest_ray_meets_it() -> None:
    """A camera at 1 m that looks 45 deg down and sees 30 deg to each side: its steepest ray is 75 deg down."""
    depth = replace(load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"], width=101, height=101, cx=50.0, cy=50.0)
    turn = np.eye(4)
    turn[:3, :3] = rotation_from_quaternion(
        quaternion_product(quaternion_from_rpy(0.0, np.pi / 4, 0.0), BODY_FROM_OPTICAL_XYZW)
    )
    turn[2, 3] = 1.0
    focal = 50.0 / np.tan(np.pi / 6)
    mount = replace(depth, fx=focal, fy=focal, base_from_camera=turn)
    assert nearest_floor_m(mount) == pytest.approx(np.tan(np.radians(15.0)), abs=1e-6)


@pytest.mark.parametrize(
    ("blind", "expected"),
    [([], []), ([0, 179], [(178.0, 182.0)]), ([90], [(0.0, 2.0)]), (list(range(180)), [(-180.0, 180.0)])],
)
def test_blind_sectors(blind: list[int], expected: list[tuple[float, float]]) -> None:
    seen = np.ones(180, np.bool_)
    seen[blind] = False
    assert blind_sectors_deg(seen) == expected


def test_neither_or_both_is_refused(tmp_path: Path) -> None:
    for given in ({}, {"from_urdf": urdf(tmp_path), "plot": tmp_path / "views.png"}):
        with pytest.raises(InputError, match="one of --from-urdf and --plot"):
            mounts_command(**given)
    with pytest.raises(InputError, match="cannot be written"):
        mounts_command(plot=tmp_path / "none" / "views.png")


EXPANDED = '<robot name="r"><joint name="j" type="fixed"><parent link="base_link"/><child link="c"/></joint></robot>'


def with_xacro(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a program `xacro` in front of all others; return a URDF that needs it."""
    program = folder / "xacro"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    urdf = folder / "robot.urdf.xacro"
    urdf.write_text(XACRO)
    return urdf


def test_an_installed_xacro_expands_the_urdf(tmp_path, monkeypatch):
    (tmp_path / "expanded").write_text(EXPANDED)
    urdf = with_xacro(tmp_path, monkeypatch, f'test "$1" = "{tmp_path}/robot.urdf.xacro" && cat {tmp_path}/expanded')
    assert "c" in read_urdf(urdf).joints


def test_what_xacro_says_is_passed_on(tmp_path, monkeypatch):
    urdf = with_xacro(
        tmp_path, monkeypatch, "echo 'warning: old' >&2; echo \"error: name 'y' is not defined\" >&2; exit 2"
    )
    with pytest.raises(InputError, match="cannot expand it: error: name 'y' is not defined"):
        read_urdf(urdf)


#   roll, pitch, yaw of the body [deg]   words of the note
VIEWS = [
    ((0.0, 10.0, 0.0), []),
    ((0.0, -80.0, 0.0), ["looks 80 deg above the horizon"]),
    ((0.0, 85.0, 0.0), ["looks 85 deg below the horizon"]),
    ((90.0, 10.0, 30.0), ["is on its side"]),
    ((180.0, 0.0, 0.0), ["is upside down"]),
]


@pytest.mark.parametrize(("body_deg", "words"), VIEWS)
def test_a_view_that_looks_wrong_is_said(body_deg, words):
    body = quaternion_from_rpy(*map(math.radians, body_deg))
    notes = view_notes("front", quaternion_product(body, BODY_FROM_OPTICAL_XYZW))
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_optical_takes_each_frame_by_its_z_axis(tmp_path):
    (tmp_path / "robot.urdf").write_text(EXPANDED)
    command = ["mounts", "--from-urdf", str(tmp_path / "robot.urdf"), "--camera", "front=c", "--floor-m", "0.1"]
    plain, optical = (CliRunner().invoke(app, [*command, *more]).stdout for more in ([], ["--optical"]))
    assert "rotation_xyzw = [-0.5, 0.5, -0.5, 0.5]" in plain
    assert "rotation_xyzw = [0.0, 0.0, 0.0, 1.0]" in optical
    assert "looks 90 deg above the horizon" in optical
