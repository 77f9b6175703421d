"""What waits to be recorded: a bounded queue from the thread of the ticks, which never waits, to the writing one."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from onboard.record_file import MessageType

SEQUENCE_WRAP = 2**32

Payload = bytes | Callable[[], bytes]


class Message(NamedTuple):
    """What goes into the file.

    payload: CDR, or a function that gives it, called in the writing thread
    latched: written again at the start of each further file, for what is published once (`/tf_static`)
    """

    topic: str
    kind: MessageType
    payload: Payload
    latched: bool = False


class Queued(NamedTuple):
    """Messages that belong together. log_ns: their wall time; number: theirs in the session, shows where some are lost.

    messages: gone through once, in the writing thread; a generator makes them there
    """

    messages: Iterable[Message]
    log_ns: int
    number: int
    held_bytes: int


class Signal(Enum):
    """What is no message."""

    CLOSE = auto()


class RecordQueue:
    """Bounded by count and by bytes held. One thread puts, one other takes; each changes only counts of its own."""

    def __init__(self, most: int, most_bytes: float) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._queue: queue.SimpleQueue[Queued | Signal] = queue.SimpleQueue()
        self._number = self.refused = self._put_bytes = 0
        self._taken = self._taken_bytes = 0

    @property
    def waiting(self) -> int:
        """Return how many have been put and not taken."""
        return self._number - self.refused - self._taken

    @property
    def waiting_bytes(self) -> int:
        """Return what they hold in memory."""
        return self._put_bytes - self._taken_bytes

    def put(self, messages: Iterable[Message], log_ns: int, held_bytes: int) -> bool:
        """Queue what belongs together; return False, and count it, when it does not fit. Never waits."""
        if self.waiting >= self._most or self.waiting_bytes + held_bytes > self._most_bytes:
            self.refuse()
            return False
        self._number += 1
        self._put_bytes += held_bytes
        self._queue.put(Queued(messages, log_ns, self._number % SEQUENCE_WRAP, held_bytes))
        return True

    def refuse(self) -> None:
        """Count what is not queued."""
        self._number += 1
        self.refused += 1

    def close(self) -> None:
        """Queue the end."""
        self._queue.put(Signal.CLOSE)

    def next(self, due_s: float | None) -> Queued | Signal | None:
        """Return what comes next, or None when nothing came until `due_s`, monotonic; None waits for ever."""
        try:
            item = self._queue.get(timeout=None if due_s is None else max(0.0, due_s - time.monotonic()))
        except queue.Empty:
            return None
        if isinstance(item, Queued):
            self._taken += 1
            self._taken_bytes += item.held_bytes
        return item
