"""The reference runs: today's runtime repeats the accepted outcome, and `accept` updates it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.develop.update_reference import ACCEPTED, accept, make_reference
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.replay import replay
from hil.replay.summary import first_line
from onboard.perception import scan_fusion
from onboard.safety import limits
from onboard.values.errors import InputError
from tests.rigs.recordings.replay_references import REFERENCES
from tests.rigs.recordings.replay_rig import recorded

#   name     ticks, decisions at least, fused at least
RUNS = [("demo", 1750, 130, 130), ("office", 420, 39, 40)]
MEANT = (
    "if it is meant: onboard-hil update-reference tests/data/replay/*.mcap --reason '...', and the line in CHANGELOG.md"
)


@pytest.mark.parametrize(("name", "ticks", "decisions", "fused"), RUNS)
def test_the_runtime_does_what_was_agreed_on(name: str, ticks: int, decisions: int, fused: int) -> None:
    found = replay(REFERENCES / f"{name}.mcap")
    assert found.within_tolerance, f"{name}: {found.first and first_line(found.first)}; {MEANT}"
    assert found.ticks > ticks
    assert found.decisions > decisions
    assert found.fused > fused
    assert found.skipped == found.gaps == 0


def test_the_demo_has_in_it_what_it_is_for() -> None:
    with open_recording(REFERENCES / "demo.mcap") as recording:
        ticks = list(ticks_of(recording))
    reasons = {tick.reason for tick in ticks}
    assert {"none", "speed_limit", "teleop", "blind_ahead", "stale_scan", "stale_odometry"} <= reasons
    assert {"e_stop", "zone_slow", "obstacle"} <= reasons
    assert any(tick.recovery == "backing" for tick in ticks)
    assert any(tick.acted and tick.acted.decision is None for tick in ticks), "a decision was late"
    assert any(tick.slot.missed for tick in ticks), "the loop was blocked"
    for state in ("idle", "navigating", "recovering", "stopped: e_stop", "stopped: odometry refused"):
        assert any(tick.state.startswith(state) for tick in ticks), state


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return Path(shutil.copy(REFERENCES / "office.mcap", tmp_path / "office.mcap"))


def slower(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = limits.bounds_of
    monkeypatch.setattr(limits, "bounds_of", lambda *given: replace(bounds(*given), v_max_mps=0.2))


def shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    fuse = scan_fusion.fuse

    def shift(*given: Any) -> Any:
        fused, memory = fuse(*given)
        return replace(fused, ranges_m=np.roll(fused.ranges_m, 1)), memory

    monkeypatch.setattr(scan_fusion, "fuse", shift)


def test_a_change_is_found_in_the_stage_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shifted(monkeypatch)
    found = replay(REFERENCES / "office.mcap")
    assert found.first is not None
    assert found.first.difference.stage == "scan"


def typed(reference: Path) -> str:
    """Return what the command prints."""
    done = CliRunner().invoke(app, ["update-reference", str(reference), "--reason", "Drive slower"])
    assert done.exit_code == 0
    return done.output


def test_a_reference_is_moved_to_a_change_and_back(reference: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [tick.inputs for tick in _ticks(reference)]
    with monkeypatch.context() as patch:
        slower(patch)
        first, *fields, say, line = typed(reference).splitlines()
        assert first.startswith(f"{reference}: moved, ")
        assert "stage limits, field command.v_mps" in first
        assert any(field.startswith("  command: ") for field in fields)
        assert (say, line) == (
            "Commit it with the change that caused it, and with this line in CHANGELOG.md:",
            "- Drive slower",
        )
        assert typed(reference) == f"{reference}: identical, not changed\n"
    assert not replay(reference).within_tolerance
    for before, after in zip(inputs, (tick.inputs for tick in _ticks(reference)), strict=True):
        assert before.odometry == after.odometry
        assert [one.depth.tobytes() for one in before.depth.values()] == [
            one.depth.tobytes() for one in after.depth.values()
        ]
    with open_recording(reference) as recording:
        assert recording.session[ACCEPTED].splitlines()[-1] == "Drive slower"
    assert [path.name for path in reference.parent.iterdir()] == [reference.name]


def _ticks(file: Path) -> Any:
    with open_recording(file) as recording:
        return list(ticks_of(recording))


def test_only_a_reference_is_moved_and_only_with_a_reason(reference: Path, tmp_path: Path) -> None:
    folder = tmp_path / "robot"
    (drive,), _ = recorded(folder)
    before = drive.read_bytes()
    with pytest.raises(InputError, match="not a reference, so it is not moved"):
        accept(drive, "reason")
    assert drive.read_bytes() == before
    with pytest.raises(InputError, match="--reason: one line is needed"):
        accept(reference, "  ")
    torn = tmp_path / "torn.mcap"
    torn.write_bytes(reference.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"torn\.mcap: unfinished"):
        accept(torn, "reason")


def test_a_reference_holds_no_more_than_a_replay_needs(tmp_path: Path) -> None:
    with open_recording(REFERENCES / "demo.mcap") as recording:
        assert recording.left_out == ()
        topics = {message.topic for message in recording.read()}
    assert topics == {"tick", "keyframe", "scan", *(f"{name}/depth/image" for name in recording.mounts.depth)}
    again = tmp_path / "again.mcap"
    make_reference(REFERENCES / "office.mcap", again, "again")
    assert replay(again).identical
