"""Separates the messages of several sessions in one file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import TypeVar

from hil.recordings.recording import KEYFRAME, TICK, Recording, Session, TopicMessage
from onboard.values.errors import InputError

MOST_AHEAD = 64
"""Most times for which messages wait for their tick."""
OFFSET = "wall_minus_monotonic_ns"

Value = TypeVar("Value")


def messages_by_session(recording: Recording, only: Container[str]) -> Iterator[tuple[Session, TopicMessage]]:
    """Yield the messages of some topics, each with its session.

    All messages of a tick carry its start in wall time; the tick also has its start in the session's monotonic time.
    Their difference identifies the session. With several sessions, messages without a tick are left out.
    Raises InputError as `Recording.heard`, and if two sessions have the same difference.
    """
    if len(recording.sessions) == 1:
        for heard in recording.heard(only):
            yield recording.sessions[0], heard
        return
    by_offset = _by_offset(recording)
    ahead: OrderedDict[int, list[TopicMessage]] = OrderedDict()
    ticked: OrderedDict[int, Session] = OrderedDict()
    for heard in recording.heard(only):
        if heard.topic == TICK:
            before = ahead.pop(heard.time_ns, [])
            session = by_offset.get(heard.time_ns - heard.sample.start_ns)
            if session is not None:
                _keep(ticked, heard.time_ns, session)
                for one in (*before, heard):
                    yield session, one
        elif heard.topic == KEYFRAME:
            if heard.time_ns in ticked:
                yield ticked[heard.time_ns], heard
        else:
            _keep(ahead, heard.time_ns, [*ahead.get(heard.time_ns, []), heard])


def _by_offset(recording: Recording) -> dict[int, Session]:
    found: dict[int, Session] = {}
    for session in recording.sessions:
        text = session.record.get(OFFSET, "")
        try:
            offset_ns = int(text)
        except ValueError as error:
            raise InputError(f"{recording.path}: session {session.name} has no {OFFSET}: {text[:40]!r}") from error
        if offset_ns in found:
            others = f"{found[offset_ns].name} and {session.name}"
            raise InputError(f"{recording.path}: sessions {others} have the same {OFFSET}")
        found[offset_ns] = session
    return found


def _keep(kept: OrderedDict[int, Value], time_ns: int, value: Value) -> None:
    kept[time_ns] = value
    while len(kept) > MOST_AHEAD:
        kept.popitem(last=False)
