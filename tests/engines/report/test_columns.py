"""Results as compressed columns: every value is read as it was written, and the report is the same."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from engines.report.results.columns import EPISODES, GZ, RESULTS, results_in
from tests.rigs.result_rows import evaluated, put, report
from tests.rigs.result_rows import results_in as some_results

LINE = {"stage": "imitation", "step": 0, "decisions": 8.0, "at_s": 2.0}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with results of each kind: with doors, nothing near, several in one file, a journal."""
    found = some_results(tmp_path / "results")
    doors = evaluated(condition="blocked")
    rows = [
        {**row, "door": "shut", "set_by_kernels": 3, "min_clearance_m": None, "distance_m": 0.1 + 0.2}
        for row in doors["per_episode"]
    ]
    put(found / "others" / "doors.json", {**doors, "per_episode": rows})
    put(found / "training" / "journal.jsonl", LINE)
    return found


def tables(folder: Path) -> str:
    """Return all results as text, so that 1 is not 1.0."""
    kinds = ("evaluate", "seeds", "others")
    return json.dumps([[(name, table) for _, name, table in results_in(folder / kind)] for kind in kinds])


def test_packing_changes_no_value_and_no_table(folder):
    before, printed = tables(folder), report(folder).stdout
    done = report(folder, "--pack")
    assert (done.exit_code, done.stdout) == (0, printed)
    assert tables(folder) == before
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    packed = [f"{kind}/{name}" for kind in ("evaluate", "others", "seeds") for name in (EPISODES + GZ, RESULTS)]
    assert left == ["ceiling.json.gz", *packed, "training/journal.jsonl.gz"]
    assert report(folder, "--pack").stdout == printed


def test_a_person_reads_the_columns_with_the_standard_library(folder):
    report(folder, "--pack")
    with gzip.open(folder / "seeds" / "episodes.csv.gz", "rt") as file:
        episodes = list(csv.DictReader(file))
    assert [one["success"] for one in episodes] == ["False", *["True"] * 11]


def test_a_result_that_was_driven_again_replaces_the_packed_one(folder):
    report(folder, "--pack")
    put(folder / "seeds" / "seed1.json", evaluated(5, model="n"))
    for options in ([], ["--pack"]):
        assert report(folder, *options).exit_code == 0
        ((_, name, table),) = results_in(folder / "seeds")
        assert (name, table["success_rate"]) == ("seed1", 7 / 12)
    assert not (folder / "seeds" / "seed1.json").exists()


#    what is in the file of episodes                   what is said
DAMAGED = [
    (b"no gzip", "seeds/episodes.csv: cannot be read: "),
    (gzip.compress(b"result,map\nseed1,ahg2\n", mtime=0), "seeds/episodes.csv.gz: not the columns of episodes: "),
    (gzip.compress(b"result\n", mtime=0), "seeds/seed1.json: seed1: not the result of onboard-hil evaluate: "),
]


@pytest.mark.parametrize(("content", "expected"), DAMAGED)
def test_damaged_columns_are_refused_in_one_line(folder, content, expected):
    report(folder, "--pack")
    (folder / "seeds" / "episodes.csv.gz").write_bytes(content)
    done = report(folder)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: {folder}/{expected}")
