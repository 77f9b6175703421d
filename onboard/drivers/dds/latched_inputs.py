"""A state that anybody may raise, as it comes over DDS: the e-stop, the notice of an obstacle."""

from __future__ import annotations

import math

import structlog

from onboard.drivers.dds.participant import InputWire, Received, WriterMessages
from onboard.drivers.dds.ros_convert import speed_limit_from_ros
from onboard.values.clock import NS_PER_S

log = structlog.get_logger()


class Alarm:
    """A Bool topic that anybody may raise: true while the newest word, or the last word of any writer alive, is true.

    So the steady "false" of one publisher does not take back the "true" of another. A press that ends within the same
    tick is true for that tick. A "true" whose writer is gone stays until a writer says "false" that came after it: one
    that was there beside it all the time does not speak for it.

    A queue that was full may have lost words (`dds_topics.WORD`). Where what is not known counts as true, the tick is
    true, and so is the word of each writer of that queue of whom none was left, until it says one. One that was never
    heard has none: it may be there without ever saying any, and would never take it back.

    That a writer is gone, DDS tells at once only of one that says so: of one that was killed, or lost with its network,
    after its lease (10 s here), and never of one that hangs. So where an alarm is required, silence tells.
    """

    def __init__(
        self,
        wire: InputWire[WriterMessages],
        name: str,
        *,
        unknown_is_true: bool = False,
        required_within_s: float | None = None,
    ) -> None:
        """Open the reader. Raises ConfigError, DriverError.

        unknown_is_true:   what is lost counts as true; otherwise a writer's last word that is known stays its word
        required_within_s: true as long as no writer alive has said a word, or one that has said one was silent for
                           longer than this [s]; None where nobody has to be there
        """
        self._reader = wire.reader(name)
        self._name = name
        self._unknown_is_true = unknown_is_true
        self._within_s = required_within_s
        self._words: dict[int, bool] = {}
        self._said_ns: dict[int, int] = {}
        self._orphaned_beside: frozenset[int] | None = None
        self._heard = required_within_s is not None
        self._overrun = False
        self._silent = False

    def take(self, now_ns: int) -> bool | None:
        """Return the state; None before the first message. now_ns: monotonic [ns], the arrival of what is taken."""
        messages = self._reader.take()
        unheard, alive = self._reader.unheard(messages), self._reader.writers()
        self._tell(self._reader.full)
        self._heard = self._heard or bool(messages)
        if not self._heard:
            return None
        lost = self._unknown_is_true and self._reader.full
        if lost:
            self._words.update(dict.fromkeys(unheard & set(self._words), True))
        for message in messages:
            self._hear(message, now_ns)
        if any(word and writer not in alive for writer, word in self._words.items()):
            self._orphaned_beside = frozenset(self._words) | alive
        self._words = {writer: word for writer, word in self._words.items() if writer in alive}
        self._said_ns = {writer: self._said_ns[writer] for writer in self._words}
        pressed = lost or self._is_missed(now_ns) or any(message.sample.data for message in messages)
        return pressed or self._orphaned_beside is not None or any(self._words.values())

    def _is_missed(self, now_ns: int) -> bool:
        """Return whether a required alarm has nobody who says that all is well; tell when a sender falls silent."""
        if self._within_s is None:
            return False
        silent_s = (now_ns - min(self._said_ns.values(), default=now_ns)) / NS_PER_S
        was_silent, self._silent = self._silent, silent_s > self._within_s
        if self._silent and not was_silent:
            log.warning("sender_silent", topic=self._name, limit_s=self._within_s, counts_as="true")
        return self._silent or not self._words

    def _hear(self, message: Received, now_ns: int) -> None:
        writer, word = message.writer, bool(message.sample.data)
        self._words[writer] = word
        self._said_ns[writer] = now_ns
        if not word and self._orphaned_beside is not None and writer not in self._orphaned_beside:
            self._orphaned_beside = None

    def _tell(self, overrun: bool) -> None:
        """Say once that words may be lost."""
        if overrun and not self._overrun:
            log.warning(
                "queue_full", topic=self._name, counts_as="true" if self._unknown_is_true else "last word known"
            )
        self._overrun = self._overrun or overrun

    @property
    def undecodable(self) -> int:
        """Messages so far that were no Bool."""
        return self._reader.undecodable


# ---- Limits on the speed from outside, as they come over DDS (`/speed_limit`, a message of Nav2)

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

    def __init__(self, wire: InputWire[WriterMessages], v_max_mps: float) -> None:
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
