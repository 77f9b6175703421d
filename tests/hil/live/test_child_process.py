"""A child process that waits for its command: it runs it with a log, or leaves nothing behind."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from hil.live.child_process import Child, Interpreter
from onboard.values.errors import OnboardError
from tests.rigs.machine.waiting import until


def test_a_command_runs_in_an_interpreter_that_imported_before(tmp_path: Path) -> None:
    interpreter = Interpreter("json", "no_such_module")
    child = Child("the table", ["timeit", "-n", "1", "-r", "1"], tmp_path / "log", interpreter)
    until(lambda: not child.runs())
    assert "1 loop" in child.output()


def test_a_command_that_fails_is_told_by_the_last_line_of_its_log(tmp_path: Path) -> None:
    child = Child("the runtime", ["no_such_module"], tmp_path / "log", Interpreter("json"))
    until(lambda: not child.runs())
    with pytest.raises(OnboardError, match=r"the runtime ended with code 1: .*no_such_module"):
        child.check()


def test_an_interpreter_that_got_no_command_is_ended() -> None:
    with contextlib.closing(Interpreter("json")) as interpreter:
        assert interpreter.process.poll() is None
    assert interpreter.process.returncode is not None
