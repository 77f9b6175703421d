"""A training's journal: rows as they come, curves of each stage in a folder of its own, nothing for nothing."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from engines.train.journal import Journal
from onboard.errors import InputError


def noted(folder, stage, done, steps):
    with Journal(folder, stage, 9, done, Console(file=io.StringIO())) as journal:
        for step in steps:
            journal.note(step, {"loss": float(step)})


def curve(folder, stage):
    events = EventAccumulator(str(folder / "tensorboard" / stage))
    events.Reload()
    return [scalar.step for scalar in events.Scalars(f"{stage}/loss")]


def test_a_stage_does_not_hide_the_curves_of_the_one_before(tmp_path):
    noted(tmp_path, "encoder", None, [1, 2, 3])
    noted(tmp_path, "imitation", 0, [1, 2])
    assert (curve(tmp_path, "encoder"), curve(tmp_path, "imitation")) == ([1, 2, 3], [1, 2])
    rows = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [(row["stage"], row["step"]) for row in rows] == [
        ("encoder", 1), ("encoder", 2), ("encoder", 3), ("imitation", 1), ("imitation", 2),
    ]  # fmt: skip


#   steps made before the call that goes on    the first that it makes
@pytest.mark.parametrize(("done", "first"), [(2, 3), (None, 3), (2, 4)])
def test_what_is_made_again_hides_what_was_made_before(tmp_path, done, first):
    noted(tmp_path, "imitation", 0, [1, 2, 3, 4])
    noted(tmp_path, "imitation", done, [first])
    assert curve(tmp_path, "imitation") == [1, 2, first]


def test_where_nothing_is_trained_nothing_is_written(tmp_path):
    noted(tmp_path / "none", "encoder", 0, [])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written: "):
        noted(tmp_path / "file", "encoder", 0, [1])
