"""Text for people, written by a thread of its own: a terminal that stalls or a full disk never holds up a tick."""

from __future__ import annotations

import atexit
import os
import queue
import threading

WAITING_TEXTS = 1000
CLOSE_TIMEOUT_S = 0.5
STANDARD_ERROR = 2


class BackgroundText:
    """A text stream over a file descriptor whose `write` never waits: what does not fit in the queue is dropped.

    dropped: texts that were not written, because the queue was full or the descriptor failed
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._texts: queue.Queue[str | bytes | None] = queue.Queue(WAITING_TEXTS)
        self._thread = threading.Thread(target=self._run, name="text", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def write(self, text: str | bytes) -> int:
        """Queue the text, or bytes as they are, and return the length."""
        try:
            self._texts.put_nowait(text)
        except queue.Full:
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as fast as the descriptor takes."""

    def close(self) -> None:
        """Give the thread a moment to write what is queued; leave it behind when it is stalled. Safe to call twice."""
        try:
            self._texts.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (text := self._texts.get()) is not None:
            try:
                rest = text.encode(errors="replace") if isinstance(text, str) else text
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                self.dropped += 1
