"""Agents made side by side: calls of `onboard-engines ablations --only NAME`, so many at a time, none left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from onboard.values.errors import InputError

LOG_FILE = "log.txt"
POLL_S, END_S = 1.0, 10.0
"""How often it is looked, and how long one that is to end may take."""
FOLLOWING = (
    "import sys; from onboard.system.threads import die_with_parent; die_with_parent(int(sys.argv.pop(1))); "
    "from engines.__main__ import main; main()"
)
"""The command, as a process that ends with the one that began it."""

Running = dict[str, "subprocess.Popen[bytes]"]


def side_by_side(names: Sequence[str], out: Path, jobs: int, given: Sequence[str]) -> int:
    """Make agents by calls of the command, so many at a time; return the first exit code that is not 0.

    given: options of each call, beside its agent. Whatever ends this, no call is left.
    """
    waiting, running, code = list(names), Running(), 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs and not code:
                running[waiting[0]] = _begin(waiting[0], out, given)
                del waiting[0]
            if not running:
                break
            name = _ended(running)
            ended = running.pop(name).returncode
            typer.echo(
                f"{name}: {'done' if ended == 0 else f'ended with {ended}, see {out / name / LOG_FILE}'}", err=True
            )
            code = code or ended
    finally:
        _end(running.values())
    return code


def _begin(name: str, out: Path, given: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", FOLLOWING, str(os.getpid()), "ablations", "--out", str(out), "--only", name]
    try:
        (out / name).mkdir(parents=True, exist_ok=True)
        with (out / name / LOG_FILE).open("ab") as log:
            return subprocess.Popen([*command, *given], stdout=log, stderr=log)
    except OSError as error:
        raise InputError(f"{out / name}: cannot be written: {error.strerror}") from error


def _ended(running: Running) -> str:
    """Wait until one has ended and return its name."""
    while True:
        for name, process in running.items():
            try:
                process.wait(POLL_S / len(running))
            except subprocess.TimeoutExpired:
                continue
            return name


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ask all to end, and end those that do not."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
