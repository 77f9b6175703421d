"""A training's folder belongs to one process at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onboard.errors import InputError

LOCK_FILE = "lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep a folder to this process for a while; the system frees it when the process ends, however it does.

    Raises InputError where another one has it, or it cannot be written.
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
            raise InputError(f"{folder}: another training is writing it: wait for it, or give another --out") from error
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked: {error.strerror}") from error
        yield
