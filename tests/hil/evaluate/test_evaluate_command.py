"""`onboard-hil evaluate` as it is typed: the same result by any number of hands, signals, kills, and bad input."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from onboard.values.errors import OnboardError
from tests.rigs.machine.processes import Command, running
from tests.rigs.machine.waiting import until

# The first drive on a machine compiles the kernels.
pytestmark = pytest.mark.timeout(600)

EPISODES, OF = 12, 25
DRIVE = ("evaluate", "--policy", "reactive", "--map", "depot", "--episodes", str(EPISODES))
INTERRUPTED = 130


def result(file: Path) -> dict[str, Any]:
    """Return all of a result that must not depend on how it came about."""
    table = json.loads(file.read_text())
    del table["run"]
    return table


def typed(folder: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command in this process and return its standard output."""
    monkeypatch.chdir(folder)
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return ran.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of this process alone, never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        typed(
            folder, *DRIVE, "--json", "whole.json", "--report", "report.md", "--pictures", "pictures", monkeypatch=patch
        )
    assert sorted(file.name for file in folder.iterdir()) == ["pictures", "report.md", "report.svg", "whole.json"]
    assert [file.suffix for file in (folder / "pictures").iterdir()] == [".png"]
    assert "# How reactive drives" in (folder / "report.md").read_text()
    return result(folder / "whole.json")


def lines(partial: Path) -> int:
    return partial.read_bytes().count(b"\n") if partial.exists() else 0


def started(folder: Path, command: Command) -> None:
    """Return once some episodes have been driven, and not all."""
    partial = folder / "some.json.partial.jsonl"

    def driving() -> bool:
        assert command.process.poll() is None, command.err
        return lines(partial) > 1

    until(driving, 300.0)


def test_it_counts(whole: dict[str, Any]) -> None:
    assert (whole["episodes"], whole["complete"], len(whole["per_episode"])) == (EPISODES, True, EPISODES)
    assert [row["index"] for row in whole["per_episode"]] == [number * OF // EPISODES for number in range(EPISODES)]
    assert 0.0 <= whole["ci95"]["success_rate"][0] <= whole["success_rate"] <= whole["ci95"]["success_rate"][1] <= 1.0
    assert sum(whole["actions"]) > EPISODES
    assert all(0.0 < row["fastest_s"] < row["time_s"] for row in whole["per_episode"])


def test_ctrl_c_then_the_same_again(tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a terminal: every process hears it."""
    with running("hil", *DRIVE, "--jobs", "2", "--json", "some.json", folder=tmp_path) as command:
        started(tmp_path, command)
        assert command.end(signal.SIGINT) == INTERRUPTED
        assert "run the same command again" in command.err
        assert "Traceback" not in command.err
    part = result(tmp_path / "some.json")
    assert part["complete"] is False
    assert 0 < part["episodes"] == len(part["per_episode"]) < EPISODES
    typed(tmp_path, *DRIVE, "--json", "some.json", monkeypatch=monkeypatch)
    assert result(tmp_path / "some.json") == whole
    assert [file.name for file in tmp_path.glob("*.partial*")] == []


#   what                   arguments                                        said
BAD = [
    ("policy", ["--policy", "foo"], "policy foo: must be one of"),
    ("model", ["--policy", "foo.onnx"], "policy foo.onnx: no such file"),
    ("no jobs", ["--policy", "reactive", "--jobs", "0"], "--jobs 0"),
    ("jobs and ray", ["--policy", "reactive", "--jobs", "2", "--ray", "local"], "--jobs 2 with --ray"),
    ("ray", ["--policy", "reactive", "--ray", "nonsense"], "--ray nonsense"),
    ("rendered", ["--policy", "reactive", "--rendered"], "--rendered: only with --runtime"),
    ("scan", ["--policy", "reactive", "--scan", "sonar"], "--scan sonar"),
    ("known map", ["--policy", "reactive", "--known-map", "rearranged"], "only planner and mapped know a map"),
    ("the configuration's policy", ["--known-map", "rearranged"], "only planner and mapped know a map"),
    ("no such known map", ["--policy", "planner", "--known-map", "old"], "--known-map old"),
    ("pedestrians", ["--policy", "reactive", "--pedestrians", "-1"], "--pedestrians -1"),
    ("a city of them", ["--policy", "reactive", "--pedestrians", "100000"], "must be 0 to 200"),
    ("partial", ["--policy", "reactive", "--partial", "nowhere/rows"], "there is no folder nowhere"),
    ("json", ["--policy", "reactive", "--json", "no/such/folder.json"], "no/such/folder.json: cannot be written"),
    ("report", ["--policy", "reactive", "--report", "no/such/report.md"], "no/such/report.md: cannot be written"),
    ("a page", ["--policy", "reactive", "--report", "page.html"], "--report page.html: must end in .md"),
    ("episodes", ["--policy", "reactive", "--episodes", "0"], "--episodes 0"),
    ("maps", ["--policy", "reactive", "--map", "depot", "nowhere"], "--map nowhere"),
    ("a map on its own", ["--policy", "reactive", "depot"], "depot: unexpected argument: put --map before a map"),
    ("config", ["--policy", "reactive", "--config", "none.toml"], "none.toml: cannot be read"),
    ("set", ["--policy", "reactive", "--set", "seen"], "--set seen: must be one of committed, unseen, validation"),
    ("condition", ["--policy", "reactive", "--condition", "fog"], "--condition fog: must be all, or one of"),
    (
        "no limits in the runtime",
        ["--policy", "reactive", "--runtime", "--condition", "paper", "--condition", "no_limits"],
        "--condition no_limits: with --runtime",
    ),
    ("a file for pictures", ["--policy", "reactive", "--pictures", "/dev/null"], "/dev/null is not a folder"),
    (
        "pictures of several",
        ["--policy", "reactive", "--condition", "paper", "--condition", "robot", "--pictures", "here"],
        "--pictures here: covers one condition, not 2",
    ),
    (
        "a report of several",
        ["--policy", "reactive", "--condition", "paper", "--condition", "robot", "--report", "report.md"],
        "--report report.md: covers one condition, not 2",
    ),
]


@pytest.mark.parametrize(("what", "arguments", "expected"), BAD, ids=[one[0] for one in BAD])
def test_bad_input_is_one_line_before_anything_drives(
    tmp_path: Path, what: str, arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["evaluate", *arguments])
    assert isinstance(ran.exception, OnboardError)
    assert expected in str(ran.exception)
    assert "\n" not in str(ran.exception)
    assert list(tmp_path.iterdir()) == []
