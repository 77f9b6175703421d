"""How far an `onboard route` is, for `onboard status` of the same user: the route writes a file that it locks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onboard.config.config import Config
from onboard.drivers.dds.participant import wait_until
from onboard.values.errors import InputError

LOOK_S = 0.5


def file_of(config: Config) -> Path | None:
    """Return the file of a robot's route, in the user's cache folder; None without a home folder."""
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ["HOME"] + "/.cache" if os.environ.get("HOME") else "")
    return Path(home) / "onboard" / f"{config.robot.name}-{config.dds.domain}.route" if home else None


class Progress:
    """The progress of one route. skipped: places that were not reached."""

    def __init__(self, file: IO[str] | None, places: int, loop: bool) -> None:
        self._file, self._places, self._loop = file, places, loop
        self.skipped: list[str] = []

    def say(self, lap: int, number: int, name: str, doing: str) -> None:
        """Write the progress. lap, number: from 1 on; doing: "driving", or "waiting 12 s"."""
        if self._file is None:
            return
        lap_text = f", round {lap}" if self._loop else ""
        skipped = f", skipped: {', '.join(dict.fromkeys(self.skipped))}" if self.skipped else ""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"place {number} of {self._places} ({name}){lap_text}, {doing}{skipped}")
        self._file.flush()


@contextmanager
def progress(config: Config, places: int, loop: bool) -> Iterator[Progress]:
    """Give the progress of a route while it is driven. Raises InputError if the user drives another one."""
    path = file_of(config)
    if path is None:
        yield Progress(None, places, loop)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError:  # the route drives, and status does not show it
        yield Progress(None, places, loop)
        return
    with file:
        if not wait_until(lambda: _lock(file), LOOK_S):  # `onboard status` holds it for a moment
            raise InputError(f"another onboard route drives this robot: {_text(file)}; end it first")
        yield Progress(file, places, loop)
        file.truncate(0)


def current(config: Config) -> str | None:
    """Return how far the route of this user is, None without one."""
    path = file_of(config)
    if path is None or not path.exists():
        return None
    try:
        with path.open("a+", encoding="utf-8") as file:
            return None if _lock(file) else _text(file)
    except OSError:
        return None


def _lock(file: IO[str]) -> bool:
    """Return whether nobody else holds the file; then this process does until it closes it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
