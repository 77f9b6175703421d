"""Agents made side by side by real processes: whatever ends the command, no training of it goes on."""

from __future__ import annotations

import os
import signal

import pytest
from typer.testing import CliRunner

from engines.__main__ import main
from engines.ablations import trial
from tests.rigs.ablation_rig import write_agents
from tests.rigs.machine.processes import children_of, lives, running
from tests.rigs.machine.waiting import until

#   signal          files that are there by then   exit code
SIGNALS = [(signal.SIGTERM, "*/training/*", 128 + signal.SIGTERM), (signal.SIGKILL, "*/log.txt", -signal.SIGKILL)]


@pytest.mark.parametrize(("number", "files", "code"), SIGNALS)
def test_whatever_ends_the_command_ends_its_trainings(tmp_path, number, files, code):
    table = write_agents(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("rounds = 2", "rounds = 100000"))
    with running("engines", "ablations", "--out", "out", "--agents", table, "--jobs", 2, folder=tmp_path) as command:
        until(lambda: len(list((tmp_path / "out").glob(files))) >= 2, 120.0)
        until(lambda: len(children_of(command)) == 2, 10.0)
        trainings = children_of(command)
        os.kill(command.process.pid, number)
        assert command.wait() == code
        until(lambda: not any(lives(pid) for pid in trainings), 20.0)
        assert "Traceback" not in command.err


@pytest.mark.parametrize("jobs", ["0", "-3"])
def test_nobody_at_work_is_one_line(tmp_path, jobs):
    shown = CliRunner().invoke(main, ["ablations", "--out", str(tmp_path / "out"), "--jobs", jobs])
    assert (shown.exit_code, shown.stderr) == (2, f"error: --jobs {jobs}: must be at least 1\n")
    assert not (tmp_path / "out").exists()


def test_no_memory_left_is_one_line(tmp_path, monkeypatch):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(trial, "train_position", none_left)
    monkeypatch.setattr(trial.stages, "train", none_left)
    table = write_agents(tmp_path)
    shown = CliRunner().invoke(main, ["ablations", "--out", str(tmp_path / "out"), "--agents", str(table)])
    assert shown.exit_code == 2
    assert shown.stderr == "error: out of memory: lower --jobs, or driving.lanes of the recipe\n"
