"""One episode of a campaign, from its job to its row: the world, the robot, the policy, the drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from hil.drive.conditions import ORDINARY, chosen, load_conditions
from hil.drive.episodes import EpisodeSet, straight_m
from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.setting import Outcome, Setting
from hil.evaluate.baselines.registry import POLICIES, check_policy, make_policy, model_of
from hil.evaluate.campaign import Driven, Job, noise_seed
from hil.evaluate.episode_selection import OWN_SPLIT, Source, load_set, rearranged
from hil.evaluate.metrics import door_of
from hil.evaluate.result import Row, fastest_time_s
from hil.maps.materials import draw_look
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, blocked_cells
from hil.physics.free_space import Episode, FreeSpace, free_space
from hil.scene.crowd_file import MOST_CHARACTERS
from hil.scene.doors import door_on
from hil.scene.walkers import Crowd, crowd_of, make_crowd, walking_space
from hil.sensors.direct_scan import ScanKind
from onboard.config.config import Config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import Plant, load_plant
from onboard.policy.network_policy import NetworkPolicy
from onboard.system.log import unlogged
from onboard.values.errors import InputError

# ---- Who and what else is in the robot's way in the drives of one building: people who walk about, and a door


@dataclass(frozen=True, slots=True)
class Others:
    """What is needed to draw them for an episode.

    pedestrians: how many; walkable: where they can walk, None without any
    blocked_s:   how long the door is closed, 0 without one; space, solid: of the robot's body, None without a door
    """

    pedestrians: int
    blocked_s: float
    walkable: FreeSpace | None
    space: FreeSpace | None
    solid: npt.NDArray[np.bool_] | None

    def crowd(self, episode: Episode, seed: int) -> Crowd | None:
        """Return them at the beginning of an episode, drawn by its seed; None where there is nobody and no door.

        Raises InputError where there is no room for so many.
        """
        crowd = self._pedestrians(episode, seed)
        if self.space is None or self.solid is None:
            return crowd
        door = door_on(self.space, self.solid, episode, self.blocked_s)
        return crowd if door is None else replace(crowd or crowd_of([], [], []), blocking=door)

    def _pedestrians(self, episode: Episode, seed: int) -> Crowd | None:
        """Return pedestrians who walk where the robot is to drive."""
        if self.walkable is None:
            return None
        start = (episode.start.x_m, episode.start.y_m)
        ends = (start, episode.goal_xy_m)
        return make_crowd(self.walkable, noise_seed(seed, "crowd", 0), self.pedestrians, keep_clear=(start,), near=ends)


def others_in(world: World, body: Body, pedestrians: int, blocked_s: float) -> Others:
    """Return what is needed of a building."""
    space, solid = (free_space(world, body), blocked_cells(world, body)) if blocked_s > 0.0 else (None, None)
    return Others(pedestrians, blocked_s, walking_space(world) if pedestrians else None, space, solid)


Loop = Literal["fast", "runtime", "rendered"]
"""Policy and plant directly; the whole runtime with the same direct scan; the whole runtime with rendered cameras."""
KnownMap = Literal["true", "rearranged"]
PATH_EVERY, PATH_DIGITS = 10, 3
"""Of a way, every tenth tick is kept for pictures, to 1 mm."""
PLANNER = "planner"
"""The policy that knows a map."""


@dataclass(frozen=True, slots=True)
class Run:
    """What drives, and how: with the episodes and the seed, all that a result depends on.

    scan:      what policy and limits see
    known_map: what the planner believes the building to look like
    pedestrians: people who walk about, beside those of the condition
    condition: row of conditions.toml
    color:     whether the colour camera is there
    """

    policy: str
    loop: Loop = "fast"
    scan: ScanKind = "fused"
    known_map: KnownMap = "true"
    pedestrians: int = 0
    condition: str = ORDINARY
    color: bool = True


@dataclass(frozen=True, slots=True)
class RobotFiles:
    """A configuration with the files it names, loaded."""

    config: Config
    mounts: Mounts
    plant: Plant

    @property
    def body(self) -> Body:
        """The outer shape."""
        return Body(self.config.robot.footprint_radius_m, self.config.robot.height_m)


def robot_files(config: Config) -> RobotFiles:
    """Load what a configuration names. Raises ConfigError."""
    return RobotFiles(config, load_mounts(config.robot.mounts), load_plant(config.robot.plant))


def check_run(run: Run, robot: RobotFiles | None = None) -> None:
    """Raise InputError or ConfigError for a policy that does not exist, or options that do not go together.

    robot: whose cameras and rates a condition must fit
    """
    check_policy(run.policy)
    if run.known_map != "true" and run.policy != PLANNER:
        raise InputError(f"--known-map {run.known_map}: only the {PLANNER} knows a map, not {run.policy}")
    if not 0 <= run.pedestrians <= MOST_CHARACTERS:
        raise InputError(f"--pedestrians {run.pedestrians}: must be 0 to {MOST_CHARACTERS}")
    (name,) = chosen([run.condition])
    condition = load_conditions()[name]
    if run.loop != "fast" and not condition.limits:
        raise InputError(f"--condition {name}: with --runtime the limits cannot be left out")
    if robot is not None:
        try:
            condition.check(robot.mounts, robot.config)
        except InputError as error:
            raise InputError(f"--condition {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Place:
    """What stays from episode to episode of one set."""

    source: Source
    known: EpisodeSet
    planned_in: World | None
    others: Others
    setting: Setting


class EpisodeDriver:
    """Drives jobs of some sets; keeps the world of the last one, and a network once loaded. Goes to every worker."""

    def __init__(self, run: Run, robot: RobotFiles, sources: Mapping[str, Source]) -> None:
        self._run = run
        # Absolute, since a worker may have another working folder.
        self._policy = run.policy if run.policy in POLICIES else str(model_of(run.policy).resolve())
        self._robot = robot
        self._condition = load_conditions()[run.condition]
        self._sources = dict(sources)
        self._place: _Place | None = None
        self._network: NetworkPolicy | None = None

    def __call__(self, job: Job) -> Driven:
        """Return what came of a job; it depends on nothing else. Raises OnboardError."""
        place = self._at(job.map)
        episode = place.known.episodes[job.index]
        setting = self._setting(place, episode, job.seed)
        policy = self._network or make_policy(self._policy, setting, episode, place.planned_in)
        if isinstance(policy, NetworkPolicy) and self._network is None:
            policy.memory_reset_s = self._condition.resets_every_s(policy.memory_reset_s)
            self._network = policy
        with unlogged():
            if self._run.loop == "fast":
                outcome = drive_fast(setting, episode, policy, job.seed)
            else:
                outcome = drive_runtime(setting, episode, policy, job.seed, rendered=self._run.loop == "rendered")
        return Driven(self._row(job, place, episode, outcome, setting.crowd), _path_of(outcome))

    def _at(self, map_name: str) -> _Place:
        if self._place is None or self._place.source.name != map_name:
            self._place = None  # so that only one world is held at a time
            source = self._sources[map_name]
            known = load_set(source)
            planned_in = rearranged(source, known) if self._run.known_map == "rearranged" else None
            pedestrians = self._run.pedestrians + self._condition.pedestrians
            others = others_in(known.world, self._robot.body, pedestrians, self._condition.blocked_s)
            self._place = _Place(source, known, planned_in, others, self._robot_in(known.world))
        return self._place

    def _robot_in(self, world: World) -> Setting:
        """Return the robot under the run's condition; made once, since what drives share goes by identity."""
        robot, run = self._robot, self._run
        mounts = robot.mounts if run.color else replace(robot.mounts, color={})
        ordinary = Setting(world, robot.plant, robot.body, mounts, robot.config, scan=run.scan)
        return self._condition.of(ordinary)

    def _setting(self, place: _Place, episode: Episode, seed: int) -> Setting:
        return replace(place.setting, crowd=place.others.crowd(episode, seed), look=draw_look(seed))

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
        )


def _path_of(outcome: Outcome) -> tuple[tuple[float, float, float], ...]:
    """Return the way driven thinned, with its end."""
    kept = [*outcome.trace[:-1:PATH_EVERY], outcome.trace[-1]]
    return tuple(tuple(round(float(value), PATH_DIGITS) for value in row[1:4]) for row in kept)  # type: ignore[misc]
