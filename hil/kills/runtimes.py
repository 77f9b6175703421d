"""Runtimes as processes that start within a second or two: forked by a server that has imported everything.

From `assembly.run_robot` on each one is what `onboard run` is: DDS, its claim, its devices, its threads. Only the
imports of Python, which take most of a start, are shared.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from onboard.assembly import run_robot
from onboard.config import load_config
from onboard.drivers.lifeline import die_with_parent
from onboard.log import configure

PRELOADED = ["hil.kills.runtimes", "onboard.assembly", "onboard.reactive"]


class Runtimes:
    """Starts runtimes of one configuration; all that they say is appended to `log`."""

    def __init__(self, config: Path, log: Path) -> None:
        self._config, self._log = config, log
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)

    @contextlib.contextmanager
    def running(self) -> Iterator[ForkServerProcess]:
        """Start a runtime, and leave none behind."""
        process = self._context.Process(target=_run, args=(self._config, self._log), daemon=True)
        process.start()
        try:
            yield process
        finally:
            process.kill()
            process.join()


def _run(config: Path, log: Path) -> None:
    """Be a runtime until a signal, and no longer than the server."""
    die_with_parent(os.getppid())
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    configure()
    run_robot(load_config(config), None, None)
