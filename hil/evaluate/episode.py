"""Drive an episode of a campaign, from job to row: load the world, the robot and the policy, and drive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from hil.drive.conditions import ORDINARY, chosen, load_conditions
from hil.drive.episodes import EpisodeSet, straight_m
from hil.drive.fast.drive import FastOutcome, TrackedSlot, drive_fast, drive_tour
from hil.drive.full_runtime import drive_runtime
from hil.drive.setting import Outcome, Setting
from hil.evaluate.baselines.registry import (
    PLANNER,
    POLICIES,
    WITH_MAP,
    check_looks,
    check_policy,
    check_rates,
    make_policy,
    resolved,
)
from hil.evaluate.campaign import DriveResult, Job, noise_seed
from hil.evaluate.episode_selection import OWN_SPLIT, Source, load_set
from hil.evaluate.known_map import KnownMap, known_grid
from hil.evaluate.metrics import door_of
from hil.evaluate.result import Row, fastest_time_s
from hil.maps.materials import draw_appearance
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, blocked_cells, body_of
from hil.physics.free_space import Episode, FreeSpace, free_space, path_length, shortest_path
from hil.physics.state_kernels.kernel_set import KernelSet
from hil.scene.doors import door_on
from hil.scene.on_the_way import crossing_people, pallets_beside
from hil.scene.walkers import MOST_CHARACTERS, Crowd, crowd_near, crowd_of, walking_space
from hil.sensors.direct_scan import ScanKind, direct_scan
from onboard.assembly.policies import MAPPED
from onboard.assembly.robot import used_mounts
from onboard.config.config import Config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import Plant, load_plant
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import Reach, reach_in
from onboard.policy.fallback import first_of
from onboard.policy.network_policy import NetworkPolicy
from onboard.system.log import unlogged
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose

# ---- Pedestrians and a door in the robot's path


@dataclass(frozen=True, slots=True)
class Others:
    """Data for drawing the pedestrians, the door and what is on the path of an episode.

    pedestrians:  number of pedestrians; crossing: of people who cross the path and ignore everybody; pallets: beside it
    blocked_s:    duration of the door's closure, 0 without a door [s]
    walkable:     space where pedestrians can walk, None without pedestrians
    space, solid: free space and blocked cells of the robot's body, None without a door
    """

    pedestrians: int
    blocked_s: float
    walkable: FreeSpace | None
    space: FreeSpace | None
    solid: npt.NDArray[np.bool_] | None
    crossing: int = 0
    pallets: int = 0

    def crowd(self, episode: Episode, seed: int) -> Crowd | None:
        """Return pedestrians and door at the start of an episode, drawn by its seed; None if there are neither.

        Raises InputError if the pedestrians do not fit into the building.
        """
        drawn_by = noise_seed(seed, "crowd", 0)
        crowd = None if self.walkable is None else crowd_near(self.walkable, episode, drawn_by, self.pedestrians)
        if self.space is None or self.solid is None:
            return crowd
        if self.crossing:
            people = crossing_people(self.space, self.solid, episode, noise_seed(seed, "crossing", 0), self.crossing)
            crowd = people if crowd is None else crowd  # pedestrians of --pedestrians replace them
        if self.pallets:
            still = pallets_beside(self.space, self.solid, episode, noise_seed(seed, "pallets", 0), self.pallets)
            crowd = replace(crowd or crowd_of([], [], []), still=still)
        if not self.blocked_s:
            return crowd
        door = door_on(self.space, self.solid, episode, self.blocked_s)
        return crowd if door is None else replace(crowd or crowd_of([], [], []), blocking=door)


def others_in(
    world: World, body: Body, pedestrians: int, blocked_s: float, crossing: int = 0, pallets: int = 0
) -> Others:
    """Return a building's data for drawing the others. blocked_s: duration of the door's closure [s]."""
    path = blocked_s > 0.0 or crossing or pallets
    space, solid = (free_space(world, body), blocked_cells(world, body)) if path else (None, None)
    walkable = walking_space(world) if pedestrians else None
    return Others(pedestrians, blocked_s, walkable, space, solid, crossing, pallets)


Loop = Literal["fast", "runtime", "rendered"]
"""fast: policy and plant stepped directly, with the direct scan. runtime: the whole runtime, with the same scan.
rendered: the whole runtime with rendered cameras.
"""
KNOWN_MAPS = get_args(KnownMap)
LEAST_LEG_M = 1.0
"""A tour leaves a place out that is nearer than this to the one before."""
PATH_EVERY, PATH_DIGITS = 10, 3
"""Pictures get every tenth tick of the driven path, rounded to 1 mm."""
DIGITS = 4
"""Of the tracker's errors."""


@dataclass(frozen=True, slots=True)
class Run:
    """Policy and options of a campaign. A result depends on these, the robot, the episodes and the seed.

    scan:        kind of scan for policy and limits
    known_map:   the policy's map (`known_map.py`); "" for the condition's, or the policy's own: the plan for `mapped`,
                 true for `planner`
    pedestrians: number of pedestrians in addition to the condition's
    condition:   row of hil/drive/conditions.toml
    color:       whether the robot has a colour camera
    """

    policy: str
    loop: Loop = "fast"
    scan: ScanKind = "fused"
    known_map: KnownMap = ""
    pedestrians: int = 0
    condition: str = ORDINARY
    color: bool = True


@dataclass(frozen=True, slots=True)
class RobotFiles:
    """A loaded configuration, the loaded mounts and plant files that it names, and kernels of the base, if any."""

    config: Config
    mounts: Mounts
    plant: Plant
    kernels: KernelSet | None = None

    @property
    def body(self) -> Body:
        """Outer shape of the robot."""
        return body_of(self.config.robot)


def robot_files(config: Config) -> RobotFiles:
    """Load the mounts and plant files of a configuration; of the mounts what it uses. Raises ConfigError."""
    mounts = used_mounts(config, load_mounts(config.robot.mounts))
    return RobotFiles(config, mounts, load_plant(config.robot.plant))


def check_run(run: Run, robot: RobotFiles | None = None) -> None:
    """Raise InputError or ConfigError if the policy does not exist or the options contradict each other.

    robot: the condition must fit its cameras and rates; not checked if None
    """
    check_policy(run.policy)
    if run.known_map and run.policy not in WITH_MAP:
        raise InputError(f"--known-map {run.known_map}: only {' and '.join(WITH_MAP)} know a map, not {run.policy}")
    if not 0 <= run.pedestrians <= MOST_CHARACTERS:
        raise InputError(f"--pedestrians {run.pedestrians}: must be 0 to {MOST_CHARACTERS}")
    (name,) = chosen([run.condition])
    condition = load_conditions()[name]
    if run.loop != "fast" and not condition.limits:
        raise InputError(f"--condition {name}: with --runtime the limits cannot be left out")
    if run.loop != "fast" and condition.goals > 1:
        raise InputError(f"--condition {name}: a tour of {condition.goals} places is driven without --runtime only")
    if run.loop == "fast" and robot is not None and robot.config.odometry.imu:
        raise InputError("odometry.imu: only the whole runtime reads an IMU: add --runtime")
    if robot is not None:
        check_rates(run.policy, robot.config)
        if run.scan == "fused":
            check_looks(run.policy, robot.config, robot.mounts)
        try:
            condition.check(robot.mounts, robot.config)
        except InputError as error:
            raise InputError(f"--condition {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Place:
    """Data that all episodes of one set share. grid: the policy's map, None without one."""

    source: Source
    known: EpisodeSet
    grid: OccupancyGrid | None
    others: Others
    setting: Setting


class EpisodeDriver:
    """Drives the jobs of some sets. Each worker gets a copy.

    Keeps the world of the last set with its map policy, and the network after the first load.
    """

    def __init__(self, run: Run, robot: RobotFiles, sources: Mapping[str, Source]) -> None:
        self._run = run
        # An absolute path, since a worker may have another working folder.
        self._policy = run.policy if run.policy in POLICIES else resolved(run.policy)
        self._robot = robot
        self._condition = load_conditions()[run.condition]
        self._sources = dict(sources)
        self._place: _Place | None = None
        self._loaded: Policy | None = None
        self._with_map: Policy | None = None
        self._reach: Reach | None = None

    def __call__(self, job: Job) -> DriveResult:
        """Return the result of a job. It depends on the job alone. Raises OnboardError."""
        place = self._at(job.map)
        tour = self._tour(place, job.index)
        episode = tour[0]
        setting = self._setting(place, episode, job.seed)
        setting = self._mapped(place, setting)
        policy = self._loaded or self._with_map or make_policy(self._policy, setting, episode, place.grid)
        self._with_map = policy if self._policy in WITH_MAP else None
        network = first_of(policy)
        if isinstance(network, NetworkPolicy) and self._loaded is None:
            network.memory_reset_s = self._condition.resets_every_s(network.memory_reset_s)
            self._loaded = policy
        outcome: Outcome
        with unlogged():
            if len(tour) > 1:
                outcome = drive_tour(setting, tour, policy, job.seed, place.source.limit_s)
                total_m = sum(one.geodesic_m for one in tour)
                episode = Episode(episode.start, tour[-1].goal_xy_m, total_m)
            elif self._run.loop == "fast":
                outcome = drive_fast(setting, episode, policy, job.seed, max_s=place.source.limit_s)
            else:
                rendered = self._run.loop == "rendered"
                outcome = drive_runtime(
                    setting, episode, policy, job.seed, rendered=rendered, max_s=place.source.limit_s
                )
        return DriveResult(self._row(job, place, episode, outcome, setting.crowd), _path_of(outcome))

    def _tour(self, place: _Place, index: int) -> list[Episode]:
        """Return the episode, and for a tour those from each goal to the goal of the next episodes."""
        listed, tour = place.known.episodes, [place.known.episodes[index]]
        if self._condition.goals > 1:
            space, number = free_space(place.known.world, self._robot.body), index
            while len(tour) < self._condition.goals and number < index + 2 * len(listed) + self._condition.goals:
                number += 1
                here, goal = tour[-1].goal_xy_m, listed[number % len(listed)].goal_xy_m
                path = shortest_path(space, here, goal)
                if path is not None and path_length(path) > LEAST_LEG_M:
                    tour.append(Episode(Pose(*here, 0.0), goal, path_length(path)))
        return tour

    def _at(self, map_name: str) -> _Place:
        if self._place is None or self._place.source.name != map_name:
            self._place = None  # free the old world before the next is loaded
            source = self._sources[map_name]
            known = load_set(source)
            self._with_map = self._reach = None
            setting = self._robot_in(known.world)
            pedestrians = self._run.pedestrians + self._condition.pedestrians
            row = self._condition
            others = others_in(known.world, self._robot.body, pedestrians, row.blocked_s, row.crossing, row.pallets)
            self._place = _Place(source, known, self._grid(source, known, setting), others, setting)
        return self._place

    def _grid(self, source: Source, known: EpisodeSet, setting: Setting) -> OccupancyGrid | None:
        if self._run.policy not in WITH_MAP and not setting.config.map.tracker:
            return None
        own: KnownMap = "true" if self._run.policy == PLANNER else "plan"
        return known_grid(self._run.known_map or self._condition.known_map or own, source, known, setting)

    def _mapped(self, place: _Place, setting: Setting) -> Setting:
        """Return the setting of a drive with the robot's map, if it has one."""
        if place.grid is None or (self._run.policy != MAPPED and not setting.config.map.tracker):
            return setting
        if self._reach is None:
            self._reach = reach_in(place.grid, setting.body.inner_m)
        return replace(setting, reach=self._reach)

    def _robot_in(self, world: World) -> Setting:
        """Return the robot under the run's condition. Made once per set: caches find shared data by object identity."""
        robot, run = self._robot, self._run
        mounts = robot.mounts if run.color else replace(robot.mounts, color={})
        ordinary = Setting(world, robot.plant, robot.body, mounts, robot.config, scan=run.scan, kernels=robot.kernels)
        return self._condition.of(ordinary)

    def _setting(self, place: _Place, episode: Episode, seed: int) -> Setting:
        return replace(place.setting, crowd=place.others.crowd(episode, seed), look=draw_appearance(seed))

    def _row(self, job: Job, place: _Place, episode: Episode, outcome: Outcome, crowd: Crowd | None) -> Row:
        door = None if crowd is None else crowd.blocking
        met = door_of(door, outcome.trace[:, 1:3], self._robot.body.radius_m)
        return Row(
            map=job.map,
            building=place.known.building,
            split=place.known.split or OWN_SPLIT,
            index=job.index,
            policy=self._run.policy,
            seed=job.seed,
            success=outcome.reached,
            ended=outcome.ended,
            time_s=outcome.time_s,
            path_m=outcome.path_m,
            shortest_m=episode.geodesic_m,
            straight_m=straight_m(episode),
            fastest_s=fastest_time_s(episode.geodesic_m, place.setting.base_plant.linear),
            contacts=outcome.contacts,
            bumps=outcome.bumps,
            min_clearance_m=outcome.min_clearance_m,
            distance_m=outcome.distance_m,
            actions=tuple(int(count) for count in outcome.actions),
            door=met if self._condition.blocked_s > 0.0 else None,
            set_by_kernels=outcome.set_by_kernels,
            unseen_contacts=unseen_contacts(place.setting, outcome.touched_m) if outcome.touched_m else None,
            tracked=_rounded(outcome.tracked) if isinstance(outcome, FastOutcome) else None,
        )


def _rounded(tracked: Sequence[TrackedSlot]) -> tuple[TrackedSlot, ...] | None:
    return tuple((round(off_m, DIGITS), round(off_rad, DIGITS), lost) for off_m, off_rad, lost in tracked) or None


def _path_of(outcome: Outcome) -> tuple[tuple[float, float, float], ...]:
    """Return every tenth tick of the driven path, and its last tick."""
    kept = [*outcome.trace[:-1:PATH_EVERY], outcome.trace[-1]]
    return tuple(tuple(round(float(value), PATH_DIGITS) for value in row[1:4]) for row in kept)  # type: ignore[misc]


NEAR_M = 0.1
"""Two cells of a usual map: what is no farther from the footprint was touched."""


def unseen_contacts(setting: Setting, places_m: Sequence[tuple[float, float]]) -> int:
    """Return how many contacts were with cells that are solid for the body, and outside of the scan's heights.

    places_m: the base at each contact, in the map frame. A contact with something of both kinds near by is not counted
    """
    world, config = setting.world, setting.config
    scan = direct_scan(world, setting.mounts, config.own_scan or config.scan, setting.scan)
    seen = np.logical_or.reduce([world.overlapping(one.z_min_m, one.z_max_m) for one in (scan, scan.also or scan)])
    hidden = blocked_cells(world, setting.body) & ~seen
    reach = math.ceil((setting.body.radius_m + NEAR_M) / world.cell_m)
    away = np.hypot(*np.mgrid[-reach : reach + 1, -reach : reach + 1]) * world.cell_m <= setting.body.radius_m + NEAR_M
    count = 0
    for place_m in places_m:
        row, column = world.cell_of(place_m)
        near = [
            np.pad(cells, reach)[row : row + 2 * reach + 1, column : column + 2 * reach + 1] & away
            for cells in (seen, hidden)
        ]
        count += bool(near[1].any() and not near[0].any())
    return count
