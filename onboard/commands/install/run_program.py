"""Runs tools to their end, with one-line errors, and handles signals during an installation."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from onboard.system.signals import ENDING
from onboard.values.errors import InputError, OnboardError


class EndedError(OnboardError):
    """A signal ended the installation. number: the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def signals_as_errors() -> Iterator[None]:
    """Let the first ending signal raise EndedError, so that the installer rolls back; ignore all further signals."""

    def ended(number: int, _frame: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise EndedError(number)

    with _handling(ended):
        yield


def signals_ignored() -> contextlib.AbstractContextManager[None]:
    """Ignore ending signals in this process and in the programs that it starts meanwhile."""
    return _handling(signal.SIG_IGN)


@contextlib.contextmanager
def _handling(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Handle ending signals like this until the end of the block."""
    before = {one: signal.signal(one, handler) for one in ENDING}
    try:
        yield
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier)


LIMIT_S = 1800.0
"""For the slowest tool: pip, when it builds a package from source."""

MAX_ERROR_CHARACTERS = 400
"""Of a tool's last line that go into a message."""


def run_tool(arguments: Sequence[str], complaint: str, limit_s: float = LIMIT_S) -> str:
    """Run a program to its end; return its standard error.

    A timeout or an interruption kills the program with all its children. The environment's PYTHON* variables are left
    out: PYTHONPATH, which every ROS set-up sets, would hide packages of the new version.

    Raises InputError: the complaint with the program's last line.
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
            output, wrong = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{complaint}: timed out after {limit_s:g} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = (wrong.strip() or output.strip() or f"exit code {process.returncode}").splitlines()
        telling = [line for line in lines if "error" in line.lower()] or lines
        raise InputError(f"{complaint}: {telling[-1].strip()[:MAX_ERROR_CHARACTERS]}")
    return wrong
