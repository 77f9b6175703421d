"""What a command waits for: nothing waits silently."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_S, AGAIN_S = 10.0, 30.0


class Waiting:
    """Says what is missing after FIRST_S of waiting, at once when that changes later, and again every AGAIN_S."""

    def __init__(self, say: Callable[[str], object], now_s: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now_s = say, now_s
        self._since_s: float | None = None
        self._said, self._said_s = "", 0.0

    def note(self, missing: str, what: str = "") -> float:
        """Return how long something was missing without a break [s]; 0 if `missing` is "".

        what: distinguishes two texts; without it, `missing` itself. A changed rate in the text does not repeat the line
        """
        now_s, what = self._now_s(), what or missing
        if not missing:
            self._since_s, self._said = None, ""
            return 0.0
        self._since_s = now_s if self._since_s is None else self._since_s
        waited_s = now_s - self._since_s
        if waited_s >= FIRST_S and (what != self._said or now_s - self._said_s >= AGAIN_S):
            self._said, self._said_s = what, now_s
            self._say(f"waiting for {waited_s:.0f} s: {missing}")
        return waited_s
