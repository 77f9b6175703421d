"""Finds recordings (files, folders, patterns, URLs) and groups the files of a session."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import glob
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from mcap.exceptions import McapError
from mcap.records import Header, Metadata
from mcap.stream_reader import StreamReader

from hil.recordings.recording import part_of, session_name
from onboard.recording.mcap_file import SESSION
from onboard.recording.mcap_summary import MAGIC
from onboard.recording.repair import is_finished, repair
from onboard.values.errors import InputError, MissingExtraError

# ---- Files at URLs through fsspec (extra `remote`): S3, HTTP, SSH and others

try:
    import fsspec
except ImportError:
    fsspec = None

SCHEME = "://"
GLOB_SIGNS = "*?["
FAILURES = (OSError, ValueError, RuntimeError, ImportError, asyncio.TimeoutError)
"""Errors of file systems; `_failures` adds those of the HTTP library."""


def is_url(place: str) -> bool:
    """Return whether a text is a URL."""
    return SCHEME in place


def listed(url: str, suffix: str) -> list[str]:
    """Return the sorted files of a URL: the file itself, the matches of a pattern, or a folder's files with `suffix`.

    Raises InputError in one line; MissingExtraError without fsspec.
    """
    with _reaching(url) as (files, path):
        if any(sign in path for sign in GLOB_SIGNS):
            found = files.glob(path)
        elif path.endswith(suffix) or not files.isdir(path):
            return [url]
        else:
            found = files.glob(f"{path.rstrip('/')}/*{suffix}")
        return sorted(_url(files, one) for one in found)


def head_of(url: str, length: int) -> bytes:
    """Return at most `length` first bytes of a file. Raises as `listed`."""
    with _reaching(url) as (files, path):
        head: bytes = files.cat_file(path, start=0, end=length)
        return head[:length]


@contextlib.contextmanager
def copied(url: str) -> Iterator[Path]:
    """Yield a local copy of a file. Raises as `listed`."""
    with tempfile.TemporaryDirectory(prefix="onboard-") as folder:
        here = Path(folder) / (url.rstrip("/").rpartition("/")[2] or "recording")
        with _reaching(url) as (files, path):
            files.get_file(path, str(here))
        yield here


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL and the path in it; errors name the URL."""
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


# ---- A recording that a crash cut off: read from a repaired copy


@contextlib.contextmanager
def completed(path: Path) -> Iterator[Path]:
    """Yield a finished recording: the file itself, or a repaired copy if it was cut off.

    Any other file is yielded unchanged; opening it reports the problem. Raises InputError that names the file if it is
    still being recorded or cannot be repaired.
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


SUFFIX = ".mcap"
HEAD_BYTES = 1 << 20
"""A recording begins with configuration, mounts and plant: a few tens of kB."""


@dataclass(frozen=True, slots=True)
class RecordingGroup:
    """Files that are replayed together in this order: those of one session, or one file."""

    sources: tuple[str, ...]

    @property
    def map(self) -> str:
        """Affinity of a job to a worker (`hil.jobs`): none."""
        return ""

    def __str__(self) -> str:
        others = len(self.sources) - 1
        return f"{self.sources[0]} and {others} more of its session" if others else self.sources[0]


def found_in(places: Sequence[str]) -> list[str]:
    """Return the recordings at the places, each once, sorted within a place; folders are searched recursively.

    Raises InputError for a place without a recording.
    """
    files: dict[str, None] = {}
    for place in places:
        found = listed(place, SUFFIX) if is_url(place) else _found_here(place)
        if not found:
            raise InputError(f"{place}: no recording there (*{SUFFIX})")
        files |= dict.fromkeys(found)
    return list(files)


def _found_here(place: str) -> list[str]:
    path = Path(place)
    if path.is_dir():
        return sorted(map(str, path.rglob(f"*{SUFFIX}")))
    if path.exists() or not glob.has_magic(place):
        return [str(path)]  # reading it reports problems
    return sorted(glob.glob(place, recursive=True))


@contextlib.contextmanager
def local(source: str) -> Iterator[Path]:
    """Yield a source as a local file. Raises InputError."""
    if not is_url(source):
        yield Path(source)
        return
    with copied(source) as path:
        yield path


def takes_of(sources: Sequence[str]) -> list[RecordingGroup]:
    """Return the takes in the order of their first files.

    Files of one session in one folder are one take, ordered by their number. A second file with the same number (a
    copy) begins another take. An unreadable file is a take of its own: replaying it reports the problem.
    """
    takes: list[dict[int, str]] = []
    of_session: dict[tuple[str, str], list[dict[int, str]]] = {}
    for source in sources:
        record = _record_of(source)
        if record is None:
            takes.append({0: source})
            continue
        known = of_session.setdefault((source.rpartition("/")[0], session_name(record)), [])
        part = part_of(record)
        take = next((one for one in known if part not in one), None)
        if take is None:
            take = {}
            known.append(take)
            takes.append(take)
        take[part] = source
    return [RecordingGroup(tuple(take[part] for part in sorted(take))) for take in takes]


def _record_of(source: str) -> Mapping[str, str] | None:
    """Return the session record at the beginning of a recording, or None."""
    try:
        head = head_of(source, HEAD_BYTES) if is_url(source) else _head_here(source)
        for record in StreamReader(BytesIO(head), record_size_limit=HEAD_BYTES).records:
            if isinstance(record, Metadata) and record.name == SESSION:
                return record.metadata
            if not isinstance(record, Header):
                return None
    except (OSError, InputError, McapError, ValueError, OverflowError, struct.error):
        return None
    return None


def _head_here(source: str) -> bytes:
    with Path(source).open("rb") as file:
        return file.read(HEAD_BYTES)
