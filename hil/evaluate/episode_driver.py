"""One episode of a campaign, from its job to its row: the world, the robot, the policy, the drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hil.baselines import POLICIES, check_policy, make_policy, model_of
from hil.conditions import ORDINARY, chosen, load_conditions
from hil.crowd_file import MOST_CHARACTERS
from hil.direct_scan import ScanKind
from hil.episode_files import EpisodeSet, straight_m
from hil.evaluate.campaign import Driven, Job
from hil.evaluate.doors import door_of
from hil.evaluate.others import Others, others_in
from hil.evaluate.result import Row, fastest_time_s
from hil.evaluate.sets import OWN_SPLIT, Source, load_set, rearranged
from hil.fast import drive_fast
from hil.inprocess import drive_runtime
from hil.maps import World
from hil.outcome import Outcome
from hil.quiet import unlogged
from hil.routes import Episode
from hil.setting import Setting
from hil.textures import draw_look
from hil.walkers import Crowd
from hil.world import Body
from onboard.config import Config
from onboard.errors import InputError
from onboard.motion import Plant, load_plant
from onboard.mounts import Mounts, load_mounts
from onboard.policy import NetworkPolicy

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
