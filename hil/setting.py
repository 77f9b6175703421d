"""Where and with what a policy is driven: everything that does not change from episode to episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hil.maps import World
from hil.robot import Senses
from hil.world import Body
from onboard.config import Config
from onboard.motion import Plant
from onboard.mounts import Mounts

if TYPE_CHECKING:
    from hil.textures import Look
    from hil.walkers import Crowd

ScanKind = Literal["fused", "lidar"]
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
