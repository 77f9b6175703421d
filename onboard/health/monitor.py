"""The checks during a run, in their own thread. Nothing here changes what the robot does."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import structlog

from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.counters import Counters
from onboard.health.gatherer import Gatherer, TickExcerpt
from onboard.health.session import Session
from onboard.health.verdict import WARNINGS, Health
from onboard.state import TickRecord
from onboard.system.threads import INFERENCE_BELOW, step_down
from onboard.values.interfaces import Diagnostic

log = structlog.get_logger()

ASSESS_EVERY = 15
"""Parts between two assessments: half a minute."""
MOST_WAITING = 30
"""Parts that may wait; more are dropped, as the machine has no time for them."""
END_S = 5.0


class Monitor:
    """A listener that hands each part of a run to a thread, and returns the newest comparison."""

    def __init__(self, config: Config, mounts: Mounts, plant: Plant) -> None:
        self.health = Health()
        self._fault = ""
        self._gatherer = Gatherer(config)
        self._session = Session(config, mounts, plant)
        self._parts: SimpleQueue[TickExcerpt | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Gather a tick. Never waits."""
        part = self._gatherer.take(record)
        if part is not None and self._parts.qsize() < MOST_WAITING:
            self._parts.put(part)

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics`; a difference is a warning, as the robot drives on."""
        health = self.health
        if self._fault:
            return "calibration", 1, f"the comparison failed: {self._fault}", {}
        values = {check.name: f"{check.value:+.4g} {check.verdict}" for check in health.checks}
        return "calibration", int(health.verdict in WARNINGS), health.message, values

    def close(self) -> None:
        """Compare the whole run and log it in one line. For after the last command to the base. Safe to call twice."""
        if not self._thread.is_alive():
            return
        self._parts.put(self._gatherer.rest())
        self._parts.put(None)
        self._thread.join(END_S)
        values = {check.name.replace(" ", "_"): round(check.value, 4) for check in self.health.checks}
        log.info("health", verdict=self.health.verdict, **values)

    def _run(self) -> None:
        step_down(INFERENCE_BELOW)
        try:
            for number, part in enumerate(iter(self._parts.get, None), start=1):
                self._session.take(part)
                if number % ASSESS_EVERY == 0:
                    self.health = self._session.health()
            self.health = self._session.health()
        except Exception as error:  # noqa: BLE001 - a check that fails must not end the run
            self._fault = f"{type(error).__name__}: {error}"
            log.warning("health_ended", error=self._fault)
