"""Where and with what a policy is driven: everything that does not change from episode to episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hil.direct_scan import ScanKind
from hil.maps import World
from hil.robot import TICK_HZ, Senses
from hil.world import Body
from onboard.config import Config
from onboard.messages import Pose
from onboard.motion import Plant
from onboard.mounts import Mounts
from onboard.scheduler import NS_PER_S

if TYPE_CHECKING:
    from hil.textures import Look
    from hil.walkers import Crowd

SETTLE_S = 2.5
"""Time before the goal, in which the first fixes come."""


def goal_tick(ticks_per_decision: int) -> int:
    """Return the tick in which a drive's goal comes: after `SETTLE_S`, just before the first decision.

    Until then the robot stands, and the first fixes of its localisation come.
    """
    settled = -(-round(SETTLE_S * NS_PER_S) // round(NS_PER_S / TICK_HZ))
    return settled + (-settled - 1) % ticks_per_decision


@runtime_checkable
class KnowsMap(Protocol):
    """A policy that drives in a map: before each decision it is told where the robot believes its start frame to be."""

    def locate(self, map_from_start: Pose) -> None:
        """Take the pose of the start frame in the map, as the robot itself estimates it now."""


ORDINARY_SENSES = Senses()


@dataclass(frozen=True, slots=True)
class Setting:
    """A building, a robot and its configuration.

    plant:  what the robot believes of its base, and what the base does unless `true_plant` says otherwise
    senses: how well wheels, localisation and cameras work; their seed is each drive's own
    crowd:  who else moves there, at the beginning of a drive; None is nobody
    scan:   "fused" is what the depth cameras see, "lidar" one plane seen all around; for policy and limits alike
    look:   colours and light for the colour camera; None is plain
    limits: whether the last word over commands (`onboard.limits`) and the recovery are in force; without them the
            policy drives alone
    true_plant: what the base does, where the robot is wrong about it
    """

    world: World
    plant: Plant
    body: Body
    mounts: Mounts
    config: Config
    senses: Senses = ORDINARY_SENSES
    crowd: Crowd | None = None
    scan: ScanKind = "fused"
    look: Look | None = None
    limits: bool = True
    true_plant: Plant | None = None

    @property
    def base_plant(self) -> Plant:
        """What the base does."""
        return self.plant if self.true_plant is None else self.true_plant
