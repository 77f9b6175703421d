"""The picture of an evaluation: one for each map, its first drives, each in the colour of how it ended."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hil.commands.judge.evaluate import load_robot
from hil.evaluate.campaign import DriveResult
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source, load_set
from hil.evaluate.evaluation import Evaluation, Plan
from hil.evaluate.result import Row
from hil.evaluate.ways_picture import ARRIVED, LOST, check_pictures, save_pictures
from onboard.values.errors import InputError
from tests.rigs.evaluate_rows import row

SOURCES = [Source("depot", "depot", 30), Source("ase1", "ase1", 30)]
PLAN = Plan(Run("reactive"), load_robot(None), SOURCES, seed=1)


def evaluation(rows: list[Row]) -> Evaluation:
    began = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    driven = []
    for one in rows:
        start = load_set(SOURCES[0]).episodes[one.index].start
        way = tuple((start.x_m + away, start.y_m, 0.0) for away in (0.0, 1.0, 2.0))
        driven.append(DriveResult(one, way))
    return Evaluation(PLAN, driven, 0, began, 12.0, 0, Path("none"))


def pixels(file: Path, color: tuple[int, int, int]) -> int:
    image = np.asarray(Image.open(file).convert("RGB")).astype(int)
    return int((np.abs(image - color).max(axis=2) <= 10).sum())


def test_each_map_has_a_picture_of_its_drives(tmp_path: Path) -> None:
    files = save_pictures(evaluation([row(0, map="depot"), row(3, map="depot", success=False)]), tmp_path / "new")
    assert [file.name for file in files] == ["reactive-depot.png"]
    assert pixels(files[0], ARRIVED) > 20
    assert pixels(files[0], LOST) > 20


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    check_pictures(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written: .*file is not a folder"):
        check_pictures(tmp_path / "file")
    with pytest.raises(InputError, match=r"/proc/none.*: cannot be written"):
        save_pictures(evaluation([row(0, map="depot")]), Path("/proc/none"))
