"""How a drive went, whichever loop drove it: `fast.py` directly, `inprocess.py` with the whole runtime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onboard.mission import Mission, State

REACHED_M = 0.2
"""Success is a stop within this of the goal (paper 1, section 1.9)."""
MAX_S = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a drive ended.

    reached:         at rest by its own stop, truly within `REACHED_M` of the goal
    ended:           "stop", "time", or the runtime's own reason to end it ("blocked: 3 recoveries in 60 s failed")
    contacts:        contacts, each counted once however long it lasted
    distance_m:      true distance to the goal at the end
    min_clearance_m: least distance between the footprint and anything solid during the drive; 0 in contact
    actions:         (28,) int64; how often each action was chosen
    trace:           (n, 6) time [s], x, y, yaw in the map frame, v, w, one row a tick, the first at the goal's coming
    bumps:           times that something that moves walked into the robot; not among the contacts
    """

    reached: bool
    ended: str
    contacts: int
    time_s: float
    path_m: float
    distance_m: float
    min_clearance_m: float
    actions: npt.NDArray[np.int64]
    trace: npt.NDArray[np.float64]
    bumps: int = 0


def how_ended(mission: Mission) -> str:
    """Return how a drive has ended by what the runtime makes of it, "" while it goes on.

    It ends where the stop action was held until the robot rests, at the goal or not: the runtime itself waits a little
    longer before it gives up elsewhere.
    """
    if mission.state is State.REACHED or mission.stopped_since_ns is not None:
        return "stop"
    return "" if mission.driving else mission.reason
