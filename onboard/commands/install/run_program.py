"""Runs other programs to their end; what went wrong with one is one line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from types import FrameType

from onboard.system.signals import ENDING
from onboard.values.errors import InputError, OnboardError

# ---- Signals in the middle of an installation: the first one ends it, but nothing that must not be left half done


class EndedError(OnboardError):
    """A signal came in the middle of it. number: of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def signals_as_errors() -> Iterator[None]:
    """Let the first signal to end raise EndedError, so that everything is put back; further ones are left aside."""

    def ended(number: int, _frame: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise EndedError(number)

    before = {one: signal.signal(one, ended) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Leave signals to end aside, as the programs that are started in here do."""
    before = {one: signal.signal(one, signal.SIG_IGN) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


LIMIT_S = 1800.0
"""For the slowest of them: pip, building a package from source."""

SAID = 400
"""So much of another program's last words goes into a message."""


def run_tool(arguments: Sequence[str], complaint: str, limit_s: float = LIMIT_S) -> str:
    """Run a program to its end; return what it said on its error stream, where it ended well.

    Raises InputError: the complaint with the program's last line.

    It ends with all that it has started when it takes too long, or when this is interrupted. What the environment says
    to Python is left out: PYTHONPATH, which every ROS set-up sets, would put other packages before those of the new
    version.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
            close_fds=False,  # so that it holds the installation's lock even when the command itself is killed
        )
    except OSError as error:
        raise InputError(f"{complaint}: {arguments[0]}: {error.strerror}") from error
    with process:
        try:
            said, wrong = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{complaint}: not done after {limit_s:g} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = (wrong.strip() or said.strip() or f"exit code {process.returncode}").splitlines()
        telling = [line for line in lines if "error" in line.lower()] or lines
        raise InputError(f"{complaint}: {telling[-1].strip()[:SAID]}")
    return wrong
