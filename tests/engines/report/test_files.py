"""Files of results: packing changes no value, damage is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engines.report.files import EPISODES, GZ, RESULTS, results_in
from tests.engines.report.result_rig import evaluated, put, report
from tests.engines.report.result_rig import results_in as some_results


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
    put(found / "training" / "journal.jsonl", {})
    return found


def tables(folder: Path) -> str:
    """Return all results as text, so that 1 is not 1.0."""
    kinds = ("evaluate", "seeds", "others")
    return json.dumps([[(name, table) for _, name, table in results_in(folder / kind)] for kind in kinds])


def test_packing_changes_no_value_no_table_and_no_manifest(folder):
    manifest = put(folder / "policy.onnx.manifest.json", {})
    before, printed = tables(folder), report(folder).stdout
    done = report(folder, "--pack")
    assert (done.exit_code, done.stdout) == (0, printed)
    assert tables(folder) == before
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    packed = [f"{kind}/{name}" for kind in ("evaluate", "others", "seeds") for name in (EPISODES + GZ, RESULTS)]
    assert left == [*packed[:4], manifest.name, *packed[4:], "training/journal.jsonl.gz"]
    assert report(folder, "--pack").stdout == printed


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
]


@pytest.mark.parametrize(("content", "expected"), DAMAGED)
def test_damaged_columns_are_refused_in_one_line(folder, content, expected):
    report(folder, "--pack")
    (folder / "seeds" / "episodes.csv.gz").write_bytes(content)
    done = report(folder)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: {folder}/{expected}")
