"""A printed board in rendered images: the true poses are found, and what cannot be measured is refused by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from calib.__main__ import app
from calib.cameras.board import Board, draw_board, find_board
from onboard.config.mounts import Mount, load_mounts
from onboard.values.errors import InputError, MissingExtraError

BOARD = Board(7, 5, 0.04)
STATED = ("--squares", "7x5", "--square-m", "0.04")
CAMERA = """[{kind}.{name}]
width = {width}
height = {height}
fx = {f}
fy = {f}
cx = {cx}
cy = {cy}
translation_m = [{x}, {y}, {z}]
rotation_rpy_deg = [{roll}, {pitch}, {yaw}]
"""
#            kind             name     size          f      x, y, z [m]          roll, pitch, yaw [deg]
TRUE = [
    ("cameras", "front", (640, 480), 384.0, (0.20, 0.00, 0.30), (0.0, 10.0, 0.0)),
    ("cameras", "left", (640, 480), 384.0, (0.07, 0.19, 0.32), (90.0, 8.0, 35.0)),
    ("cameras", "rear", (640, 480), 384.0, (-0.2, 0.0, 0.30), (0.0, 10.0, 180.0)),
    ("color_cameras", "color", (1280, 720), 640.0, (0.15, 0.02, 0.90), (0.0, 20.0, 5.0)),
]
LEFT_OFF = {"left": ((0.03, -0.02, 0.03), (3.0, -3.0, 4.0))}
COLOR_OFF = {"color": ((-0.03, 0.02, 0.03), (-2.0, 2.0, 3.0))}
#        x, y, z of the board [m], roll, pitch, yaw [deg]: seen by front and left
NEAR = [(0.95, 0.38, 0.30, 5.0, 20.0, 225.0), (1.0, 0.40, 0.20, -10.0, -15.0, 180.0)]
AHEAD = (1.0, 0.05, 0.45, 0.0, 25.0, 180.0)


def mounts_file(file: Path, off: dict[str, tuple[Sequence[float], Sequence[float]]]) -> Path:
    text = ""
    for kind, name, (width, height), f, place, turned in TRUE:
        away, by = off.get(name, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
        x, y, z = np.add(place, away)
        roll, pitch, yaw = np.add(turned, by)
        text += CAMERA.format(
            kind=kind, name=name, width=width, height=height, f=f, cx=width / 2 - 3.0, cy=height / 2 + 2.0, x=x, y=y,
            z=z, roll=roll, pitch=pitch, yaw=yaw,
        )  # fmt: skip
    file.write_text(text)
    return file


def pose(place: Sequence[float]) -> np.ndarray:
    base_from_board = np.eye(4)
    base_from_board[:3, :3] = Rotation.from_euler("xyz", place[3:], degrees=True).as_matrix()
    base_from_board[:3, 3] = place[:3]
    return base_from_board


def rendered(mount: Mount, place: Sequence[float], drawn: Image.Image, seed: int) -> Image.Image:
    """Return the image of a camera: the drawn board at its place before a grey pattern, blurred and noisy."""
    dots_a_m = drawn.info["dpi"][0] / 0.0254
    width, height = drawn.size
    right, up = np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0])
    of_dots = np.column_stack([right / dots_a_m, -up / dots_a_m, np.array([0.0, 0.0, 0.0, 1.0])])
    of_dots[:, 2] += -0.5 * (width - 1) * of_dots[:, 0] - 0.5 * (height - 1) * of_dots[:, 1]
    matrix = np.array([[mount.fx, 0.0, mount.cx], [0.0, mount.fy, mount.cy], [0.0, 0.0, 1.0]])
    fine = 3  # the scene is drawn finer, then averaged
    finer = np.array([[fine, 0.0, (fine - 1) / 2], [0.0, fine, (fine - 1) / 2], [0.0, 0.0, 1.0]])
    in_camera = (np.linalg.inv(mount.base_from_camera) @ pose(place) @ of_dots)[:3]
    size = fine * mount.width, fine * mount.height
    rng = np.random.default_rng(seed)
    scene = cv2.resize(rng.uniform(40, 200, (12, 16)).astype(np.float32), size, interpolation=cv2.INTER_CUBIC)
    if in_camera[2, 2] > 0:
        grey = np.asarray(drawn.convert("L"), np.float32) * 0.6 + 40.0
        warped = cv2.warpPerspective(grey, finer @ matrix @ in_camera, size, flags=cv2.INTER_AREA, borderValue=-1.0)
        scene = np.where(warped >= 0.0, warped, scene)
    image = cv2.GaussianBlur(cv2.resize(scene, (mount.width, mount.height), interpolation=cv2.INTER_AREA), (0, 0), 0.6)
    return Image.fromarray(np.clip(image + rng.normal(0.0, 4.0, image.shape), 0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Image.Image:
    file = tmp_path_factory.mktemp("board") / "board.png"
    draw_board(file, BOARD)
    return Image.open(file)


def photos(folder: Path, drawn: Image.Image, names: Sequence[str], places: Sequence[Sequence[float]]) -> list[str]:
    """Return --camera arguments of images of the board at some places, seen by the true cameras."""
    true = load_mounts(mounts_file(folder / "true.toml", {}))
    cameras, arguments = {**true.depth, **true.color}, []
    for view, place in enumerate(places):
        for number, name in enumerate(names):
            file = folder / f"{name}_{view}.png"
            rendered(cameras[name], place, drawn, 10 * view + number).save(file)
            arguments += ["--camera", f"{name}={file}"]
    return arguments


def asked(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["board", *map(str, arguments)])
    if isinstance(done.exception, (InputError, MissingExtraError)):
        assert "\n" not in str(done.exception)
        return 2, str(done.exception)
    return done.exit_code, done.output


def away(found: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return distance [m] and angle [deg] between two poses."""
    turned = Rotation.from_matrix(found[:3, :3] @ true[:3, :3].T).magnitude()
    return float(np.linalg.norm(found[:3, 3] - true[:3, 3])), float(np.degrees(turned))


def test_two_cameras_that_see_the_board_at_once(tmp_path: Path, drawn: Image.Image) -> None:
    guess = mounts_file(tmp_path / "mounts.toml", LEFT_OFF)
    before = guess.read_text()
    seen = photos(tmp_path, drawn, ["front", "left"], NEAR)
    code, text = asked(*STATED, "--mounts", guess, *seen, "-o", guess, "--json", tmp_path / "found.json")
    assert code == 0, text
    assert "left is 0.2" in text
    true, found = load_mounts(tmp_path / "true.toml"), load_mounts(guess)
    away_m, away_deg = away(found.depth["left"].base_from_camera, true.depth["left"].base_from_camera)
    assert (away_m < 0.003, away_deg < 0.2) == (True, True), (away_m, away_deg)
    assert found.depth["left"].sd_m is not None
    assert away_m < 4.0 * np.linalg.norm(found.depth["left"].sd_m)
    assert found.depth["front"].base_from_camera == pytest.approx(true.depth["front"].base_from_camera)
    assert [file.read_text() for file in tmp_path.glob("mounts.*.toml")] == [before]  # the old file stays
    result = json.loads((tmp_path / "found.json").read_text())
    assert (result["accepted"], result["fixed"], list(result["cameras"])) == (True, "front", ["left"])
    between = np.linalg.inv(true.depth["front"].base_from_camera) @ true.depth["left"].base_from_camera
    relative = result["cameras"]["left"]["fixed_from_camera"]
    assert relative["translation_m"] == pytest.approx(between[:3, 3], abs=0.003)


def test_the_colour_camera_is_placed_and_the_depth_cameras_stay(tmp_path: Path, drawn: Image.Image) -> None:
    guess = mounts_file(tmp_path / "mounts.toml", COLOR_OFF)
    seen = photos(tmp_path, drawn, ["front", "color"], [AHEAD])
    code, text = asked(*STATED, "--mounts", guess, *seen, "-o", tmp_path / "new.toml")
    assert code == 0, text
    true, found = load_mounts(tmp_path / "true.toml"), load_mounts(tmp_path / "new.toml")
    away_m, away_deg = away(found.color["color"].base_from_camera, true.color["color"].base_from_camera)
    assert (away_m < 0.01, away_deg < 0.4) == (True, True), (away_m, away_deg)
    assert found.depth.keys() == true.depth.keys()


def test_one_camera_and_a_measured_place(tmp_path: Path, drawn: Image.Image) -> None:
    guess = mounts_file(tmp_path / "mounts.toml", LEFT_OFF)
    seen = photos(tmp_path, drawn, ["left"], NEAR[:1])
    place = ",".join(map(str, NEAR[0]))
    code, text = asked(*STATED, "--mounts", guess, *seen, "--at", place, "-o", tmp_path / "new.toml")
    assert code == 0, text
    true, found = load_mounts(tmp_path / "true.toml"), load_mounts(tmp_path / "new.toml").depth["left"]
    away_m, away_deg = away(found.base_from_camera, true.depth["left"].base_from_camera)
    assert (away_m < 0.005, away_deg < 0.3) == (True, True), (away_m, away_deg)
    assert found.sd_deg is not None
    assert min(found.sd_deg) > 0.4  # the tape's error is in it
    elsewhere = ",".join(map(str, np.add(NEAR[0], (0.3, 0, 0, 0, 0, 0))))
    code, text = asked(*STATED, "--mounts", guess, *seen, "--at", elsewhere)
    assert (code, "from the guess" in text) == (2, True), text


def test_what_cannot_be_measured_is_refused_by_name(tmp_path: Path, drawn: Image.Image) -> None:
    guess = mounts_file(tmp_path / "mounts.toml", LEFT_OFF)
    both = photos(tmp_path, drawn, ["front", "left", "rear"], NEAR[:1])
    front, left, rear = both[:2], both[2:4], both[4:]
    Image.new("I;16", (640, 480), 1500).save(tmp_path / "depth.png")
    Image.new("L", (320, 240), 150).save(tmp_path / "small.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "far").mkdir()
    distant = photos(tmp_path / "far", drawn, ["color"], [(2.0, 0.15, 0.35, 0.0, -10.0, 185.0)])
    cases = [
        ((*front, *rear), "camera rear sees no marker"),
        (front, "camera front: one camera alone needs --at"),
        ((*front, "--camera", f"left={tmp_path / 'depth.png'}"), "is a depth image"),
        ((*front, "--camera", f"left={tmp_path / 'small.png'}"), "is 320x240, camera left has 640x480"),
        ((*front, "--camera", f"left={tmp_path / 'broken.png'}"), "cannot be decoded"),
        ((*front, "--camera", f"left={tmp_path / 'none.png'}"), "none.png: cannot be read"),
        ((*front, "--camera", "back=a.png"), "camera back is not in"),
        ((*front, *left, "--fixed", "rear"), "--fixed rear: is not one of the --camera names"),
        ((*front, *left, "--at", "1,2"), "must be 6 finite numbers"),
        ((*front, *left, "--limit-m", "0.001"), "from the guess, limits 0.001 m"),
        ((*distant, "--at", "2,0,0,0,0,0"), "hold it closer"),
        ((), "needs --mounts and --camera, or --draw"),
    ]
    for arguments, result in cases:
        code, text = asked(*STATED, "--mounts", guess, *arguments, "-o", tmp_path / "new.toml")
        assert (code, result in text) == (2, True), (result, text)
    for squares in ("6x5", "5x7", "8x6", "4x4"):
        code, text = asked("--squares", squares, "--square-m", "0.04", "--mounts", guess, *front, *left)
        assert (code, "is --squares right?" in text) == (2, True), (squares, text)
    for squares, result in (("7", "must be COLUMNSxROWS"), ("7x2", "3 to 20"), ("20x20", "limit 100")):
        code, text = asked("--squares", squares, "--square-m", "0.04", "--draw", tmp_path / "b.png")
        assert (code, result in text) == (2, True), text
    assert asked(*STATED, "--draw", tmp_path / "board.jpg")[1].endswith("must end in .pdf or .png")
    assert not (tmp_path / "new.toml").exists()


def test_a_board_that_faces_the_camera_is_never_taken_for_one_tilted_the_other_way(
    tmp_path: Path, drawn: Image.Image
) -> None:
    true = load_mounts(mounts_file(tmp_path / "true.toml", {})).color["color"]
    answers = []
    for number, pitch in enumerate(range(-16, 5, 2)):
        place = (1.6, 0.15, 0.35, 0.0, float(pitch), 185.0)
        image = np.asarray(rendered(true, place, drawn, number))
        try:
            seen = find_board(image, BOARD, true, 0, tmp_path / "image.png")
        except InputError as error:
            answers.append(str(error))
            continue
        _, away_deg = away(seen.camera_from_board, np.linalg.inv(true.base_from_camera) @ pose(place))
        assert away_deg < 6.0, (pitch, away_deg)  # the other way is 20 deg off and more
    assert any("cannot determine the board's tilt" in result for result in answers), answers
    assert len(answers) < 8


def test_a_camera_that_shares_no_view_is_named(tmp_path: Path, drawn: Image.Image) -> None:
    guess = mounts_file(tmp_path / "mounts.toml", {})
    seen = photos(tmp_path, drawn, ["front", "rear"], [AHEAD, (-1.0, 0.0, 0.4, 0.0, 20.0, 0.0)])
    code, text = asked(*STATED, "--mounts", guess, *seen, "--json", tmp_path / "found.json")
    assert (code, "camera rear: no view of the board in common with front" in text) == (2, True), text
    assert json.loads((tmp_path / "found.json").read_text())["accepted"] is False


def test_a_board_is_drawn_at_its_true_size(tmp_path: Path) -> None:
    code, text = asked(*STATED, "--draw", tmp_path / "board.pdf")
    assert (code, "290 x 210 mm" in text) == (0, True)  # a sheet of A4
    assert (tmp_path / "board.pdf").read_bytes().startswith(b"%PDF")
    draw_board(tmp_path / "board.png", BOARD)
    image = Image.open(tmp_path / "board.png")
    row = np.asarray(image.convert("L"))[image.height // 2] > 128
    assert np.diff(row.astype(int)).any()
    assert image.width / image.info["dpi"][0] * 25.4 == pytest.approx(290.0, abs=0.2)


def test_a_board_of_before_opencv_4_6_gives_the_same_poses(tmp_path: Path) -> None:
    """With an even number of rows it begins with a white square; other boards are the same."""
    board, per_square = Board(8, 6, 0.035), 400
    dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_100)
    old = cv2.aruco.CharucoBoard((8, 6), board.square_m, 0.8 * board.square_m, dictionary)
    old.setLegacyPattern(True)
    drawn = Image.fromarray(old.generateImage((8 * per_square + 100, 6 * per_square + 100), marginSize=50))
    drawn.info["dpi"] = (per_square / board.square_m * 0.0254,) * 2
    mounts = load_mounts(mounts_file(tmp_path / "true.toml", {})).depth
    cameras = photos(tmp_path, drawn, ["front", "left"], NEAR)
    wrong = mounts_file(tmp_path / "mounts.toml", LEFT_OFF)
    out = tmp_path / "new.toml"
    arguments = ["--mounts", wrong, *cameras, "-o", out]
    code, text = asked("--squares", "8x6", "--square-m", "0.035", *arguments)
    assert code == 0, text
    off_m, off_deg = away(load_mounts(out).depth["left"].base_from_camera, mounts["left"].base_from_camera)
    assert off_m < 0.004
    assert off_deg < 0.3
    code, text = asked("--squares", "6x8", "--square-m", "0.035", *arguments)
    assert (code, "is --squares right?" in text) == (2, True), text
