"""Agents made in parallel: child processes of `onboard-engines ablations --only NAME`."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from engines.cli_options import code_of
from hil.jobs.process_pool import in_processes
from onboard.values.errors import InputError

LOG_FILE = "log.txt"
FAILED = 1


@dataclass(frozen=True, slots=True)
class _Agent:
    """The call for one agent. given: options beside the agent."""

    name: str
    out: Path
    given: tuple[str, ...]
    map: str = ""

    def __str__(self) -> str:
        return self.name


def side_by_side(names: Sequence[str], out: Path, jobs: int, given: Sequence[str]) -> int:
    """Make agents in `jobs` processes; return the first exit code that is not 0, after all have ended."""
    first = 0
    calls = [_Agent(name, out, tuple(given)) for name in names]
    with contextlib.closing(in_processes(_make, calls, jobs)) as made:
        for name, code in made:
            typer.echo(f"{name}: {f'ended with {code}, see {out / name / LOG_FILE}' if code else 'done'}", err=True)
            first = first or code
    return first


def _make(call: _Agent) -> tuple[str, int]:
    """Make an agent in this process, with its output in a log. Return its name and the exit code."""
    folder = call.out / call.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG_FILE).open("ab") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    sys.argv = ["onboard-engines", "ablations", "--out", str(call.out), "--only", call.name, *call.given]
    try:
        runpy.run_module("engines", run_name="__main__")
    except SystemExit as end:
        return call.name, code_of(end)
    except Exception:  # noqa: BLE001  # a bug: the log has the traceback, and other agents go on
        traceback.print_exc()
    return call.name, FAILED
