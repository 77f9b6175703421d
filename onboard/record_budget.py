"""The disk that recordings may take: the oldest go first, those that a person marked stay.

A recording is marked by a file beside it, `X.mcap.keep`; `onboard keep X.mcap` makes it. Marked ones count against
`max_total_mb`, but not against `max_files`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onboard.errors import InputError

MARK = ".keep"


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds on recordings, those of `config.RecordSection`.

    files:       at most so many that are not marked, the next one among them
    total_bytes: at most so much in all, the next one at its full size among it
    file_bytes:  full size of a file
    free_bytes:  to be left free on the disk for others
    """

    files: int
    total_bytes: float
    file_bytes: float
    free_bytes: float


@dataclass(frozen=True, slots=True)
class Held:
    """A recording on the disk. fixed: in use or just finished, so that it is never deleted now."""

    path: Path
    size_bytes: int
    marked: bool
    fixed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to delete before the next file, and whether the bounds hold then.

    over_bytes: by so much the recordings pass `total_bytes` all the same, since the others may not be deleted
    full:       less than `free_bytes` would be left even so: nothing more may be recorded
    """

    delete: tuple[Path, ...]
    over_bytes: float
    full: bool


def judge(recordings: Sequence[Held], budget: Budget, free_bytes: float) -> Verdict:
    """Return what has to go before another file is begun. `recordings` in the order in which they may be deleted."""
    number = sum(not one.marked for one in recordings) + 1
    total = sum(one.size_bytes for one in recordings) + budget.file_bytes
    delete = []
    for one in recordings:
        short_of_room = free_bytes < budget.free_bytes + budget.file_bytes
        if number <= budget.files and total <= budget.total_bytes and not short_of_room:
            break
        if one.marked or one.fixed:
            continue
        delete.append(one.path)
        number -= 1
        total -= one.size_bytes
        free_bytes += one.size_bytes
    return Verdict(tuple(delete), max(0.0, total - budget.total_bytes), free_bytes < budget.free_bytes)


def disk_full(directory: Path, budget: Budget) -> OSError:
    """Return the error of a disk on which the recordings would leave others too little."""
    free_mb = budget.free_bytes / 1_000_000
    return OSError(errno.ENOSPC, f"less than {free_mb:g} MB free (record.min_free_mb)", str(directory))


def is_marked(recording: Path) -> bool:
    """Return whether a person wants to keep it."""
    return _mark(recording).exists()


def mark(recording: Path, *, keep: bool) -> None:
    """Mark a recording, or take the mark away; doing it again changes nothing. Raises InputError."""
    try:
        if recording.suffix != ".mcap" or not recording.is_file():
            raise InputError(f"{recording}: is no recording (.mcap)")
        if keep:
            _mark(recording).touch()
        else:
            _mark(recording).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{recording}: cannot be marked: {error.strerror}") from error


def _mark(recording: Path) -> Path:
    return recording.with_name(recording.name + MARK)
