"""A room in which faults are done to a robot whose policy always wants to go on: only the runtime's rules stop it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from hil.physics.free_space import Episode
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.run.simulated import Site, changed
from hil.reliability.faults.table import FAULTS
from onboard.values.messages import Pose
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import FORWARD, MOUNTS, PLANT, Puppet, plain_config

BY_NAME = {fault.name: fault for fault in FAULTS}
ON_CLOCK = [fault for fault in FAULTS if fault.make is not None]


def by_name(faults: list[Fault]) -> list[str]:
    return [fault.name for fault in faults]


@functools.cache
def _site() -> Site:
    start, goal = Pose(1.5, 2.0, 0.0), (12.0, 2.0)
    episode = Episode(start, goal, 10.5)
    return Site(room(14.0, 4.0), episode, plain_config(), MOUNTS, PLANT, lambda config: Puppet(FORWARD), seed=1)


def site(**sections: dict[str, Any]) -> Site:
    """Return the room; sections: what its configuration has otherwise."""
    return replace(_site(), config=changed(plain_config(), sections))
