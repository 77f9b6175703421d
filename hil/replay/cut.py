"""A recording that a crash has cut off, as a whole one: a repaired copy, for as long as it is read."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from onboard.errors import InputError
from onboard.record_summary import MAGIC
from onboard.repair import is_finished, repair


@contextlib.contextmanager
def completed(path: Path) -> Iterator[Path]:
    """Hold a recording as a finished file: itself, or a repaired copy where it was cut off; it is not touched.

    What is no recording is held as it is: opening it says why. Raises InputError that names the file where it is still
    being recorded, or cannot be repaired.
    """
    if not _is_cut_off(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="onboard-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
            repair(copy)
        except InputError as error:
            raise InputError(str(error).replace(str(copy), str(path))) from error
        except OSError as error:
            raise InputError(f"{path}: no repaired copy can be made: {error.strerror or error}") from error
        yield copy


def _is_cut_off(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC or is_finished(path):
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"{path}: unfinished: is being recorded") from error
    except OSError:
        return False
    return True
