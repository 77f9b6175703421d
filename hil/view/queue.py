"""Bounded queue between reader and screen: a slow screen loses messages and never delays the reader."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from dataclasses import dataclass

from hil.recordings.recording import Screen, TopicMessage
from onboard.values.errors import InputError, OnboardError

MOST_MESSAGES = 2_000
MOST_BYTES = 64_000_000
CLOSE_S = 10.0
"""Timeout for the remaining messages at the end."""


@dataclass(frozen=True, slots=True)
class ViewCounts:
    """Counts of messages.

    shown:      given to the screen
    dropped:    by topic, because the queue was full
    unshowable: refused by the screen; problem: reason of the last refusal
    waiting:    still in the queue; at the end, those that the screen did not take in time
    """

    shown: int
    dropped: dict[str, int]
    unshowable: int
    problem: str
    waiting: int


class ScreenQueue:
    """Shows messages in its own thread. One other thread calls `put`, which never waits, and `close`.

    An error of the screen ends the thread; `put` and `close` then raise it.
    """

    def __init__(self, screen: Screen, most_messages: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> None:
        self._screen = screen
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self._queue: queue.SimpleQueue[TopicMessage | None] = queue.SimpleQueue()
        self._put = self._put_bytes = 0  # written only by the caller's thread
        self._dropped: Counter[str] = Counter()
        self._taken = self._taken_bytes = self._unshowable = 0  # written only by the showing thread
        self._problem = ""
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def put(self, message: TopicMessage) -> bool:
        """Queue one message. Returns False if the queue is full: the message is dropped and counted."""
        self._check()
        size = message.size_bytes
        waiting, waiting_bytes = self._put - self._taken, self._put_bytes - self._taken_bytes
        if self._closed or waiting >= self._most_messages or waiting_bytes + size > self._most_bytes:
            self._dropped[message.topic] += 1
            return False
        self._put += 1
        self._put_bytes += size
        self._queue.put(message)
        return True

    def stats(self) -> ViewCounts:
        """Return the counts so far."""
        taken = self._taken
        return ViewCounts(
            taken - self._unshowable, dict(self._dropped), self._unshowable, self._problem, self._put - taken
        )

    def close(self, timeout_s: float = CLOSE_S) -> ViewCounts:
        """Wait at most `timeout_s` for the queued messages and return the counts. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join(timeout_s)
        self._check()
        return self.stats()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while (message := self._queue.get()) is not None:
                self._show(message)
        except OnboardError as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise

    def _show(self, message: TopicMessage) -> None:
        try:
            self._screen.show(message)
        except InputError as error:
            self._unshowable += 1
            self._problem = f"{message.topic}: {error}"
        finally:
            self._taken += 1
            self._taken_bytes += message.size_bytes
