"""The page's stop: one more sender of the e-stop, latched until a goal with a token; all dashboards share it."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from pathlib import Path

from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_types import Bool, String
from onboard.values.errors import DriverError

log = logging.getLogger("onboard.dashboard")

REPEAT_S, REPORT_EVERY = 0.1, 5
"""Between two messages of the e-stop while it is pressed; every fifth also goes to the other dashboards."""
ACK_S = 1.0
GONE_S = 1.7
"""A dashboard without a report for this time was killed, and the runtime has noticed (0.5 s, and `topics.E_STOP`)."""
KILLED_S, RELEASED_S = 12.0, 2.0
"""How long a released stop may be heard: of a killed dashboard, if only DDS's lease (10 s) ends it; of others."""
ANSWER_S = 1.5
"""Longest wait at the start for another dashboard that knows of a release."""
PRESSED, RELEASE, RELEASED = "pressed", "release", "released"
"""What dashboards say to each other: a stop is pressed, somebody asks for its release, it is over."""
MOST_OTHERS, MOST_TEXT = 32, 240


class Stop:
    """The latched stop: one more sender of the e-stop (`dds.remap.e_stop`), which says "pressed" until released.

    The runtime keeps its own latch besides: it drives only after a release *and* an accepted goal (R2 of `limits.py`).
    A sender that dies pressed stays pressed there. So that the next dashboard can release it, a file marks the stop.
    Dashboards report their presses to each other (`page_stop`), and each releases its own when another one asks for it.
    Each remembers what it has released: so a dashboard that starts learns that the stop of its mark is over.
    Between stops this sender says nothing: it must not stand in for a robot's own e-stop (`dds.e_stop_required`).

    presses: how often any dashboard was pressed, as far as this one knows
    """

    def __init__(self, config: Config, wire: Wire, mark: Path) -> None:
        """Open the sender; press at once if the dashboard before this one was stopped. Raises DriverError."""
        self._config, self._mark = config, mark
        self._name = secrets.token_hex(4)
        self._lock, self._releasing = threading.Lock(), threading.Lock()
        self._wire = Wire(config.dds)
        self._writer = self._wire.writer("e_stop")
        self._heard, self._reports = wire.reader("page_stop"), wire.writer("page_stop")
        self._others: dict[str, tuple[int, str]] = {}
        self._known: dict[str, int] = {}
        self._heard_s: dict[str, float] = {}
        self._over: dict[str, int] = {}
        self.presses = self._number = 0
        self._pressed = self._speaks = False
        self._by = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="stop", daemon=True)
        self._thread.start()
        with contextlib.suppress(OSError):
            if mark.exists():
                self._take_over(mark.read_text(encoding="utf-8", errors="replace"))

    @property
    def pressed(self) -> bool:
        """Return whether the stop of any dashboard is pressed."""
        return self._pressed or bool(self._others)

    @property
    def by(self) -> str:
        """Return when and where it was pressed, "" while it is not."""
        with self._lock:
            return self._by if self._pressed else next((text for _, text in self._others.values()), "")

    @property
    def lingers_s(self) -> float:
        """Return how long the runtime may still hear a press after its release: the dashboard may have been killed."""
        return KILLED_S if self._others else RELEASED_S

    def press(self, by: str = "") -> None:
        """Stop the robot, and keep it stopped. Never waits for a release. by: when and where it was pressed"""
        with self._lock:
            self._pressed = self._speaks = True
            self._by = by
            self._number += 1
            self.presses += 1
            self._say()
        self._report(new=True)

    def release(self, presses: int) -> bool:
        """Take the stops of all dashboards back: the robot stands until it accepts a goal. A press meanwhile wins.

        Return False, with nothing done, if there were other presses than so many.
        """
        with self._lock:
            if self.presses != presses:
                return False
            others, self._others = self._others, {}
            number = self._number
        for name, (pressed, _) in others.items():
            self._over[name] = pressed
            self._reports.write(String(f"{RELEASE} {name} {pressed}"))
        wait_until(lambda: not any(self._answers(name) for name in others), GONE_S)
        for _ in range(2 if others else 1):  # the press of a killed one ends with a sender that appeared later
            self._release_own(number)
        return True

    def close(self) -> None:
        """End the thread and the sender; a pressed stop stays with the runtime. Safe to call twice."""
        self._ended.set()
        self._thread.join()
        self._wire.close()

    def _answers(self, name: str) -> bool:
        """Return whether another dashboard, which was asked for a release, lives and has not answered yet."""
        return time.monotonic() - self._heard_s.get(name, 0.0) < GONE_S

    def _take_over(self, report: str) -> None:
        """Press the stop that a mark reports, unless another dashboard answers that it was released meanwhile."""
        self._hear(report)
        deadline_s = time.monotonic() + ANSWER_S
        while self.pressed and time.monotonic() < deadline_s:
            self._reports.write(String(report))
            time.sleep(REPEAT_S)
        if self.pressed:
            self.press(self.by)
        else:
            self._mark.unlink()

    def _release_own(self, number: int) -> None:
        """Say "released", unless there was a press after that number; then make a new sender for the next stop.

        Only a sender that appeared later can undo the press of one that is gone. One release at a time: each closes the
        sender that it found.
        """
        with self._releasing:
            self._release_one(number)

    def _release_one(self, number: int) -> None:
        with self._lock:
            if self._number > number:
                return
            self._pressed = False
            self._say()
            self._reports.write(String(f"{RELEASED} {self._name} {self._number}"))
        self._writer.wait_for_acks(ACK_S)
        fresh = Wire(self._config.dds)
        writer = fresh.writer("e_stop")
        writer.wait_for_reader(ACK_S)
        with self._lock:
            old = fresh if self._pressed else self._wire
            if not self._pressed:
                self._wire, self._writer, self._speaks = fresh, writer, False
                with contextlib.suppress(OSError):
                    self._mark.unlink()
        old.close()

    def _say(self) -> None:
        self._writer.write(Bool(self._pressed == self._config.dds.e_stop_pressed))

    def _report(self, new: bool = False) -> None:
        """Tell the other dashboards, and by the mark the next one here."""
        with self._lock:
            if not self._pressed:
                return
            report = f"{PRESSED} {self._name} {self._number} {self._by}"
            self._reports.write(String(report))
        with contextlib.suppress(OSError):  # the folder may be read-only: the stop itself must not depend on it
            if new or not self._mark.exists():
                self._mark.parent.mkdir(parents=True, exist_ok=True)
                self._mark.write_text(report, encoding="utf-8")

    def _repeat(self) -> None:
        beat = 0
        while not self._ended.wait(REPEAT_S):
            beat += 1
            try:
                with self._lock:
                    if self._speaks:
                        self._say()
                for message in self._heard.take():
                    self._hear(message.sample.data)
                if beat % REPORT_EVERY == 0:
                    self._report()
            except DriverError as error:  # the next beat tries again: a stop that is pressed must go on being said
                log.warning("stop_beat_failed: %s", error)

    def _hear(self, text: str) -> None:
        """Take the report of a dashboard; leave out what is none."""
        word, name, digits, *rest = [*text[:MOST_TEXT].split(" ", 3), "", ""]
        if word not in (PRESSED, RELEASE, RELEASED) or not (digits.isascii() and digits.isdigit()):
            return
        number = int(digits)
        with self._lock:
            if word != PRESSED:
                mine = name == self._name and self._pressed and number >= self._number
                if number >= self._others.get(name, (0, ""))[0]:
                    self._others.pop(name, None)
                    if word == RELEASED:
                        self._heard_s.pop(name, None)
            elif name == self._name:
                return
            elif number <= self._over.get(name, 0):  # its dashboard had ended, or has not heard it yet
                self._reports.write(String(f"{RELEASED} {name} {number}"))
                return
            else:
                mine, self._others[name] = False, (number, rest[0])
                self.presses += self._known.get(name) != number
                self._known[name], self._heard_s[name] = number, time.monotonic()
                for heard in (self._others, self._known, self._heard_s, self._over):
                    if len(heard) > MOST_OTHERS:
                        heard.pop(next(iter(heard)))
        if mine:
            self._release_own(number)
