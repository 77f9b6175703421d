"""A replay does not depend on time, load, process or cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.replay.replay import replay
from tests.rigs.machine.processes import done
from tests.rigs.recordings.replay_references import REFERENCES
from tests.rigs.recordings.replay_rig import short_drive

RUNS = 3
BUSY = "while True: pass"
START_S = "300"
"""Ray's timeout for its own start on a busy machine."""


def outcome(found: Any) -> Any:
    return {name: one for name, one in found.items() if name != "speed_x_realtime"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_is_the_same_again_and_again_on_a_busy_machine_and_in_two_processes(tmp_path: Path) -> None:
    demo = REFERENCES / "demo.mcap"
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        here = [outcome(replay(demo).as_json()) for _ in range(RUNS)]
        assert all(one["within_tolerance"] for one in here)  # a reference may be of another processor
        files = [tmp_path / f"{number}.json" for number in range(2)]
        for file in files:
            both = demo, demo.with_name("office.mcap")
            there = done("hil", "replay", *both, "--jobs", "2", "--json", file, folder=tmp_path)
            assert there.process.returncode == 0, there.err
            assert outcome(json.loads(file.read_text())["recordings"][0]) == here[0]
    finally:
        busy.kill()
        busy.wait()
    assert here[0] == here[1] == here[2]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_references_hold_on_a_plainer_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4")
    there = done("hil", "replay", REFERENCES, folder=tmp_path)
    assert there.process.returncode == 0, there.out + there.err
    assert [", judged as a reference: " in line for line in there.out.splitlines()] == [True, True]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_replays_as_this_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", START_S)
    drive = short_drive(tmp_path / "robot")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    for name in ("a", "b"):
        shutil.copy(drive, fleet / f"{name}.mcap")
    (fleet / "torn.mcap").write_bytes(drive.read_bytes()[:1_000])
    results = []
    for workers in ([], ["--ray", "local"]):
        file = tmp_path / "out.json"
        done = CliRunner().invoke(app, ["replay", str(fleet), *workers, "--json", str(file)])
        assert done.exit_code == 2, done.output
        results.append(json.loads(file.read_text()))
        for row in results[-1]["recordings"]:
            assert row.pop("speed_x_realtime") > 0.0
    assert results[0] == results[1]
    assert [Path(row["file"]).name for row in results[0]["recordings"]] == ["a.mcap", "b.mcap"]
    assert [Path(row["file"]).name for row in results[0]["unreadable"]] == ["torn.mcap"]
