"""A training's journal: rows as they come, curves of each stage in a folder of its own, nothing for nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from engines.train.training_log import Journal
from onboard.values.errors import InputError


@pytest.fixture(autouse=True)
def _files_in_order(monkeypatch):
    """Let TensorBoard count its files from 0: it reads those of one second by name, the tenth before the ninth."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def noted(folder, stage, done, steps):
    with Journal(folder, stage, 9, done, Console(file=io.StringIO())) as journal:
        for step in steps:
            journal.note(step, {"loss": float(step)})


def rows(folder):
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def curve(folder, stage):
    events = EventAccumulator(str(folder / "tensorboard" / stage))
    events.Reload()
    return [scalar.step for scalar in events.Scalars(f"{stage}/loss")]


def test_a_stage_does_not_hide_the_curves_of_the_one_before(tmp_path):
    noted(tmp_path, "encoder", None, [1, 2, 3])
    noted(tmp_path, "imitation", 0, [1, 2])
    assert (curve(tmp_path, "encoder"), curve(tmp_path, "imitation")) == ([1, 2, 3], [1, 2])
    assert [(row["stage"], row["step"]) for row in rows(tmp_path)] == [
        ("encoder", 1), ("encoder", 2), ("encoder", 3), ("imitation", 1), ("imitation", 2),
    ]  # fmt: skip


#   steps made before the call that goes on    the first that it makes
@pytest.mark.parametrize(("done", "first"), [(2, 3), (None, 3), (2, 4)])
def test_what_is_made_again_hides_what_was_made_before(tmp_path, done, first):
    noted(tmp_path, "imitation", 0, [1, 2, 3, 4])
    noted(tmp_path, "imitation", done, [first])
    assert curve(tmp_path, "imitation") == [1, 2, first]


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written: "):
        noted(tmp_path / "file", "encoder", 0, [1])


def test_what_a_killed_call_left_of_a_row_is_cut_off(tmp_path):
    noted(tmp_path, "imitation", 0, [1, 2])
    file = tmp_path / "journal.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    noted(tmp_path, "imitation", 1, [2])
    assert [(row["step"], row["call"]) for row in rows(tmp_path)] == [(1, 1), (2, 2)]


FULL = """
import io, resource, sys
from pathlib import Path
from rich.console import Console
from engines.train.training_log import Journal
from onboard.values.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    with Journal(Path(sys.argv[1]), "imitation", 9, 0, Console(file=io.StringIO())) as journal:
        for step in range(1, 1000):
            journal.note(step, {"loss": 0.0} if sys.argv[2] == "rows" else {f"loss{one}": 0.0 for one in range(step)})
except InputError as error:
    print(error)
"""
"""Writes until no file may be longer; with many numbers to a row the curves are the first that are too long."""


@pytest.mark.long
@pytest.mark.parametrize("first", ["rows", "curves"])
def test_a_full_disk_is_told_in_one_line(tmp_path, first):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), first], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{tmp_path}: cannot be written: File too large\n", "")
