"""A model and its manifest are put in place one right after the other, each whole: a pair that was torn is refused."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from onboard.errors import InputError


@contextlib.contextmanager
def staged(model: Path) -> Iterator[Path]:
    """Give a path of the same name in a folder beside `model` where to write it and its manifest; then replace both.

    Nothing is replaced when the body raises or is killed: the old pair stays. Two files cannot be replaced at once: the
    model goes first and the manifest last, so an export that is killed between the two leaves the new model beside the
    old manifest. Its hash does not fit the model, so that whoever loads the two is refused, until the export is made
    again. Raises InputError when something cannot be written.
    """
    folder = model.with_name(f".{model.name}.part")
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of an export that was killed
        folder.mkdir()
        yield folder / model.name
        for written in sorted(folder.iterdir(), key=lambda path: path.name != model.name):
            _synchronize(written)
            os.replace(written, model.with_name(written.name))
        _synchronize(model.parent)
    except OSError as error:
        raise InputError(f"{model}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _synchronize(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
