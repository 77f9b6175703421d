"""The folder of recordings: names that sort by time, a bound on size, repair of unfinished files."""

from __future__ import annotations

import errno
import fcntl
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import structlog

from onboard.recording.repair import Repair, repair_leftovers
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, InputError

# ---- The disk budget: the oldest files are deleted first; the operator's marked files stay

MARK = ".keep"
MIN_FREE_BYTES = 500e6
"""Disk space that recordings leave free for everything else."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds on recordings, from `config.RecordSection`.

    total_bytes: maximum size of all files, including the next file at its full size
    file_bytes:  full size of a file
    free_bytes:  disk space that stays free
    """

    total_bytes: float
    file_bytes: float
    free_bytes: float = MIN_FREE_BYTES


@dataclass(frozen=True, slots=True)
class StoredRecording:
    """A recording on the disk. fixed: in use or just finished, so not deleted now."""

    path: Path
    size_bytes: int
    marked: bool
    fixed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Files to delete before the next file, and whether the bounds hold afterwards.

    over_bytes: excess over `total_bytes` that remains, because the other files are marked or in use
    full:       less than `free_bytes` remains free, so recording must end
    """

    delete: tuple[Path, ...]
    over_bytes: float
    full: bool


def judge(recordings: Sequence[StoredRecording], budget: Budget, free_bytes: float) -> Verdict:
    """Return the files to delete before the next file. recordings: in the order of deletion."""
    total = sum(held.size_bytes for held in recordings) + budget.file_bytes
    delete = []
    for held in recordings:
        short_of_room = free_bytes < budget.free_bytes + budget.file_bytes
        if total <= budget.total_bytes and not short_of_room:
            break
        if held.marked or held.fixed:
            continue
        delete.append(held.path)
        total -= held.size_bytes
        free_bytes += held.size_bytes
    return Verdict(tuple(delete), max(0.0, total - budget.total_bytes), free_bytes < budget.free_bytes)


def disk_full(directory: Path, budget: Budget) -> OSError:
    """Return the error for a disk with less than `free_bytes` free."""
    free_mb = budget.free_bytes / 1_000_000
    return OSError(errno.ENOSPC, f"less than {free_mb:g} MB free", str(directory))


def is_marked(recording: Path) -> bool:
    """Return whether the operator marked the recording."""
    return _mark(recording).exists()


def mark(recording: Path, *, keep: bool) -> None:
    """Mark a recording, or remove the mark. Safe to call twice. Raises InputError."""
    try:
        if recording.suffix != ".mcap" or not recording.is_file():
            raise InputError(f"{recording}: not a recording (.mcap)")
        if keep:
            _mark(recording).touch()
        else:
            _mark(recording).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{recording}: cannot be marked: {error.strerror}") from error


def _mark(recording: Path) -> Path:
    return recording.with_name(recording.name + MARK)


log = structlog.get_logger()

NAME = re.compile(r"[A-Za-z0-9_.-]+")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def nearest(directory: Path) -> Path:
    """Return the folder or its nearest existing parent. Raises OSError without access."""
    folder = directory.absolute()
    return next(path for path in (folder, *folder.parents) if _is_there(path))


def check_usable(directory: Path) -> None:
    """Raise ConfigError if the folder, or its nearest existing parent, is not writable.

    The check creates a temporary file and no folder. A full disk is no error, because it ends recording, not driving.
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
        """Create the folder and choose the session's name. Raises OSError, or ConfigError for the robot's name."""
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"robot.name {name!r}: is part of the recordings' names: use only letters, digits and _ . -"
            )
        directory.mkdir(parents=True, exist_ok=True)
        self.current: Path | None = None
        self.files = 0
        self._directory = directory
        self._budget = budget
        self._ours = re.compile(re.escape(name) + r"_\d{8}-\d{6}_(\d{3,})\.mcap")
        self._session = self._unused(name, wall_ns // NS_PER_S)

    @property
    def session(self) -> str:
        """Return the session's name, `NAME_YYYYmmdd-HHMMSS`, unique in the folder."""
        return self._session.removesuffix("_")

    def recordings(self) -> list[Path]:
        """Return this robot's recordings, oldest first."""
        return sorted(path for path in self._directory.iterdir() if self._ours.fullmatch(path.name))

    def repair_leftovers(self) -> tuple[Repair, ...]:
        """Repair unfinished files, except files that another process is writing."""
        return repair_leftovers(path for path in self.recordings() if not _in_use(path))

    def next_path(self) -> Path:
        """Delete the oldest files until the budget has room; return the path of the session's next file.

        Files of this session are deleted last, because without a battery clock its date may be older than the others'.
        The previous file, files in use and marked files are never deleted. Raises OSError.
        """
        held = [self._held(path) for path in self.recordings()]
        held.sort(key=lambda recording: (recording.path.name.startswith(self._session), recording.path.name))
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

    def _held(self, path: Path) -> StoredRecording:
        return StoredRecording(path, _size(path), is_marked(path), path == self.current or _in_use(path))

    def _unused(self, name: str, wall_s: int) -> str:
        """Return the prefix of this session's file names, from the first free second."""
        while True:
            prefix = f"{name}_{datetime.fromtimestamp(wall_s, tz=timezone.utc):%Y%m%d-%H%M%S}_"
            if not any(path.name.startswith(prefix) for path in self.recordings()):
                return prefix
            wall_s += 1


def _is_there(path: Path) -> bool:
    """Return whether a file or folder exists. Raises OSError without access."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _size(path: Path) -> int:
    """Return a file's size, 0 if it does not exist."""
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
