"""Runs a command of this project as a child process. The child ends when its parent process ends.

python -m hil.live.child_process PARENT MODULE...     imports modules and waits on standard input for its command
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from onboard.system.threads import die_with_parent
from onboard.values.errors import OnboardError

END_S = 15.0
"""Timeout for a child to exit after its SIGINT; then it gets SIGKILL."""
REFUSED = "error: "
"""Prefix of the last log line of a command of this project that refuses its task."""


class Interpreter:
    """A child process that imports modules and then waits for its command, so that its start takes less time."""

    def __init__(self, *modules: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hil.live.child_process", str(os.getpid()), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._waits = True

    def run(self, arguments: Sequence[str], log: Path) -> None:
        """Run `python -m ARGUMENTS`. Its standard output and standard error go to the file `log`."""
        log.write_bytes(b"")
        self._waits = False
        order = json.dumps({"arguments": list(arguments), "log": str(log.resolve())})
        with contextlib.suppress(BrokenPipeError), cast(IO[bytes], self.process.stdin) as stdin:
            stdin.write(f"{order}\n".encode())

    def close(self) -> None:
        """End the process if it still waits for its command."""
        if self._waits:
            self._waits = False
            self.process.kill()
            self.process.communicate()


class Child:
    """A child process with a log file. Ctrl-C reaches only the parent, which ends its children in the right order."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path, interpreter: Interpreter | None = None) -> None:
        """Start `python -m ARGUMENTS`, as `Interpreter.run`."""
        self.name = name
        self._log = log
        interpreter = interpreter or Interpreter()
        with contextlib.closing(interpreter):
            interpreter.run(arguments, log)
        self._process = interpreter.process

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def runs(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return the content of the log file."""
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        """Raise OnboardError with the last line of its log if the child has ended."""
        code = self._process.poll()
        if code is None:
            return
        lines = self.output().strip().splitlines()
        words = lines[-1] if lines else "it printed nothing"
        if words.startswith(REFUSED):
            raise OnboardError(f"{self.name}: {words.removeprefix(REFUSED)}")
        raise OnboardError(f"{self.name} ended with code {code}: {words} (full output: {self._log})")

    def end(self) -> None:
        """Send SIGINT to the child's process group and wait `END_S` seconds. Then kill the group if the child runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def main() -> None:
    """Run a module as `python -m` does, and end it when the parent process ends."""
    parent, *modules = sys.argv[1:]
    die_with_parent(int(parent))
    for module in modules:
        with contextlib.suppress(ImportError):  # the command itself says what is missing
            importlib.import_module(module)
    order = sys.stdin.readline()
    if not order:
        return
    given = json.loads(order)
    for file, mode, numbers in ((os.devnull, os.O_RDONLY, (0,)), (given["log"], os.O_WRONLY | os.O_APPEND, (1, 2))):
        opened = os.open(file, mode)
        for number in numbers:
            os.dup2(opened, number)
        os.close(opened)
    module, *arguments = given["arguments"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
