"""A command of this project as a child process that does not outlive the one that started it.

python -m hil.live.child_process PARENT MODULE ARGUMENT...
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from onboard.system.threads import die_with_parent
from onboard.values.errors import OnboardError

END_S = 15.0
"""Patience for a child that was asked to end."""
REFUSED = "error: "
"""How a command of ours begins its last words when it cannot do what was asked."""


class Child:
    """One process with its log. A Ctrl-C is for the parent, which ends its children in the right order."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        """Start `python -m ARGUMENTS`; all that it says goes to `log`."""
        self.name = name
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hil.live.child_process", str(os.getpid()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def check(self) -> None:
        """Raise OnboardError with its last words when it has ended."""
        code = self._process.poll()
        if code is None:
            return
        lines = self._log.read_text(errors="replace").strip().splitlines()
        words = lines[-1] if lines else "it said nothing"
        if words.startswith(REFUSED):
            raise OnboardError(f"{self.name}: {words.removeprefix(REFUSED)}")
        raise OnboardError(f"{self.name} ended with code {code}: {words} (all of it is in {self._log})")

    def end(self) -> None:
        """Ask it to end, wait, and kill it if it does not."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def main() -> None:
    """Run a module as `python -m` would, bound to the life of the parent."""
    parent, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
