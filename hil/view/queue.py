"""The bounded queue between listening and showing: a slow screen costs pictures, never the time of whoever listens."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from dataclasses import dataclass

from hil.recordings.recording import Heard, Screen
from onboard.values.errors import InputError, OnboardError

MOST_MESSAGES = 2_000
MOST_BYTES = 64_000_000
CLOSE_S = 10.0
"""How long the end waits for a screen to take the rest."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of the messages.

    shown:      were given to the screen
    dropped:    were not, by topic: the queue was full
    unshowable: were refused by the screen; `problem` is why the last one was
    waiting:    are in the queue; at the end, those that the screen did not take in time
    """

    shown: int
    dropped: dict[str, int]
    unshowable: int
    problem: str
    waiting: int


class Pump:
    """Shows messages in a thread of its own. `put` and `close` belong to one other thread, which never waits in `put`.

    What a failing screen raises ends the thread; `put` and `close` then raise it.
    """

    def __init__(self, screen: Screen, most_messages: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> None:
        self._screen = screen
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self._queue: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()
        self._put = self._put_bytes = 0  # changed by the caller's thread alone
        self._dropped: Counter[str] = Counter()
        self._taken = self._taken_bytes = self._unshowable = 0  # by the showing thread alone
        self._problem = ""
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def put(self, heard: Heard) -> bool:
        """Queue one message; return False when it was dropped and counted, because the queue is full."""
        self._check()
        size = heard.size_bytes
        waiting, waiting_bytes = self._put - self._taken, self._put_bytes - self._taken_bytes
        if self._closed or waiting >= self._most_messages or waiting_bytes + size > self._most_bytes:
            self._dropped[heard.topic] += 1
            return False
        self._put += 1
        self._put_bytes += size
        self._queue.put(heard)
        return True

    def stats(self) -> Shown:
        """Return the counts so far."""
        taken = self._taken
        return Shown(taken - self._unshowable, dict(self._dropped), self._unshowable, self._problem, self._put - taken)

    def close(self, timeout_s: float = CLOSE_S) -> Shown:
        """Let the screen take what is queued, at most so long, and return the counts. Safe to call twice."""
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
            while (heard := self._queue.get()) is not None:
                self._show(heard)
        except OnboardError as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise

    def _show(self, heard: Heard) -> None:
        try:
            self._screen.show(heard)
        except InputError as error:
            self._unshowable += 1
            self._problem = f"{heard.topic}: {error}"
        finally:
            self._taken += 1
            self._taken_bytes += heard.size_bytes
