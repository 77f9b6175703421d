"""Agents made side by side by real processes: whatever ends the command, no training of it goes on."""

from __future__ import annotations

import os
import signal

import pytest

from engines.ablations.trial import TRAINING
from engines.runs.locks import alone_in
from tests.rigs.ablation_rig import write_agents
from tests.rigs.machine.processes import running
from tests.rigs.machine.waiting import alive, children, until

#   signal          files that are there by then   exit code
SIGNALS = [(signal.SIGTERM, "*/training/*", 128 + signal.SIGTERM), (signal.SIGKILL, "*/log.txt", -signal.SIGKILL)]


@pytest.mark.long
@pytest.mark.parametrize(("number", "files", "code"), SIGNALS)
def test_whatever_ends_the_command_ends_its_trainings(tmp_path, number, files, code):
    table = write_agents(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("rounds = 2", "rounds = 100000"))
    with running("engines", "ablations", "--out", "out", "--agents", table, "--jobs", 2, folder=tmp_path) as command:
        until(lambda: len(list((tmp_path / "out").glob(files))) >= 2, 120.0)
        until(lambda: len(children(command.process.pid)) == 3, 10.0)  # one is the tracker of `multiprocessing`
        trainings = children(command.process.pid)
        os.kill(command.process.pid, number)
        assert command.wait() == code
        until(lambda: not any(alive(pid) for pid in trainings), 20.0)
        assert "Traceback" not in command.err


@pytest.mark.long
def test_agents_are_made_side_by_side_and_one_that_cannot_be_does_not_stop_the_others(tmp_path):
    table = write_agents(tmp_path)
    arguments = ("engines", "ablations", "--out", "out", "--agents", table, "--jobs", 2)
    with alone_in(tmp_path / "out" / "other" / TRAINING), running(*arguments, folder=tmp_path) as command:
        assert command.wait(300.0) == 2
        assert "plain: done\n" in command.err
        assert "other: ended with 2, see out/other/log.txt\n" in command.err
    assert "another training is writing it" in (tmp_path / "out" / "other" / "log.txt").read_text()
