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
    Raises InputError as `Recording.read`, and if two sessions have the same difference.
    """
    if len(recording.sessions) == 1:
        for message in recording.read(only):
            yield recording.sessions[0], message
        return
    by_offset = _by_offset(recording)
    ahead: OrderedDict[int, list[TopicMessage]] = OrderedDict()
    ticked: OrderedDict[int, Session] = OrderedDict()
    for message in recording.read(only):
        if message.topic == TICK:
            before = ahead.pop(message.time_ns, [])
            session = by_offset.get(message.time_ns - message.sample.start_ns)
            if session is not None:
                _keep(ticked, message.time_ns, session)
                for one in (*before, message):
                    yield session, one
        elif message.topic == KEYFRAME:
            if message.time_ns in ticked:
                yield ticked[message.time_ns], message
        else:
            _keep(ahead, message.time_ns, [*ahead.get(message.time_ns, []), message])


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
