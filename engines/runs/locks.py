"""Locks: a folder that one training writes, and a file that several processes write in turn."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onboard.values.errors import InputError

LOCK_FILE = "lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder within the context. The kernel frees the lock when the process ends.

    Raises InputError if another process holds the lock, or the folder cannot be written.
    """
    with _locked(folder, LOCK_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def in_turn(file: Path) -> Iterator[None]:
    """Wait for the lock of a file and hold it within the context.

    The lock is a file next to it, because the file itself is replaced. Raises InputError if it cannot be written.
    """
    with _locked(file.parent, f"{file.name}.{LOCK_FILE}", fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(folder: Path, name: str, how: int) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / name).open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, how)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another training is writing it: wait for it, or use another --out") from error
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked: {error.strerror}") from error
        yield
