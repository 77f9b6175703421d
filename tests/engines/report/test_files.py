"""Files of results: packing changes no value, journals of stopped trainings add up, damage is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engines.report.files import EPISODES, GZ, RESULTS, results_in, training_of
from onboard.values.errors import InputError
from tests.engines.report.result_rig import evaluated, put, report
from tests.engines.report.result_rig import results_in as some_results

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


def test_repeated_rounds_of_a_journal_count_once_and_all_calls_take_time(tmp_path):
    step = {"stage": "imitation", "decisions": 100.0, "drives": 2.0}
    judged = {"stage": "imitation", "step": 1, "at_s": 5.0, "SR": 50.0}
    rows = [(0, 1.0), (1, 3.0), judged, (2, 1800.0), (1, 2.0), (2, 1802.0)]
    lines = [json.dumps(row if row is judged else {**step, "step": row[0], "at_s": row[1]}) for row in rows]
    (tmp_path / "journal.jsonl").write_text("\n".join(lines) + '\n{"stage": "imi')  # the last line is torn
    figures = training_of(tmp_path)["imitation"]
    assert (figures["rounds"], figures["decisions"], figures["drives"]) == (3, 300, 6)
    assert figures["hours"] == pytest.approx((1800.0 + 1802.0) / 3600.0)
    assert training_of(tmp_path / "none") == {}


@pytest.mark.parametrize("content", ["{}\n", "x\n", '{"stage": "a", "step": 1, "decisions": "x"}\n'])
def test_a_file_that_is_no_journal_is_refused(tmp_path, content):
    (tmp_path / "journal.jsonl").write_text(content)
    with pytest.raises(InputError, match=r"journal\.jsonl: not a training's journal: "):
        training_of(tmp_path)
