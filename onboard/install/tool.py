"""Runs other programs to their end; what went wrong with one is one line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from onboard.errors import InputError

LIMIT_S = 900.0
"""For the slowest of them: pip, building a package from source."""

SAID = 400
"""So much of another program's last words goes into a message."""


def run_tool(arguments: Sequence[str], complaint: str) -> None:
    """Run a program to its end. Raises InputError: the complaint with the program's last line."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
    except OSError as error:
        raise InputError(f"{complaint}: {arguments[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{complaint}: not done after {LIMIT_S:g} s") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        telling = [line for line in lines if "error" in line.lower()] or lines
        raise InputError(f"{complaint}: {telling[-1].strip()[:SAID]}")
