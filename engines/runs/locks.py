"""A lock: a folder that one training writes."""

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another training is writing it: wait for it, or use another --out") from error
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked: {error.strerror}") from error
        yield
