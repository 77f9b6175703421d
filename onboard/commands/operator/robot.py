"""A running robot on the wire, as an operator finds it: its state, its diagnostics, and what is sent to it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from onboard.config.config import Config
from onboard.drivers.dds.participant import Reader, Wire
from onboard.navigation.mission import State
from onboard.recording.scene import is_e_stopped
from onboard.service.input_watch import WAITING, missing_in
from onboard.values import reasons
from onboard.values.errors import OnboardError

FOUND_S = 10.0
"""Timeout for the discovery of the runtime."""
SAID_S = 1.0
"""After this time without a runtime, the command says what it waits for."""
TAKEN_S = 3.0
"""Timeout for the answer to a goal or a cancellation: an acknowledgement, then a new state."""
POLL_S = 0.1
LEVELS = ("ok", "warning", "error")


@dataclass(frozen=True, slots=True)
class DiagnosticsRow:
    """A row of the diagnostics. level: one of LEVELS."""

    name: str
    level: str
    message: str
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Status:
    """What a running robot says of itself."""

    robot: str
    domain: int
    state: str
    parts: list[DiagnosticsRow] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return a value of any part; a dash where none has it."""
        return next((part.values[name] for part in self.parts if name in part.values), "-")


class RunningRobot:
    """The runtime on the wire: its state, and what is sent to it."""

    def __init__(self, wire: Wire, robot: str) -> None:
        """Find the runtime, and say on standard error if that takes time. Raises OnboardError after FOUND_S."""
        self._wire = wire
        self._robot = robot
        self._states: Reader = wire.reader("state")
        self._diagnostics: Reader = wire.reader("diagnostics")
        self._opened: dict[str, Reader] = {}
        self._state = self._missing = ""
        if self._heard(SAID_S):
            return
        named = f", namespace {wire.section.namespace}" if wire.section.namespace else ", without a namespace"
        where = f"domain {wire.domain}, interface {wire.section.interface}{named}"
        sys.stderr.write(f"waiting up to {FOUND_S:g} s for a runtime on {where}\n")
        if not self._heard(FOUND_S - SAID_S):
            raise OnboardError(f"no runtime found on {where} within {FOUND_S:g} s; is `onboard run` running?")

    def send(self, topic: str, sample: Any) -> None:
        """Send a message once; return when the runtime has it. Raises OnboardError if it does not take it."""
        writer = self._wire.writer(topic)
        if writer.wait_for_reader(FOUND_S):
            self._states.take()
            writer.write(sample)
            if writer.wait_for_acks(TAKEN_S):
                return
        raise OnboardError(f"{topic}: the runtime did not confirm it: see `onboard status`, then repeat")

    def answer(self, expected: Callable[[str], bool]) -> str:
        """Return the first state that is expected; after TAKEN_S the newest."""
        deadline_s = time.monotonic() + TAKEN_S
        while self._heard(max(0.0, deadline_s - time.monotonic())) and not expected(self._state):
            pass
        return self._state

    def next_state(self) -> str:
        """Return the next published state. Raises OnboardError when the runtime falls silent."""
        if not self._heard(FOUND_S):
            raise OnboardError(f"no message from the runtime for {FOUND_S:g} s; its last state: {self._state}")
        return self._state

    def missing(self) -> str:
        """Return what the runtime waits for by its newest diagnostics, "" for nothing. Does not wait."""
        rows = [row for message in self._diagnostics.take() for row in message.sample.status]
        found = [row.message for row in rows if row.hardware_id == self._robot and row.name == WAITING]
        if found:
            self._missing = missing_in(found[-1])
        return self._missing

    def status(self, within_s: float = FOUND_S) -> Status:
        """Return the newest state and diagnostics. Raises OnboardError without diagnostics within that time."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            self._diagnostics.wait(POLL_S)
            rows = [row for message in self._diagnostics.take() for row in message.sample.status]
            rows = [row for row in rows if row.hardware_id == self._robot]
            if rows:
                parts = [
                    DiagnosticsRow(
                        row.name,
                        LEVELS[min(row.level, len(LEVELS) - 1)],
                        row.message,
                        {pair.key: pair.value for pair in row.values},
                    )
                    for row in rows
                ]
                self._heard(POLL_S)
                return Status(self._robot, self._wire.domain, self._state, parts)
        raise OnboardError(
            f"robot {self._robot}: no diagnostics within {within_s:g} s; does --config name another robot?"
        )

    def newest(self, topic: str) -> Any:
        """Return the next message on a topic. Raises OnboardError after FOUND_S."""
        reader = self._reader(topic)
        deadline_s = time.monotonic() + FOUND_S
        while time.monotonic() < deadline_s:
            reader.wait(POLL_S)
            if messages := reader.take():
                return messages[-1].sample
        raise OnboardError(f"{topic}: no message from the runtime within {FOUND_S:g} s")

    def drive(self) -> dict[str, str]:
        """Return the values of `/onboard/drive`: the goal's state, and the robot's pose. Raises OnboardError."""
        rows = self.newest("drive").status
        return {pair.key: pair.value for row in rows for pair in row.values}

    def ended_by(self) -> str | None:
        """Return the state if a person stopped the robot while it stood, None otherwise. Raises OnboardError.

        The runtime keeps a stop until it accepts a goal, so that a short press is seen too. A cancel is seen only by
        who listened before.
        """
        cancels = self._reader("cancel")
        if is_e_stopped(self.drive()):
            return f"{State.STOPPED.value}: {reasons.E_STOP.named}"
        return f"{State.IDLE.value}: {reasons.CANCELLED.say()}" if cancels.take() else None

    def _reader(self, topic: str) -> Reader:
        """Return the reader of a topic; the first call opens it."""
        if topic not in self._opened:
            self._opened[topic] = self._wire.reader(topic)
        return self._opened[topic]

    def _heard(self, timeout_s: float) -> bool:
        """Return whether a state came within the time; keep the newest."""
        if not self._states.wait(timeout_s):
            return False
        messages = self._states.take()
        if messages:
            self._state = messages[-1].sample.data
        return bool(messages)


@contextlib.contextmanager
def running_robot(config: Config) -> Iterator[RunningRobot]:
    """Yield the runtime of a configuration. Raises OnboardError if none is heard."""
    with contextlib.closing(Wire(config.dds)) as wire:
        yield RunningRobot(wire, config.robot.name)
