"""How long a training took and what it did, from journals that were cut off, of several calls, or older."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.report.results.result_files import gather
from engines.report.results.training_history import training_of
from onboard.values.errors import InputError


def journal(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def step(number: int, at_s: float, **more: float) -> dict[str, Any]:
    return {"stage": "imitation", "step": number, "at_s": at_s, "decisions": 100.0, "drives": 2.0, **more}


def test_a_journal_tells_rounds_once_and_the_time_of_all_calls(tmp_path):
    judged = {"stage": "imitation", "step": 1, "at_s": 5.0, "SR": 50.0}
    folder = journal(tmp_path, step(0, 1.0), step(1, 3.0), judged, step(2, 1800.0), step(1, 2.0), step(2, 1802.0))
    figures = training_of(folder)["imitation"]
    assert (figures["rounds"], figures["decisions"], figures["drives"]) == (3, 300, 6)
    assert figures["hours"] == pytest.approx((1800.0 + 1802.0) / 3600.0)
    assert training_of(tmp_path / "none") == {}


def test_a_journal_without_times_has_no_hours(tmp_path):
    journal(tmp_path, {"stage": "imitation", "step": 0, "decisions": 7.0})
    assert training_of(tmp_path)["imitation"] == {"rounds": 1, "decisions": 7, "drives": 0, "hours": None}


def test_figures_stand_for_journals_that_are_not_kept(tmp_path):
    journal(tmp_path / "training", step(0, 1.0))
    row = {"training": "training/seed-0", "stage": "imitation", "decisions": 5, "drives": 1, "hours": 1.5}
    (tmp_path / "training.json").write_text(json.dumps({"throughput": [row, {**row, "training": "training"}]}))
    trainings = gather(tmp_path).trainings
    assert trainings["training/seed-0"]["imitation"] == row
    assert trainings["training"]["imitation"]["decisions"] == 100  # what a journal tells goes before


#    number of each row's call                   hours
CALLS = [((1, 1, 2, 2), (5.0 + 9.0) / 3600.0), ((None, 1, 2, 2), (1.0 + 5.0 + 9.0) / 3600.0), ((None,) * 4, 9.0 / 3600)]


@pytest.mark.parametrize(("calls", "expected_hours"), CALLS)
def test_calls_are_told_apart_by_their_number_where_the_time_does_not_fall(tmp_path, calls, expected_hours):
    numbered = [{} if call is None else {"call": call} for call in calls]
    rows_of = [step(n, at, **call) for n, (at, call) in enumerate(zip((1.0, 5.0, 6.0, 9.0), numbered, strict=True))]
    figures = training_of(journal(tmp_path, *rows_of))["imitation"]
    assert figures["hours"] == pytest.approx(expected_hours)


@pytest.mark.parametrize("torn", [b'{"stage": "imi', b"\0\0\0", b"\xff"])
def test_a_last_line_that_was_cut_off_is_read_over(tmp_path, torn):
    folder = journal(tmp_path, step(0, 1.0), step(1, 3.0))
    whole = training_of(folder)
    with (folder / "journal.jsonl").open("ab") as rows:
        rows.write(torn)
    assert training_of(folder) == whole


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_whole_last_line_counts_with_its_end_or_without(tmp_path, end):
    (tmp_path / "journal.jsonl").write_text(json.dumps(step(0, 1.0)) + end)
    assert training_of(tmp_path)["imitation"]["rounds"] == 1


def test_a_line_that_was_cut_off_before_others_is_refused(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"stage": "imi\n' + json.dumps(step(0, 1.0)) + "\n")
    with pytest.raises(InputError, match=r"journal\.jsonl: line 1: not valid JSON"):
        training_of(tmp_path)
