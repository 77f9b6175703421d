"""Runs the project's commands as processes on a DDS domain of their own, every wait bounded."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onboard.config.toml_text import toml_key, toml_value
from onboard.drivers.dds.participant import Reader, ReceivedMessage
from tests.rigs.machine.waiting import until

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
"""For what takes seconds; on a busy machine that compiles kernels for the first time, longer."""
START_S = 600.0


class Command:
    """One of our commands while it runs; what it says goes to files."""

    def __init__(
        self, module: str, *arguments: str | Path, folder: Path, domain: int | None = None,
        prefix: tuple[str, ...] = (), stdin: int = subprocess.DEVNULL,
    ) -> None:  # fmt: skip
        self.folder, self.domain = folder, domain
        self._out, self._err = (folder / f"{module}-{id(self)}.{kind}" for kind in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", module, *map(str, arguments)],
                cwd=folder,
                env=environment(domain),
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """What it wrote to standard output so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it wrote to standard error so far."""
        return self._err.read_text()

    def wait_for(self, words: str) -> None:
        """Return once standard error holds the words; fail when the command ends without."""

        def said() -> bool:
            assert words in self.err or self.process.poll() is None, f"ended with {self.process.returncode}: {self.err}"
            return words in self.err

        until(said, START_S)

    def wait(self, limit_s: float = PATIENCE_S) -> int:
        """Return the exit code."""
        return self.process.wait(limit_s)

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal to all its processes, as a terminal does."""
        os.killpg(self.process.pid, number)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end and return the exit code."""
        self.interrupt(number)
        return self.wait()


@contextlib.contextmanager
def running(module: str, *arguments: str | Path, **options: Any) -> Iterator[Command]:
    """Run a command; whatever happens, no process of it is left."""
    command = Command(module, *arguments, **options)
    try:
        yield command
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.wait()


def done(module: str, *arguments: str | Path, **options: Any) -> Command:
    """Run a command to its end."""
    with running(module, *arguments, **options) as command:
        command.wait(START_S)
        return command


def environment(domain: int | None) -> dict[str, str]:
    """Return the environment of a command: of this tree, on a domain. LINES would hide a test terminal's size."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("ROS_DOMAIN_ID", "LINES")}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = {} if domain is None else {"ROS_DOMAIN_ID": str(domain)}
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "120", **given}


def next_message(reader: Reader, wanted: Any = lambda sample: True, limit_s: float = PATIENCE_S) -> ReceivedMessage:
    """Return the first message from now on that is wanted."""
    found: list[ReceivedMessage] = []

    def arrived() -> bool:
        found.extend(message for message in reader.take() if wanted(message.sample))
        return bool(found)

    until(arrived, limit_s)
    return found[0]


def toml(path: Path, **tables: dict[str, Any]) -> Path:
    """Write tables of plain values as a configuration file."""
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        plain: dict[str, Any] = json.loads(json.dumps(table, default=str))
        lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in plain.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
