"""A recording in which another tool has joined a session with a second one like it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.rigs.recordings.replay_mutations import put_together, taken_apart

OFFSET = "wall_minus_monotonic_ns"
LATER_NS = 10**9 // 60
"""Half a tick, so that the ticks of the two alternate."""


def join_sessions(recording: Path, file: Path, second: str = "second") -> None:
    """Write to `file` what is recorded, and the same again half a tick later as a session of another name."""
    whole = taken_apart(recording.read_bytes())
    later = {**whole.session, "session": second, OFFSET: str(int(whole.session[OFFSET]) + LATER_NS)}
    moved = [replace(one, time_ns=one.time_ns + LATER_NS) for one in whole.messages]
    both = tuple(sorted([*whole.messages, *moved], key=lambda one: one.time_ns))
    file.write_bytes(put_together(replace(whole, messages=both), more_sessions=[later]))
