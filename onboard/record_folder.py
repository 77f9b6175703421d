"""The folder of recordings: names that sort by time, bounds on their number and size, what earlier sessions left."""

from __future__ import annotations

import errno
import fcntl
import re
import shutil
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import structlog

from onboard.errors import ConfigError
from onboard.record_budget import Budget, Held, disk_full, is_marked, judge
from onboard.repair import Repair, repair_leftovers

log = structlog.get_logger()

NS_PER_S = 1_000_000_000
NAME = re.compile(r"[A-Za-z0-9_.-]+")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def nearest(directory: Path) -> Path:
    """Return the folder, or what is there of the way to it. Raises OSError where this user cannot see that."""
    folder = directory.absolute()
    return next(one for one in (folder, *folder.parents) if _is_there(one))


def check_usable(directory: Path) -> None:
    """Raise ConfigError when no file could be made in a folder, or on the way to one that is not there yet.

    A file without a name is made there, no folder. A full disk does not count: it ends recording, not driving.
    """
    try:
        with tempfile.TemporaryFile(dir=nearest(directory)):
            pass
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise ConfigError(f"record.directory {directory}: cannot be used: {error.strerror}") from error


class Folder:
    """Recordings of one robot, `NAME_YYYYmmdd-HHMMSS_000.mcap` in UTC; other files in the folder are not touched."""

    def __init__(self, directory: Path, name: str, wall_ns: int, budget: Budget) -> None:
        """Create the folder and settle the session's name. Raises ConfigError for the robot's name, or OSError."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"robot.name {name!r}: names recordings, so only letters, digits and _ . - are taken")
        directory.mkdir(parents=True, exist_ok=True)
        self.current: Path | None = None
        self.files = 0
        self._directory = directory
        self._budget = budget
        self._ours = re.compile(re.escape(name) + r"_\d{8}-\d{6}_(\d{3,})\.mcap")
        self._session = self._unused(name, wall_ns // NS_PER_S)

    @property
    def session(self) -> str:
        """Return the session's name, `NAME_YYYYmmdd-HHMMSS`, which no other in the folder has."""
        return self._session.removesuffix("_")

    def recordings(self) -> list[Path]:
        """Return this robot's recordings, oldest first."""
        return sorted(path for path in self._directory.iterdir() if self._ours.fullmatch(path.name))

    def repair_leftovers(self) -> tuple[Repair, ...]:
        """Make whole what a killed session left unfinished. Those that another process is writing are let alone."""
        return repair_leftovers(path for path in self.recordings() if not _in_use(path))

    def next_path(self) -> Path:
        """Return the name of the session's next file, after deleting the oldest that the budget has no room for.

        Files of this session go last, since a robot without a battery clock may have dated it before the others; the
        one before the new one, those in use, and those that a person marked are never deleted. Raises OSError.
        """
        held = [self._held(path) for path in self.recordings()]
        held.sort(key=lambda one: (one.path.name.startswith(self._session), one.path.name))
        verdict = judge(held, self._budget, shutil.disk_usage(self._directory).free)
        for path in verdict.delete:
            path.unlink(missing_ok=True)
        if verdict.over_bytes:
            log.warning("recordings_over_budget", bytes=round(verdict.over_bytes), marked=sum(x.marked for x in held))
        if verdict.full:
            raise disk_full(self._directory, self._budget)
        self.current = self._directory / f"{self._session}{self.files:03d}.mcap"
        self.files += 1
        return self.current

    def _held(self, path: Path) -> Held:
        return Held(path, _size(path), is_marked(path), path == self.current or _in_use(path))

    def _unused(self, name: str, wall_s: int) -> str:
        """Return the first part of this session's file names; a second that is taken already gives the next one."""
        while True:
            prefix = f"{name}_{datetime.fromtimestamp(wall_s, tz=timezone.utc):%Y%m%d-%H%M%S}_"
            if not any(path.name.startswith(prefix) for path in self.recordings()):
                return prefix
            wall_s += 1


def _is_there(path: Path) -> bool:
    """Return whether there is such a file or folder. Raises OSError where this user cannot see that."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _size(path: Path) -> int:
    """Return a file's size, 0 for one that is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _in_use(path: Path) -> bool:
    """Return whether a process is recording into the file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
