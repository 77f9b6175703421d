"""Episodes of a campaign driven by position actions, where `hil.evaluate` knows only velocities."""

from __future__ import annotations

from collections.abc import Mapping

from engines.ablations.position_drive import PositionDrive, chosen_action
from hil.baselines import make_policy
from hil.course import course_of
from hil.evaluate.campaign import Driven, Job
from hil.evaluate.episode_driver import EpisodeDriver, RobotFiles, Run
from hil.evaluate.sets import Source
from hil.routes import Episode
from hil.setting import Setting
from onboard.errors import InputError
from onboard.policy import NetworkPolicy


class PositionEpisodes(EpisodeDriver):
    """Drives jobs as `EpisodeDriver` does. within_s: time for an episode; exact: steps are executed exactly."""

    def __init__(
        self, run: Run, robot: RobotFiles, sources: Mapping[str, Source], within_s: float, *, exact: bool
    ) -> None:
        super().__init__(run, robot, sources)
        self._within_s, self._exact = within_s, exact
        self._steps: NetworkPolicy | None = None

    def __call__(self, job: Job) -> Driven:
        """Return what came of a job. Raises OnboardError."""
        place = self._at(job.map)
        episode = place.known.episodes[job.index]
        setting = self._setting(place, episode, job.seed)
        drive = self._drive(setting, episode, job.seed)
        return Driven(self._row(job, place, episode, drive.outcome(), setting.crowd))

    def _drive(self, setting: Setting, episode: Episode, seed: int) -> PositionDrive:
        policy = self._policy_for(setting, episode)
        drive = PositionDrive(setting, course_of(setting), episode, policy, seed, self._within_s, self._exact)
        memory = policy.initial_memory()
        while not drive.ended:
            observation, fresh = drive.observe()
            decision, memory = policy.decide(observation, policy.initial_memory() if fresh else memory)
            drive.act(chosen_action(decision.logits))
        return drive

    def _policy_for(self, setting: Setting, episode: Episode) -> NetworkPolicy:
        if self._steps is None:
            policy = make_policy(self._policy, setting, episode)
            if not isinstance(policy, NetworkPolicy):
                raise InputError(f"{self._policy}: position actions need a network")
            policy.memory_reset_s = self._condition.resets_every_s(policy.memory_reset_s)
            self._steps = policy
        return self._steps
