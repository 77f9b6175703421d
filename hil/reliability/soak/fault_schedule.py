"""Schedule of faults in a soak: in each round all possible faults of this robot, in a new random order."""

from __future__ import annotations

import numpy as np

from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.table import FAULTS
from onboard.config.config import Config
from onboard.values.clock import NS_PER_S

EVERY_S = 30.0
ONSET_S = 20.0
"""The onset of a fault is random within this time, so that the fault ends before the next fault."""
HAS = frozenset({Need.SCANS, Need.FIXES, Need.BASE, Need.CLOCK})
"""The requirements of faults that a soak fulfils: it has ready-made scans and no images."""
DISK = "disk"
"""`Fault.process` of the full disk."""
ENDS_RUNTIME = "drive_lost"
LIFE_S = 2 * 3600.0
"""Minimum age of a runtime before the fault that ends it: only a long run shows growth of memory."""
TIMES = ("recovery",)
"""Tables of the configuration in which a fault only shortens times. A long drive does not need that."""


def possible(fault: Fault, config: Config) -> bool:
    """Return whether a fault can be injected with this configuration on the simulated clock."""
    if fault.make is None:
        return fault.process == DISK
    fits = all(
        getattr(getattr(config, table), name) == value
        for table, values in fault.sections.items()
        if table not in TIMES
        for name, value in values.items()
    )
    return fits and HAS.issuperset(fault.needs)


class Draw:
    """Draws each fault once a round, in random order by seed."""

    def __init__(self, config: Config, seed: int) -> None:
        self.faults = [fault for fault in FAULTS if possible(fault, config)]
        self._rng = np.random.default_rng(seed)
        self._round: list[Fault] = []
        self._due_ns = 0

    def due(self, now_ns: int, life_s: float) -> tuple[Fault, int] | None:
        """Return the next fault and its onset [ns], once in `EVERY_S`; else None. life_s: age of the runtime [s]."""
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + round(EVERY_S * NS_PER_S)
        fault = self._next()
        if fault.name == ENDS_RUNTIME and life_s < LIFE_S:
            fault = self._next()
        return fault, now_ns + NS_PER_S + round(self._rng.uniform(0.0, ONSET_S) * NS_PER_S)

    def _next(self) -> Fault:
        if not self._round:
            self._round = [self.faults[index] for index in self._rng.permutation(len(self.faults))]
        return self._round.pop()
