"""Limits on the speed from outside, as they come over DDS (`/speed_limit`, a message of Nav2)."""

from __future__ import annotations

import math

from onboard.drivers.ros_messages import speed_limit_from_ros
from onboard.drivers.wire import Wire

UNKNOWN_MPS = 1e-3
"""A limit that is not known: as good as standing, and still one, since 0 lifts a limit."""


class SpeedLimits:
    """The least of the limits on the speed that senders give; each lifts only its own (limits.py, R18 and R19).

    The limit of a sender that is gone stays in force until one that came after it says a word: it may be the same one,
    started again. One that was there beside it does not speak for it. A word that is no limit changes nothing, and goes
    to the limits, which tell it, in a tick that has nothing else to tell.

    A queue that was full may have lost words (`dds_topics.WORD`): the limit of each sender of that queue who gave one
    before, and of whom none was left, is `UNKNOWN_MPS` until it says one.
    """

    def __init__(self, wire: Wire, v_max_mps: float) -> None:
        self._reader = wire.reader("speed_limit")
        self._v_max_mps = v_max_mps
        self._words: dict[int, float] = {}
        self._orphan_mps = math.inf
        self._orphaned_beside: frozenset[int] = frozenset()
        self._told: float | None = None
        self._bad: float | None = None

    def take(self) -> float | None:
        """Return the limit in force [m/s], 0 for none; None before the first; now and then a word that is none."""
        messages = self._reader.take()
        unheard, alive = self._reader.unheard(messages), self._reader.writers()
        self._words.update(dict.fromkeys(unheard & set(self._words), UNKNOWN_MPS))
        for message in messages:
            self._hear(message.writer, speed_limit_from_ros(message.sample, self._v_max_mps))
        gone_mps = min((word for writer, word in self._words.items() if writer not in alive), default=math.inf)
        if gone_mps < math.inf:
            self._orphan_mps = min(self._orphan_mps, gone_mps)
            self._orphaned_beside = frozenset(self._words) | alive
        heard = self._told is not None or bool(self._words)
        self._words = {writer: word for writer, word in self._words.items() if writer in alive}
        least = min(self._orphan_mps, *self._words.values(), math.inf)
        limit = (least if least < math.inf else 0.0) if heard else None
        if limit == self._told and self._bad is not None:
            bad, self._bad = self._bad, None
            return bad
        self._told = limit
        return limit

    def _hear(self, writer: int, word_mps: float) -> None:
        if not 0.0 <= word_mps < math.inf:
            self._bad = word_mps
            return
        self._words[writer] = word_mps or math.inf
        if writer not in self._orphaned_beside:
            self._orphan_mps = math.inf

    @property
    def undecodable(self) -> int:
        """Messages so far that were no SpeedLimit."""
        return self._reader.undecodable
