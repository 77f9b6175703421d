"""Where recordings are: files, folders, patterns and URLs; and which of them belong together."""

from __future__ import annotations

import contextlib
import glob
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from mcap.exceptions import McapError
from mcap.records import Header, Metadata
from mcap.stream_reader import StreamReader

from hil.recording import part_of, session_name
from hil.remote import copied, head_of, is_url, listed
from onboard.errors import InputError
from onboard.record_file import SESSION

SUFFIX = ".mcap"
HEAD_BYTES = 1 << 20
"""Ours begin with what they are of: configuration, mounts and plant, a few tens of kB."""


@dataclass(frozen=True, slots=True)
class Take:
    """What is replayed together, in this order: the files of one session, or one file."""

    sources: tuple[str, ...]

    @property
    def map(self) -> str:
        """Return what workers should stay with (`evaluate.workers`): nothing."""
        return ""

    def __str__(self) -> str:
        others = len(self.sources) - 1
        return f"{self.sources[0]} and {others} more of its session" if others else self.sources[0]


def found_in(places: Sequence[str]) -> list[str]:
    """Return the recordings that are meant, each once, sorted within a place; of a folder those in its folders too.

    Raises InputError for a place without any.
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
        return [str(path)]  # reading it says what may be wrong
    return sorted(glob.glob(place, recursive=True))


@contextlib.contextmanager
def local(source: str) -> Iterator[Path]:
    """Hold a source as a file of this machine. Raises InputError."""
    if not is_url(source):
        yield Path(source)
        return
    with copied(source) as path:
        yield path


def takes_of(sources: Sequence[str]) -> list[Take]:
    """Return what belongs together, in the order of its first files.

    Files of one session in one folder are one take, by their number in it; a second file of the same number, a copy, is
    another. What cannot be read is one by itself: replaying it says why.
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
    return [Take(tuple(take[part] for part in sorted(take))) for take in takes]


def _record_of(source: str) -> Mapping[str, str] | None:
    """Return what a recording says of its session at its beginning, None where it does not."""
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
