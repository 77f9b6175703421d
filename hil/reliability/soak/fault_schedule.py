"""Which fault comes next, and when: all that this robot can have in turn, each round in another order."""

from __future__ import annotations

import numpy as np

from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.table import FAULTS
from onboard.config.config import Config
from onboard.values.clock import NS_PER_S

EVERY_S = 30.0
ONSET_S = 20.0
"""A fault begins at a random moment of so many seconds; then it is over before the next one comes."""
HAS = frozenset({Need.SCANS, Need.FIXES, Need.BASE, Need.CLOCK})
"""What this drive has of what faults need: its scans come ready-made, there are no images."""
DISK = "disk"
"""How the table names the fault of the recorder's disk (`Fault.process`)."""
ENDS_RUNTIME = "drive_lost"
LIFE_S = 2 * 3600.0
"""The fault that ends the runtime may come when it has lived for so long: growth shows in a long life only."""
TIMES = ("recovery",)
"""Tables of the configuration in which a fault only shortens times, which a long drive need not do."""


def possible(fault: Fault, config: Config) -> bool:
    """Return whether a fault can be done to a robot with this configuration in a drive on the simulated clock."""
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
    """Draws faults: each of them once a round, in an order by seed."""

    def __init__(self, config: Config, seed: int) -> None:
        self.faults = [fault for fault in FAULTS if possible(fault, config)]
        self._rng = np.random.default_rng(seed)
        self._round: list[Fault] = []
        self._due_ns = 0

    def due(self, now_ns: int, life_s: float) -> tuple[Fault, int] | None:
        """Return the next fault and when it begins, once in `EVERY_S`; else None. life_s: of the runtime so far."""
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
