"""Inputs with a state, shared by several senders: e-stop, obstacle notice, speed limit."""

from __future__ import annotations

import math

import structlog

from onboard.drivers.dds.participant import InputWire, ReceivedMessage, WriterMessages
from onboard.drivers.dds.ros_convert import speed_limit_from_ros
from onboard.values.clock import NS_PER_S

log = structlog.get_logger()


class Alarm:
    """A Bool topic with several writers: true while the last value of any live writer is true.

    * The steady "false" of one writer does not clear the "true" of another.
    * A "true" that ends within a tick counts for that tick.
    * The "true" of a writer that is gone stays until a writer that appeared later sends "false". A writer that was
      present all the time does not clear it.
    * A full queue may have lost values (`topics.WORD`). With `unknown_is_true` the tick is then true, and so is each
      known writer of that queue without a remaining value, until it sends one. A writer without any value so far is
      ignored, because it may never send one.
    * DDS reports a killed or disconnected writer only after its lease (10 s here, 1 s for our own e-stop senders), and
      never a hanging writer. So for a required alarm silence counts as true.
    """

    def __init__(
        self,
        wire: InputWire[WriterMessages],
        name: str,
        *,
        unknown_is_true: bool = False,
        pressed: bool = True,
        required_within_s: float | None = None,
    ) -> None:
        """Open the reader. Raises ConfigError, DriverError.

        unknown_is_true:   lost values count as true; otherwise a writer keeps its last known value
        pressed:           the value that means true
        required_within_s: true while no live writer has sent a value, or a writer has been silent for longer [s];
                           None if the alarm is not required
        """
        self._reader = wire.reader(name)
        self._name = name
        self._unknown_is_true, self._pressed = unknown_is_true, pressed
        self._within_s = required_within_s
        self._words: dict[int, bool] = {}
        self._received_ns: dict[int, int] = {}
        self._orphaned_beside: frozenset[int] | None = None
        self._active = required_within_s is not None
        self._overrun = False
        self._silent = False

    def take(self, now_ns: int) -> bool | None:
        """Return the state; None before the first message. now_ns: arrival of the messages, monotonic [ns]."""
        messages = self._reader.take()
        overflowed, alive = self._reader.overflowed(messages), self._reader.writers()
        self._log_overrun(self._reader.full)
        self._active = self._active or bool(messages)
        if not self._active:
            return None
        lost = self._unknown_is_true and self._reader.full
        if lost:
            self._words.update(dict.fromkeys(overflowed & set(self._words), True))
        for message in messages:
            self._hear(message, now_ns)
        if any(word and writer not in alive for writer, word in self._words.items()):
            self._orphaned_beside = frozenset(self._words) | alive
        self._words = {writer: word for writer, word in self._words.items() if writer in alive}
        self._received_ns = {writer: self._received_ns[writer] for writer in self._words}
        pressed = lost or self._is_missed(now_ns) or any(self._word(message) for message in messages)
        return pressed or self._orphaned_beside is not None or any(self._words.values())

    def _is_missed(self, now_ns: int) -> bool:
        """Return whether a required alarm has no live or a silent sender; log when a sender falls silent."""
        if self._within_s is None:
            return False
        silent_s = (now_ns - min(self._received_ns.values(), default=now_ns)) / NS_PER_S
        was_silent, self._silent = self._silent, silent_s > self._within_s
        if self._silent and not was_silent:
            log.warning("sender_silent", topic=self._name, limit_s=self._within_s, counts_as="true")
        return self._silent or not self._words

    def _hear(self, message: ReceivedMessage, now_ns: int) -> None:
        writer, word = message.writer, self._word(message)
        self._words[writer] = word
        self._received_ns[writer] = now_ns
        if not word and self._orphaned_beside is not None and writer not in self._orphaned_beside:
            self._orphaned_beside = None

    def _word(self, message: ReceivedMessage) -> bool:
        return bool(message.sample.data) == self._pressed

    def _log_overrun(self, overrun: bool) -> None:
        """Log once that values may be lost."""
        if overrun and not self._overrun:
            log.warning(
                "queue_full", topic=self._name, counts_as="true" if self._unknown_is_true else "last word known"
            )
        self._overrun = self._overrun or overrun

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return self._reader.undecodable


PERCENT = 1.5
"""A charge above this is stated in percent, against the message's definition: many drivers do."""


class Battery:
    """The lowest charge of all live senders of `/battery_state`; one without a finite charge counts for none."""

    def __init__(self, wire: InputWire[WriterMessages]) -> None:
        """Open the reader. Raises ConfigError, DriverError."""
        self._reader = wire.reader("battery")
        self._charges: dict[int, float] = {}

    def take(self) -> float | None:
        """Return the charge, 0 to 1; None while no sender states one. Raises DriverError if the link is gone."""
        messages = self._reader.take()
        for message in messages:
            charge = float(message.sample.percentage)
            self._charges.pop(message.writer, None)
            if 0.0 <= charge < math.inf:
                self._charges[message.writer] = charge / 100.0 if charge > PERCENT else charge
        if messages:
            alive = self._reader.writers()
            self._charges = {writer: charge for writer, charge in self._charges.items() if writer in alive}
        return min(self._charges.values(), default=None)

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return self._reader.undecodable


UNKNOWN_MPS = 1e-3
"""The limit instead of a lost value: practically standing; 0 would lift the limit."""


class SpeedLimits:
    """The lowest speed limit of all senders (`/speed_limit`); each sender lifts only its own (limits.py, R18 and R19).

    * The limit of a sender that is gone stays until a sender that appeared later sends a limit: it may be the same
      sender, restarted. A sender that was present all the time does not lift it.
    * An invalid limit changes nothing. `take` returns it once, in a tick without another change, so that limits.py
      reports it.
    * A full queue may have lost limits (`topics.WORD`). Each known sender of that queue without a remaining limit then
      has `UNKNOWN_MPS` until it sends one.
    """

    def __init__(self, wire: InputWire[WriterMessages], v_max_mps: float) -> None:
        self._reader = wire.reader("speed_limit")
        self._v_max_mps = v_max_mps
        self._words: dict[int, float] = {}
        self._orphan_mps = math.inf
        self._orphaned_beside: frozenset[int] = frozenset()
        self._last_mps: float | None = None
        self._bad: float | None = None

    def take(self) -> float | None:
        """Return the limit in force [m/s], 0 for none, None before the first; once an invalid limit as it came."""
        messages = self._reader.take()
        overflowed, alive = self._reader.overflowed(messages), self._reader.writers()
        self._words.update(dict.fromkeys(overflowed & set(self._words), UNKNOWN_MPS))
        for message in messages:
            self._hear(message.writer, speed_limit_from_ros(message.sample, self._v_max_mps))
        gone_mps = min((word for writer, word in self._words.items() if writer not in alive), default=math.inf)
        if gone_mps < math.inf:
            self._orphan_mps = min(self._orphan_mps, gone_mps)
            self._orphaned_beside = frozenset(self._words) | alive
        received = self._last_mps is not None or bool(self._words)
        self._words = {writer: word for writer, word in self._words.items() if writer in alive}
        least = min(self._orphan_mps, *self._words.values(), math.inf)
        limit = (least if least < math.inf else 0.0) if received else None
        if limit == self._last_mps and self._bad is not None:
            bad, self._bad = self._bad, None
            return bad
        self._last_mps = limit
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
        """Undecodable messages so far."""
        return self._reader.undecodable
