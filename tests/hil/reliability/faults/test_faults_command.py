"""`onboard-hil faults`: its tables, its JSON, its exit codes, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.table import FAULTS
from onboard.policy import decision
from onboard.safety import limits
from onboard.values.messages import Twist
from tests.hil.reliability.faults.faults_rig import BY_NAME
from tests.hil.reliability.faults.test_faults_recording import recorded


def run(*arguments: object) -> Any:
    """Run the command on a terminal so wide that no cell is broken."""
    return CliRunner().invoke(app, ["faults", *map(str, arguments)], env={"COLUMNS": "400"})


def test_the_list_names_every_fault_what_must_come_of_it_and_where_it_can_run() -> None:
    done = run("--list")
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in BY_NAME)
    assert "by tick 8: odometry.stale_ms + 2 ticks" in done.stdout
    assert "process" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.strip().startswith(tuple(BY_NAME))]
    assert len(rows) == len(BY_NAME), "in a pipe each fault has one line"


def test_a_simulated_drive_is_judged_and_told_as_json() -> None:
    done = run("--sim", "--only", "e_stop", "--only", "disk_full", "--processes", "none", "--json", "-")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["passed"], result["failed"], result["nothing_shown"], result["not_run"]) == (1, 0, 0, 1)
    assert result["timeouts_ms"]["odometry.stale_ms"] == 200.0
    disk, pressed = sorted(result["faults"], key=lambda row: row["name"])
    assert (disk["status"], disk["happened"]) == ("not run", "it can be injected only into a real process")
    assert (pressed["mode"], pressed["within_ticks"], pressed["problems"]) == ("simulated clock", 2, [])
    assert pressed["settled_tick"] <= 2


def test_a_rule_that_is_broken_is_exit_code_1_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_within_speed", lambda twist, bounds: twist)
    done = run("--sim", "--only", "override_flood", "--processes", "none")
    assert done.exit_code == 1
    assert "1 failed" in done.stdout
    assert "speed: (" in done.stdout


def test_a_run_in_which_nothing_drives_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "twist_of", lambda _: Twist(0.0, 0.0))
    monkeypatch.setattr(decision, "replaced", lambda state, _: state)
    done = run("--sim", "--only", "e_stop", "--processes", "none")
    assert done.exit_code != 0
    assert "0 passed, 0 failed, 1 nothing shown, 0 not run" in done.stdout
    assert str(done.exception).endswith("seed 1: no fault could be judged; choose a part in which the robot drives")


DEMO = Path(__file__).parents[3] / "data/replay/demo.mcap"
#   what is judged, faults that ask for more than a stop, how many
SHIPPED = [
    ("simulation", ["--sim"], ["localization_jump", "obstacle_stuck"], 2),
    ("reference", [DEMO], ["depth_zero_all", "time_backward"], 2),
]


@pytest.mark.parametrize(("what", "where", "names", "passed"), SHIPPED, ids=[row[0] for row in SHIPPED])
def test_the_policy_that_ships_shows_faults(what: str, where: list[object], names: list[str], passed: int) -> None:
    done = run(*where, *(word for name in names for word in ("--only", name)))
    assert done.exit_code == 0, done.output
    assert f"{passed} passed, 0 failed, 0 nothing shown, 0 not run" in done.stdout


#   what is judged, which faults it cannot have
ALL_SHOWN = [
    ("simulation", ["--sim", "--processes", "none"], lambda fault: fault.make is None),
    (
        "reference",
        [DEMO],
        lambda fault: not fault.in_recordings or not {Need.COLOR, Need.SCANS}.isdisjoint(fault.needs),
    ),
]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "where", "closed"), ALL_SHOWN, ids=[row[0] for row in ALL_SHOWN])
def test_the_policy_that_ships_shows_every_fault(
    what: str, where: list[object], closed: Callable[[Fault], bool]
) -> None:
    done = run(*where)
    assert done.exit_code == 0, done.output
    not_run = sum(map(closed, FAULTS))
    assert f"{len(FAULTS) - not_run} passed, 0 failed, 0 nothing shown, {not_run} not run" in done.stdout


def test_a_recording_is_judged(tmp_path: Path) -> None:
    """It was driven by another policy than its configuration names, which drives here: a fault has its own ways."""
    file, _ = recorded(tmp_path)
    done = run(file, "--only", "e_stop", "--only", "base_deaf", "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["source"] == str(file)
    assert {row["name"]: row["status"] for row in result["faults"]} == {"e_stop": "passed", "base_deaf": "not run"}
    assert "1 passed, 0 failed, 0 nothing shown, 1 not run" in done.stdout


#   arguments                                       said
BAD = [
    ([], "faults: name a recording, or --sim"),
    (["a.mcap", "--sim"], "faults: name a recording, or --sim"),
    (["--sim", "--only", "gremlins"], "--only gremlins: no fault of that name; known are camera_gone, "),
    (["nothing.mcap"], "nothing.mcap: cannot be read: No such file or directory"),
    (["--sim", "--map", "nowhere"], "nowhere"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_a_mistake_is_one_line(arguments: list[str], expected: str) -> None:
    done = run(*arguments)
    assert done.exit_code != 0
    assert expected in str(done.exception)
    assert "\n" not in str(done.exception)
