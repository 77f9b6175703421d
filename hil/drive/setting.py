"""Where and with what a policy is driven: everything that does not change from episode to episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hil.drive.robot import TICK_HZ, Senses
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.sensors.direct_scan import ScanKind
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.navigation.mission import Mission, State
from onboard.navigation.start_frame import Start
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import between, inverse
from onboard.values.interfaces import Policy
from onboard.values.messages import GoalRequest, Pose

if TYPE_CHECKING:
    from hil.maps.materials import Look
    from hil.scene.walkers import Crowd

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
    limits: whether the last word over commands (`onboard.safety.limits`) and the recovery are in force; without them
    the
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


# ---- What every loop decides alike: the goal as the robot is told it, where it is in the map, and who looks

COLOR_INPUT = "rgb"


@runtime_checkable
class SaysWhatItLooksAt(Protocol):
    """A policy that says itself whether it looks at the colour image."""

    @property
    def wants_color(self) -> bool:
        """Return whether it does."""


def wants_color(policy: Policy) -> bool:
    """Return whether a policy looks at the colour image: one that says so, or a network whose manifest lists it."""
    if isinstance(policy, SaysWhatItLooksAt):
        return policy.wants_color
    return isinstance(policy, NetworkPolicy) and any(entry.name == COLOR_INPUT for entry in policy.manifest.inputs)


def map_from_start(start: Start, episode: Episode) -> Pose:
    """Return where the robot believes its start frame to be in the map, for a policy that knows one (`KnowsMap`).

    A robot without localisation was told once where it starts.
    """
    return episode.start if start.start_from_map is None else inverse(start.start_from_map)


def goal_request(setting: Setting, episode: Episode, now_ns: int) -> GoalRequest:
    """Return the goal of an episode in the map; without localisation in the odometry's frame, begun at the start."""
    goal, section = Pose(*episode.goal_xy_m, 0.0), setting.config.dds
    if setting.senses.localization:
        return GoalRequest(now_ns, now_ns, section.map_frame, goal)
    return GoalRequest(now_ns, now_ns, section.odom_frame, between(episode.start, goal))


# ---- How a drive went, whichever loop drove it: `hil/drive/fast/drive.py` directly, `full_runtime.py` with the
# whole runtime

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
