"""Recordings replayed on a Ray cluster come out as they do here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from tests.rigs.recordings.replay_rig import short_drive

START_S = "300"
"""Ray's patience with its own start, on a machine with other work."""

pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_replays_as_this_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", START_S)
    drive = short_drive(tmp_path / "robot")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    for name in ("a", "b"):
        shutil.copy(drive, fleet / f"{name}.mcap")
    (fleet / "torn.mcap").write_bytes(drive.read_bytes()[:1_000])
    told = []
    for hands in ([], ["--ray", "local"]):
        file = tmp_path / "out.json"
        done = CliRunner().invoke(app, ["replay", str(fleet), *hands, "--json", str(file)])
        assert done.exit_code == 2, done.output
        told.append(json.loads(file.read_text()))
        for row in told[-1]["recordings"]:
            assert row.pop("speed_x_realtime") > 0.0
    assert told[0] == told[1]
    assert [Path(row["file"]).name for row in told[0]["recordings"]] == ["a.mcap", "b.mcap"]
    assert [Path(row["file"]).name for row in told[0]["unreadable"]] == ["torn.mcap"]
