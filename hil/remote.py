"""Files at URLs, through fsspec (extra `remote`): S3, HTTP, SSH and whatever else it knows. The only file that uses it.

A recording is copied whole before it is replayed: every part of it is read anyway, not every server lets one seek, and
a copy is not read while it changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onboard.errors import InputError, MissingExtraError

try:
    import fsspec
except ImportError:
    fsspec = None

SCHEME = "://"
MAGIC = "*?["
FAILURES = (OSError, ValueError, RuntimeError, ImportError, asyncio.TimeoutError)
"""What file systems raise; `_failures` adds what the library below HTTP does."""


def is_url(place: str) -> bool:
    """Return whether a text names a file elsewhere."""
    return SCHEME in place


def listed(url: str, suffix: str) -> list[str]:
    """Return the files that a URL means, sorted: its own, those of a pattern, or those in a folder with a suffix.

    Raises InputError in one line; MissingExtraError without fsspec.
    """
    with _reaching(url) as (files, path):
        if any(sign in path for sign in MAGIC):
            found = files.glob(path)
        elif path.endswith(suffix) or not files.isdir(path):
            return [url]
        else:
            found = files.glob(f"{path.rstrip('/')}/*{suffix}")
        return sorted(_url(files, one) for one in found)


def head_of(url: str, length: int) -> bytes:
    """Return the first bytes of a file. Raises as `listed`."""
    with _reaching(url) as (files, path):
        head: bytes = files.cat_file(path, start=0, end=length)
        return head[:length]


@contextlib.contextmanager
def copied(url: str) -> Iterator[Path]:
    """Hold a copy of a file. Raises as `listed`."""
    with tempfile.TemporaryDirectory(prefix="onboard-") as folder:
        here = Path(folder) / (url.rstrip("/").rpartition("/")[2] or "recording")
        with _reaching(url) as (files, path):
            files.get_file(path, str(here))
        yield here


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[tuple[Any, str]]:
    """Give the file system of a URL and the path in it; name the URL in what goes wrong."""
    if fsspec is None:
        raise MissingExtraError("fsspec", "remote")
    try:
        yield fsspec.core.url_to_fs(url)
    except _failures() as error:
        why = " ".join(str(error).split()) or type(error).__name__
        missing = isinstance(error, FileNotFoundError)
        raise InputError(f"{url}: {'no such file' if missing else f'cannot be read: {why}'}") from error


def _failures() -> tuple[type[BaseException], ...]:
    try:
        from fsspec.implementations import http
    except ImportError:
        return FAILURES
    return (*FAILURES, http.aiohttp.ClientError)


def _url(files: Any, path: str) -> str:
    url: Sequence[str] | str = files.unstrip_protocol(path)
    return url if isinstance(url, str) else url[0]
