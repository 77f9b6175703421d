"""Which of some recordings are files of one session, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.recording import open_recording

Key = tuple[str, ...]


def sessions_of(files: Sequence[Path]) -> list[list[Path]]:
    """Return the files by session, each in the order in which it was written. Raises InputError for an unreadable one.

    A session is one start of a recorder: no two of one machine began in the same nanosecond.
    """
    found: dict[Key, list[tuple[int, Path]]] = {}
    for file in dict.fromkeys(files):
        with open_recording(file) as recording:
            number = recording.session.get("file_number", "0")
            found.setdefault(_key(recording.session), []).append((int(number) if number.isdecimal() else 0, file))
    return [[file for _, file in sorted(numbered)] for numbered in found.values()]


def _key(session: Mapping[str, str]) -> Key:
    return tuple(session.get(name, "") for name in ("session", "wall_minus_monotonic_ns", "robot", "machine"))
