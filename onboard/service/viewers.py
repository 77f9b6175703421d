"""Publishes map and reasons once, and what else viewers show from a thread of its own: a tick leaves its record.

A topic without a subscriber costs nothing: its message is not made.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping

import structlog

from onboard.counters import Counters
from onboard.drivers.dds.participant import Wire, Writer
from onboard.recording.scene import Scene
from onboard.state import TickRecord
from onboard.system.threads import RECORDER_BELOW, step_down
from onboard.values.clock import wall_ns
from onboard.values.errors import DriverError

log = structlog.get_logger()

PERIOD_S = 0.2
EVERY: Mapping[str, int] = {"arc": 1, "markers": 2, "path": 5, "plan": 5, "footprint": 5}
"""Periods between two messages of each topic."""


class Viewers:
    """Keeps the newest tick; its thread publishes what is due and has a subscriber."""

    def __init__(self, wire: Wire, scene: Scene, others: Container[str] = ()) -> None:
        """Open the writers and start the thread. Raises ConfigError, DriverError.

        others: topics that another process publishes
        """
        self._writers: dict[str, Writer] = {name: wire.writer(name) for name in EVERY}
        self._scene = scene
        for name, message in scene.lasting(wall_ns()):
            if name not in others:
                wire.writer(name).write(message)
        self._newest: TickRecord | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewers", daemon=True)
        self._thread.start()

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Keep the tick."""
        self._newest = record

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        step_down(RECORDER_BELOW)
        number = 0
        while not self._ended.wait(PERIOD_S):
            if (record := self._newest) is None:
                continue
            try:
                self._publish(record, number)
            except DriverError as error:
                log.warning("viewers_ended", error=str(error))
                return
            number += 1

    def _publish(self, record: TickRecord, number: int) -> None:
        """Publish the due topics that somebody reads. Raises DriverError."""
        self._scene.note(record)
        due = {name for name, every in EVERY.items() if number % every == 0 and self._writers[name].readers()}
        for name, make in self._scene.messages(record, wall_ns(), due):
            self._writers[name].write(make())
