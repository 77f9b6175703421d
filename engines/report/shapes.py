"""Files whose values have another shape than their place says: one line that names the file, wherever it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onboard.errors import InputError

WRONG_SHAPE = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError)
"""What reading values of another shape ends with."""


@contextmanager
def shaped(file: Path, what: str) -> Iterator[None]:
    """Raise InputError, `file: what: why`, where values of another shape are met inside."""
    try:
        yield
    except WRONG_SHAPE as error:
        raise InputError(f"{file}: {what}: {error!r}") from error
