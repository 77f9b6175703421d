"""The setting of a drive: building, robot, configuration and senses. It is the same in every episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hil.drive.robot import TICK_HZ, Senses
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.physics.state_kernels.kernel_set import KernelSet
from hil.sensors.direct_scan import DirectScan, ScanKind
from hil.sensors.flawed_scan import FlawedScan
from onboard.config.config import Config, ScanSection
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.navigation.mission import Mission, State
from onboard.perception.building.reach import Reach
from onboard.policy.encode import ColorFeed, parts_of
from onboard.policy.fallback import first_of
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import between
from onboard.values.interfaces import Policy
from onboard.values.messages import GoalRequest, Pose

if TYPE_CHECKING:
    from hil.maps.materials import Appearance
    from hil.scene.walkers import Crowd

SETTLE_S = 2.5
"""Time before the goal; the first fixes come in this time."""


def goal_tick(ticks_per_decision: int) -> int:
    """Return the tick in which the goal of a drive comes: after `SETTLE_S`, 1 tick before the first decision.

    The robot stands until this tick, and the first localisation fixes come.
    """
    settled = -(-round(SETTLE_S * NS_PER_S) // round(NS_PER_S / TICK_HZ))
    return settled + (-settled - 1) % ticks_per_decision


ORDINARY_SENSES = Senses()


@dataclass(frozen=True, slots=True)
class Setting:
    """A building, a robot and its configuration.

    plant:  the plant that the robot assumes; also the true plant of the base if `true_plant` is None
    senses: quality of wheels, localisation and cameras; each drive sets its own seed
    crowd:  moving characters at the beginning of a drive; None without characters
    scan:   "fused" is the view of the depth cameras, "lidar" a full circle in one plane; for policy and limits
    look:   colours and light for the colour camera; None is plain
    limits: whether limits (`onboard.safety.limits`) and recovery are active; otherwise the policy drives alone
    true_plant: the true plant of the base, if it differs from `plant`
    kernels: they may set the pose of the base (paper 2); None for the plain simulator
    reach:  the map that the robot has of the building; None without one
    """

    world: World
    plant: Plant
    body: Body
    mounts: Mounts
    config: Config
    senses: Senses = ORDINARY_SENSES
    crowd: Crowd | None = None
    scan: ScanKind = "fused"
    look: Appearance | None = None
    limits: bool = True
    true_plant: Plant | None = None
    kernels: KernelSet | None = None
    reach: Reach | None = None

    @property
    def base_plant(self) -> Plant:
        """The true plant of the base."""
        return self.plant if self.true_plant is None else self.true_plant


def flawed(scan: DirectScan, setting: Setting, section: ScanSection, seed: int) -> DirectScan | FlawedScan:
    """Return the scan of a drive: `scan` itself, or with the flaws of the setting's senses."""
    senses = setting.senses
    if not senses.flaws.any:
        return scan
    return FlawedScan(scan, setting.mounts, section, senses.flaws, senses.depth_noise, seed, senses.depth_every)


# ---- Common to all drive loops: the goal request, the start frame in the map, the use of colour


@runtime_checkable
class ColorPolicy(Protocol):
    """A policy that declares whether it uses the colour image."""

    @property
    def wants_color(self) -> bool:
        """Return whether the policy uses the colour image."""


def wants_color(policy: Policy) -> bool:
    """Return whether a policy uses the colour image: the policy declares it, or its network's manifest lists it."""
    policy = first_of(policy)
    if isinstance(policy, ColorPolicy):
        return policy.wants_color
    return isinstance(policy, NetworkPolicy) and any(
        isinstance(part, ColorFeed) for feed in policy.manifest.feeds for part in parts_of(feed)
    )


def goal_request(setting: Setting, episode: Episode, now_ns: int) -> GoalRequest:
    """Return the goal of an episode in the map frame; without localisation, in the odom frame (origin: the start)."""
    goal, section = Pose(*episode.goal_xy_m, 0.0), setting.config.dds
    if setting.senses.localization:
        return GoalRequest(now_ns, now_ns, section.map_frame, goal)
    return GoalRequest(now_ns, now_ns, section.odom_frame, between(episode.start, goal))


# ---- Outcome of a drive, the same for `hil/drive/fast/drive.py` and `hil/drive/full_runtime.py`

REACHED_M = 0.2
"""A stop within this distance of the goal is a success (paper 1, section 5). The runtime itself takes a goal for
reached at `goal.tolerance_m` in `onboard/config/config.py`, by its own estimate of the pose."""
MAX_S = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a drive.

    reached:         whether the policy stopped the robot, at rest, with a true distance to the goal up to `REACHED_M`
    ended:           "stop", "time", or the runtime's reason to end the drive ("blocked: 3 recoveries in 60 s failed")
    contacts:        number of contacts; a contact counts once, whatever its duration
    distance_m:      true distance to the goal at the end
    min_clearance_m: least distance between footprint and any solid cell or body during the drive; 0 in contact
    actions:         (28,) int64; how often the policy chose each action
    trace:           (n, 6) time [s], x, y, yaw in the map frame, v, w; one row per tick, from the goal's tick on
    bumps:           number of times that a moving body walked into the robot; not included in `contacts`
    set_by_kernels:  number of poses of the base that kernels have set; None without kernels
    touched_m:       x, y of the base at its contacts, in the map frame; of two within a decision, the later one twice
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
    set_by_kernels: int | None = None
    touched_m: tuple[tuple[float, float], ...] = ()


def how_ended(mission: Mission) -> str:
    """Return the end of a drive by the state of its mission, "" while the drive continues.

    The drive ends when the policy holds the stop action until the robot rests, at the goal or elsewhere. The runtime
    itself waits a little longer before it gives up away from the goal.
    """
    if mission.state is State.REACHED or mission.stopped_since_ns is not None:
        return "stop"
    return "" if mission.driving else mission.reason
