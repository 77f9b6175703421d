"""A soak in several processes, each with a seed of its own: started, listened to, ended, joined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onboard.system.signals import Signals
from onboard.values.errors import OnboardError

RESULT = "result.json"
WAIT_S = 0.5


def run_jobs(arguments: Sequence[str], folders: Sequence[Path], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run `onboard-hil soak` once for each seed; return their results. What they say is said here.

    arguments: of all of them. A signal ends them with the results so far. Raises OnboardError where one left none.
    """
    children = [_start(arguments, folder, seed) for folder, seed in zip(folders, seeds, strict=True)]

    def end() -> None:
        for child in children:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGINT)

    pause = threading.Event()
    with Signals() as signals:
        signals.stop_with(end)
        while any(child.poll() is None for child in children):
            pause.wait(WAIT_S)
    return [_result(folder, seed) for folder, seed in zip(folders, seeds, strict=True)]


def _start(arguments: Sequence[str], folder: Path, seed: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    own = ["--seed", str(seed), "--out", str(folder), "--json", str(folder / RESULT)]
    lifeline = [sys.executable, "-m", "hil.live.child", str(os.getpid()), "hil", "soak"]
    return subprocess.Popen([*lifeline, *arguments, *own], start_new_session=True)


def _result(folder: Path, seed: int) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads((folder / RESULT).read_text())["processes"][0]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise OnboardError(f"the process with seed {seed} left no result: {error}") from error
    return result
