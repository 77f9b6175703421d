"""Drives of the whole robot in real time, as the report tells them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.report.results.result_files import gather
from engines.report.sections.realtime import real_time
from onboard.values.errors import InputError
from tests.rigs.result_rows import evaluated, report, results_in
from tests.rigs.result_rows import put as put_result

TOLD = {
    "reached": True, "contacts": 0, "decisions": 1000, "decision_ms": {"p50": 36.2, "p99": 44.0},
    "deadline_misses": 0, "missed_slots": 0, "policy": "onboard-v1",
}  # fmt: skip


def put(folder: Path, name: str, **changes: object) -> None:
    (folder / "demos").mkdir(exist_ok=True)
    (folder / "demos" / name).write_text(json.dumps(TOLD | changes))


def rows(folder: Path) -> list[list[str]]:
    lines = real_time(gather(folder)).markdown.splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]


def test_each_map_has_a_row(tmp_path):
    put(tmp_path, "home-10.json")
    put(tmp_path, "home-9.json", decision_ms={"p50": 40.4, "p99": 60.6}, deadline_misses=2, missed_slots=1)
    put(tmp_path, "ahg2-1.json")
    expected = ["ahg2", "1", "1 of 1", "1,000", "36 to 36", "44 to 44", "0", "0"]
    assert rows(tmp_path) == [expected, ["home", "9, 10", "2 of 2", "2,000", "36 to 40", "44 to 61", "2", "1"]]


@pytest.mark.parametrize("bad", [{"contacts": 1}, {"reached": False}])
def test_what_touched_something_or_did_not_reach_is_not_counted(tmp_path, bad):
    put(tmp_path, "home-1.json")
    put(tmp_path, "home-2.json", **bad)
    assert rows(tmp_path)[0][2] == "1 of 2"


def test_where_there_is_none_it_is_said(tmp_path):
    assert real_time(gather(tmp_path)).missing == "demos/*.json"


@pytest.mark.parametrize(
    ("name", "changes"), [("home.json", {}), ("home-x.json", {}), ("home-2.json", {"decision_ms": 3})]
)
def test_another_file_is_refused_in_one_line(tmp_path, name, changes):
    put(tmp_path, name, **changes)
    with pytest.raises(InputError, match=rf"demos/{name}: not the result of onboard-hil demo, named MAP-SEED.json: "):
        real_time(gather(tmp_path))


def test_drives_of_two_policies_are_refused(tmp_path):
    put(tmp_path, "home-1.json")
    put(tmp_path, "home-2.json", policy="reactive")
    with pytest.raises(InputError, match=r"demos: by onboard-v1 and reactive: must be of one policy"):
        real_time(gather(tmp_path))


def test_drives_of_another_policy_than_the_reports_are_refused(tmp_path):
    results_in(tmp_path)
    put(tmp_path, "home-1.json")
    assert rows(tmp_path)[0][2] == "1 of 1"  # of a policy without a name nothing contradicts
    for name, loop in (("all", "fast"), ("rendered", "rendered")):
        put_result(tmp_path / "evaluate" / f"{name}.json", evaluated(policy="onboard-v1", loop=loop))
    assert rows(tmp_path)[0][2] == "1 of 1"
    put(tmp_path, "home-1.json", policy="reactive")
    done = report(tmp_path)
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: {tmp_path / 'demos'}: by reactive, the report is about onboard-v1\n",
    )
