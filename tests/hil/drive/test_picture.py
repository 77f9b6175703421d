"""The picture of a drive: written, cropped to the drive, and showing what it should where it should."""

from __future__ import annotations

import numpy as np
from PIL import Image

from hil.drive.picture import (
    CONTACT,
    DRIVEN,
    FOOTER_PX,
    GOAL,
    INK,
    LOW,
    MOMENTS,
    SHORTEST,
    START,
    TITLE_PX,
    WALL,
    Drawing,
    ScanSnapshot,
    save_picture,
)
from hil.physics.free_space import Episode
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box

WORLD = with_box(room(20.0, 10.0), (9.0, 9.5), (6.0, 6.5), (0.0, 0.5))
EPISODE = Episode(Pose(5.0, 5.0, 0.0), (10.0, 5.0), 5.0)
PATH = np.array([[5.0, 5.0], [7.5, 6.0], [9.0, 5.0]])
SHORT = np.array([[5.0, 5.0], [10.0, 5.0]])


def has(image: np.ndarray, color: tuple[int, int, int]) -> bool:
    return bool((image == color).all(axis=2).any())


def picture(tmp_path, **changes) -> np.ndarray:
    drawing = Drawing(EPISODE, PATH, Pose(9.0, 5.0, 1.0), **{"shortest": SHORT, **changes})
    save_picture(WORLD, drawing, tmp_path / "drive.png")
    with Image.open(tmp_path / "drive.png") as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def test_everything_is_shown(tmp_path):
    image = picture(tmp_path, contacts=[(7.5, 6.0)])[:-FOOTER_PX]
    for color in (DRIVEN, SHORTEST, START, GOAL, CONTACT, LOW):
        assert has(image, color)
    assert not has(image, WALL)


def test_the_goal_is_where_it_belongs(tmp_path):
    """At 10 m of a crop from 2.5 to 12.5 m, at 5 m of one from 2.5 to 8.5 m, the top being the largest y."""
    image = picture(tmp_path)[:-FOOTER_PX]
    rows, columns = np.nonzero((image == GOAL).all(axis=2))
    assert abs(columns.mean() / image.shape[1] - 0.75) < 0.01
    assert abs(rows.mean() / image.shape[0] - 3.5 / 6.0) < 0.01


def test_a_title_and_the_scans_are_shown(tmp_path):
    scan = ScanSnapshot(3.0, Pose(7.5, 6.0, 0.0), np.array([[9.25, 6.0], [7.5, 7.0]]))
    plain, image = picture(tmp_path), picture(tmp_path, title=("policy on map", "5 m"), moments=[scan])
    assert image.shape[0] == plain.shape[0] + TITLE_PX
    assert has(image[:TITLE_PX], INK)
    assert has(image[TITLE_PX:-FOOTER_PX], MOMENTS[0])
    assert not has(image, MOMENTS[1])
