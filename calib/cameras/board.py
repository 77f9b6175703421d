"""A printed ChArUco board: draws it, and finds its corners in the images of cameras (OpenCV, the extra `calib`)."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from onboard.commands.scan import PNG_ERRORS, image_fault
from onboard.config.mounts import Mount
from onboard.drivers.images.raw import MAX_SIDE_PX
from onboard.values.errors import InputError, MissingExtraError, naming

Floats = npt.NDArray[np.float64]

DICTIONARY = "4X4_100"
MOST_MARKERS = 100
MARKER = 0.8
"""Side of a marker over the side of a square."""
SQUARES = (3, 20)
PX_PER_M = 300 / 0.0254
"""Of the drawn board, about: 300 dots an inch."""
MARGIN_M = 0.005
FINER, FINER_UP_TO_PX = 2, 1600
"""Images up to this width are enlarged first: small markers are found, and corners to half the error."""
LEAST_CORNERS = 8
LEAST_MARKERS, LEAST_FITTING = 4, 0.7
"""Least number and share of the markers that lie where the board has them."""
FITTING_SQUARES = 0.3
"""A marker lies where the board has it within this part of a square."""
FLIP_RATIO, FLIP_DEG = 2.0, 2.0
"""The tilt of a board may be reversed, if that fits less than this many times worse and differs by more than this."""


@dataclass(frozen=True, slots=True)
class Board:
    """columns x rows squares of `square_m`. Its frame: from the middle x to the viewer, y to the right edge, z up."""

    columns: int
    rows: int
    square_m: float

    @property
    def options(self) -> str:
        """Return the options that state this board."""
        return f"--squares {self.columns}x{self.rows} --square-m {self.square_m:g}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The board in one image.

    points_m:          (n, 3) corners in the board's frame
    pixels:            (n, 2) the same in the image
    camera_from_board: (4, 4) a first estimate
    """

    camera: str
    view: int
    points_m: Floats
    pixels: Floats
    camera_from_board: Floats


def checked_board(squares: str, square_m: float) -> Board:
    """Return the board of "COLUMNSxROWS". Raises InputError."""
    columns, _, rows = squares.lower().partition("x")
    low, high = SQUARES
    if not (columns.isdecimal() and rows.isdecimal() and all(low <= int(one) <= high for one in (columns, rows))):
        raise InputError(f"--squares {squares}: must be COLUMNSxROWS, {low} to {high} each, such as 7x5")
    board = Board(int(columns), int(rows), square_m)
    if board.columns * board.rows // 2 > MOST_MARKERS:
        raise InputError(f"--squares {squares}: needs {board.columns * board.rows // 2} markers, limit {MOST_MARKERS}")
    return board


def draw_board(path: Path, board: Board) -> tuple[float, float]:
    """Write the board as PNG or PDF that prints at its true size; return its width and height with the margin [m].

    Raises InputError, MissingExtraError.
    """
    per_square = round(board.square_m * PX_PER_M)
    margin = round(MARGIN_M / board.square_m * per_square)
    size = board.columns * per_square + 2 * margin, board.rows * per_square + 2 * margin
    if max(size) > 4 * MAX_SIDE_PX:
        raise InputError(f"--square-m {board.square_m:g}: a board of {size[0]}x{size[1]} dots, limit {4 * MAX_SIDE_PX}")
    _, layout = _charuco(board)
    image = Image.fromarray(layout.generateImage(size, marginSize=margin))
    text = f"onboard-calib board {board.options}   Print at 100 %. Measure the squares."
    ImageDraw.Draw(image).text(
        (margin, size[1] - 0.9 * margin), text, fill=0, font=ImageFont.load_default(0.6 * margin)
    )
    dots_an_inch = per_square / board.square_m * 0.0254
    drawn = io.BytesIO()
    if path.suffix.lower() == ".pdf":
        image.save(drawn, "PDF", resolution=dots_an_inch)
    else:
        image.save(drawn, "PNG", dpi=(dots_an_inch, dots_an_inch))
    with naming(path, "written"):
        path.write_bytes(drawn.getvalue())
    return size[0] * board.square_m / per_square, size[1] * board.square_m / per_square


def read_grey(path: Path, mount: Mount) -> npt.NDArray[np.uint8]:
    """Return the (height, width) grey image of a camera. Raises InputError that names file and fault."""
    try:
        with Image.open(io.BytesIO(path.read_bytes()), formats=["PNG", "JPEG"]) as image:
            if image.mode.startswith("I"):
                raise InputError(f"{path}: is a depth image (16 bit); use the grey or colour image")
            if image.size != (mount.width, mount.height):
                wanted = f"camera {mount.name} has {mount.width}x{mount.height} in the mounts"
                raise InputError(f"{path}: is {image.width}x{image.height}, {wanted}")
            return np.asarray(image.convert("L"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except PNG_ERRORS as error:
        raise InputError(f"{path}: image cannot be decoded: {image_fault(error)}") from error


def find_board(image: npt.NDArray[np.uint8], board: Board, mount: Mount, view: int, path: Path) -> Sighting:
    """Return where a camera sees the board, also one of the pattern before OpenCV 4.6 (even rows begin with white).

    Raises InputError if it does not see it, if it is another board, or its tilt is open; MissingExtraError without
    OpenCV.
    """
    cv2, layout = _charuco(board)
    finer = FINER if max(image.shape) <= FINER_UP_TO_PX else 1
    large = cv2.resize(image, None, fx=finer, fy=finer, interpolation=cv2.INTER_CUBIC)
    corners, ids, markers, marker_ids = cv2.aruco.CharucoDetector(layout).detectBoard(large)
    if marker_ids is None or len(marker_ids) == 0:
        raise InputError(f"{path}: camera {mount.name} sees no marker of the board")
    try:
        _check_layout(cv2, layout, board, markers, marker_ids.ravel(), path)
    except InputError as error:
        layout.setLegacyPattern(True)
        try:
            _check_layout(cv2, layout, board, markers, marker_ids.ravel(), path)
        except InputError:
            raise error from None
        corners, ids, _, _ = cv2.aruco.CharucoDetector(layout).detectBoard(large)
    count = 0 if ids is None else len(ids)
    points = np.asarray(layout.getChessboardCorners(), np.float64)
    if count < LEAST_CORNERS or np.linalg.matrix_rank(np.diff(points[ids.ravel()], axis=0)) < 2:
        raise InputError(
            f"{path}: camera {mount.name} sees {count} corners of the board, at least {LEAST_CORNERS} in two rows "
            "needed"
        )
    points, pixels = points[ids.ravel()], (np.asarray(corners, np.float64).reshape(-1, 2) + 0.5) / finer - 0.5
    pose, other, ratio = _poses(cv2, points, pixels, mount)
    apart_deg = math.degrees(math.acos(max(-1.0, min(1.0, float((np.trace(pose[:3, :3].T @ other[:3, :3]) - 1) / 2)))))
    if ratio < FLIP_RATIO and apart_deg > FLIP_DEG:
        raise InputError(
            f"{path}: camera {mount.name} cannot determine the board's tilt; hold it closer, tilted by 20 to 40 deg"
        )
    middle = _middle(board)
    in_board = (points - middle[:3, 3]) @ middle[:3, :3]
    return Sighting(mount.name, view, in_board, pixels, pose @ middle)


def _middle(board: Board) -> Floats:
    """Return the (4, 4) transform of the board's frame to OpenCV's: at the upper left, x right, y down, z away."""
    transform = np.eye(4)
    transform[:3, :3] = [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    transform[:2, 3] = 0.5 * board.square_m * board.columns, 0.5 * board.square_m * board.rows
    return transform


def _check_layout(cv2: Any, layout: Any, board: Board, markers: Any, ids: npt.NDArray[np.int32], path: Path) -> None:
    """Raise InputError if the markers that are seen do not lie as on the board."""
    place = dict(zip(layout.getIds().ravel().tolist(), layout.getObjPoints(), strict=True))
    known = [number for number, one in enumerate(ids.tolist()) if one in place]
    on_board = np.array([np.mean(place[int(ids[number])], axis=0)[:2] for number in known]).reshape(-1, 2)
    seen = np.array([np.mean(markers[number].reshape(4, 2), axis=0) for number in known]).reshape(-1, 2)
    fitting = 0
    if len(known) == len(ids) < LEAST_MARKERS:
        raise InputError(
            f"{path}: {len(ids)} markers of the board are seen, at least {LEAST_MARKERS} needed; hold it closer"
        )
    if len(known) >= LEAST_MARKERS:
        _, inside = cv2.findHomography(seen, on_board, cv2.RANSAC, FITTING_SQUARES * board.square_m)
        fitting = 0 if inside is None else int(inside.sum())
    if fitting < max(LEAST_MARKERS, LEAST_FITTING * len(ids)):
        raise InputError(
            f"{path}: {fitting} of {len(ids)} markers are where a board of {board.columns}x{board.rows} squares has "
            f"them, at least {LEAST_FITTING:.0%} needed; is --squares right?"
        )


def _poses(cv2: Any, points: Floats, pixels: Floats, mount: Mount) -> tuple[Floats, Floats, float]:
    """Return both (4, 4) poses that a plane may have, the better first, and how many times worse the other fits."""
    matrix = np.array([[mount.fx, 0.0, mount.cx], [0.0, mount.fy, mount.cy], [0.0, 0.0, 1.0]])
    _, turns, shifts, _ = cv2.solvePnPGeneric(points, pixels, matrix, None, flags=cv2.SOLVEPNP_IPPE)
    poses = []
    for turn, shift in zip(turns, shifts, strict=True):
        turn, shift = cv2.solvePnPRefineLM(points, pixels, matrix, None, turn, shift)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        seen = points @ pose[:3, :3].T + pose[:3, 3]
        off = seen[:, :2] / seen[:, 2:] * [mount.fx, mount.fy] + [mount.cx, mount.cy] - pixels
        poses.append((float(np.sqrt(np.mean(np.square(off)))), pose))
    poses.sort(key=lambda one: one[0])
    return poses[0][1], poses[-1][1], poses[-1][0] / max(poses[0][0], 1e-9) if len(poses) > 1 else math.inf


def _charuco(board: Board) -> tuple[Any, Any]:
    """Return OpenCV and its board. Raises MissingExtraError."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("OpenCV", "calib") from error
    dictionary = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, f"DICT_{DICTIONARY}"))
    size = board.columns, board.rows
    return cv2, cv2.aruco.CharucoBoard(size, board.square_m, MARKER * board.square_m, dictionary)
