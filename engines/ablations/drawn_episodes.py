"""Evaluation in a randomised training domain: each episode has its own robot, drawn as in the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from engines.train.rollout.domain_randomization import DomainSection, ScanFaults, draw_sample, with_faults
from engines.train.rollout.places import Building
from hil.drive.fast.course import course_of, varied
from hil.drive.fast.drive import FastDrive
from hil.drive.setting import MAX_S, Setting, wants_color
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.campaign import Driven, Job
from hil.evaluate.episode import EpisodeDriver, RobotFiles, Run
from hil.evaluate.episode_selection import Source
from hil.physics.free_space import free_space
from onboard.system.log import unlogged
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation


class DrawnEpisodes(EpisodeDriver):
    """An `EpisodeDriver` with a robot drawn by the seed of each job."""

    def __init__(self, run: Run, robot: RobotFiles, sources: Mapping[str, Source], domain: DomainSection) -> None:
        super().__init__(run, robot, sources)
        self._domain = domain
        self._building: Building | None = None
        self._model: Policy | None = None

    def __call__(self, job: Job) -> Driven:
        """Return the result of a job. Raises OnboardError."""
        place = self._at(job.map)
        building = self._building_of(place.setting)
        episode, rng = place.known.episodes[job.index], np.random.default_rng(job.seed)
        sample = draw_sample(self._domain, building, episode, rng)
        if self._model is None:
            self._model = make_policy(self._policy, place.setting, episode)
            self._model.memory_reset_s = self._condition.resets_every_s(self._model.memory_reset_s)
        policy, course = FaultyScan(self._model, sample.faults, rng), varied(building.course, sample.setting)
        with unlogged():
            outcome = FastDrive(sample.setting, course, episode, policy, job.seed, MAX_S).run()
        drawn = replace(place, setting=sample.setting)  # what is possible at best depends on the robot that drove
        return Driven(self._row(job, drawn, episode, outcome, sample.setting.crowd))

    def _building_of(self, setting: Setting) -> Building:
        if self._building is None or self._building.setting is not setting:
            self._building = Building(setting, course_of(setting), free_space(setting.world, setting.body))
        return self._building


class FaultyScan:
    """A policy whose scan has the faults of one drive; implements `onboard.values.interfaces.Policy`."""

    def __init__(self, policy: Policy, faults: ScanFaults, rng: np.random.Generator) -> None:
        self.name, self.memory_reset_s = policy.name, policy.memory_reset_s
        self.wants_color = wants_color(policy)
        self._policy, self._faults, self._rng = policy, faults, rng

    def initial_memory(self) -> Memory:
        """Return the policy's."""
        return self._policy.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the policy's decision on the faulty scan. Raises EngineError."""
        scan = observation.scan
        seen = replace(scan, ranges_m=with_faults(scan.ranges_m, self._faults, self._rng))
        return self._policy.decide(replace(observation, scan=seen), memory)

    def close(self) -> None:
        """Leave the policy open; its maker closes it."""
