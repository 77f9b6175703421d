"""An agent of the ablations: trained, exported and driven in its conditions. Each step resumes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.ablations.agents import OWN, Agent, Agents, Place
from engines.ablations.results import is_current, is_of, read_result, write_whole
from engines.export.export import export, manifest_extra
from engines.network.network import untrained
from engines.network.policy_checkpoint import DELAY_TICKS, PolicyFile, load_policy_file
from engines.train import stages
from engines.train.config import TrainConfig
from engines.train.dagger import STAGE
from engines.train.rollout import domain_randomization
from engines.train.rollout.domain_randomization import DomainSection, ScanFaults, draw_sample, with_faults
from engines.train.rollout.places import Building
from hil.drive.fast.course import course_of, varied
from hil.drive.fast.drive import FastDrive
from hil.drive.setting import MAX_S, Setting, wants_color
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.campaign import DriveJob, DriveResult, Job
from hil.evaluate.episode import EpisodeDriver, RobotFiles, Run, check_run
from hil.evaluate.episode_selection import Source, find_sets
from hil.evaluate.evaluation import Plan, evaluate
from hil.jobs.code_digest import DIGEST_BYTES
from hil.physics.free_space import free_space
from onboard.policy.manifest import load_manifest, manifest_path, sha256_of
from onboard.system.log import unlogged
from onboard.values.errors import ConfigError, InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation

# ---- Digest of the code that drives `DrawnEpisodes`


@functools.cache
def engines_digest() -> str:
    """Return a digest of this package's code and of `domain_randomization`, read at the first call."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for file in (*sorted(Path(__file__).parent.glob("*.py")), Path(domain_randomization.__file__)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


MODEL, TRAINING = "policy.onnx", "training"
ENCODER = "encoder_sha256"
"""Key in the manifest of an agent with colour."""
DEVICE = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Trial:
    """An evaluation of an agent.

    file:  of the result
    drive: a driver instead of the one of `hil.evaluate`, or None
    """

    place: Place
    plan: Plan
    file: Path
    drive: DriveJob | None

    def done(self) -> dict[str, Any] | None:
        """Return the result, None if missing or of another model or other episodes."""
        result = read_result(self.file)
        return result if is_of(result, self.plan.configuration()) else None


def make_agent(agent: Agent, folder: Path, encoder: Path | None) -> Path:
    """Train and export an agent in its folder, unless done; return the model.

    encoder: weights of the colour encoder, for an agent with colour
    Raises OnboardError; the same call resumes at the last checkpoint.
    """
    model = folder / MODEL
    if is_made(agent, folder, encoder):
        return model
    trained = load_policy_file(_train(agent, folder / TRAINING, encoder))
    extra = {**manifest_extra(trained), DELAY_TICKS: agent.delay_ticks}
    if agent.sees_colour and encoder is not None:
        extra[ENCODER] = sha256_of(encoder)
    export(model, trained.network, agent.config.name, extra)
    return model


def check_agents(agents: Sequence[Agent]) -> None:
    """Raise InputError for the first agent whose training cannot work."""
    for agent in agents:
        try:
            stages.check(agent.config)
        except (ConfigError, InputError) as error:
            raise InputError(f"agent {agent.name}: {error}") from error


def is_made(agent: Agent, folder: Path, encoder: Path | None = None) -> bool:
    """Return whether the model of this training exists, with this encoder if the agent needs one.

    Raises ConfigError for a model that does not fit its manifest.
    """
    model = folder / MODEL
    if not (model.is_file() and manifest_path(model).is_file()):
        return False
    extra = load_manifest(model).extra
    if agent.sees_colour and encoder is not None and extra.get(ENCODER) != sha256_of(encoder):
        return False
    training = extra.get("training", {})
    return isinstance(training, Mapping) and training.get("digest") == agent.config.digest(STAGE)


def trials(agents: Agents, agent: Agent, folder: Path) -> list[Trial]:
    """Return the evaluations of an agent, one for each of its places.

    Raises InputError or ConfigError, also for a missing model.
    """
    return [_trial(agents, agent, folder, place) for place in agent.places()]


def run_trial(trial: Trial, *, again: bool = False) -> int:
    """Drive the missing episodes of a trial and write its result; return 0, or the exit code of a signal.

    again: repeat the drives of another version of the code
    Raises OnboardError; finished episodes are kept.
    """
    before = trial.done()
    if before is not None and not (again and not is_current(before, trial.plan.configuration())):
        return 0
    partial = trial.file.with_name(f"{trial.file.name}.partial.jsonl")
    found = evaluate(trial.plan, partial, f"{trial.file.parent.name}, {trial.file.stem}", trial.drive)
    if found.exit_code == 0:
        write_whole(trial.file, json.dumps(found.as_json()) + "\n")
        found.forget()
    return found.exit_code


def _trial(agents: Agents, agent: Agent, folder: Path, place: Place) -> Trial:
    own = place.where == OWN
    robot = (agent.own_robot() if own else None) or agent.robot()
    sources = find_sets(list(agents.maps), agents.episodes, agents.seed, robot.body, agents.set_name)
    run = Run(str(folder / MODEL), condition=agent.own_condition if own else place.where)
    check_run(run, robot)
    by_name = {source.name: source for source in sources}
    drive = DrawnEpisodes(run, robot, by_name, agent.config.domain) if own and agent.is_randomised else None
    also = {} if drive is None else {"within_s": MAX_S, "engines": engines_digest()}
    return Trial(place, Plan(run, robot, sources, agents.seed, also=also), folder / place.file, drive)


def _train(agent: Agent, folder: Path, encoder: Path | None) -> Path:
    """Train an agent; return the trainer's file."""
    if not agent.sees_colour:
        return stages.train(agent.config, folder, DEVICE, STAGE)
    if encoder is None:
        raise InputError(f"agent {agent.name} sees colour: give --encoder FILE, the weights of a trained encoder")

    def initial(config: TrainConfig) -> PolicyFile:
        return PolicyFile(untrained(config.seed, config.network.widths, config.network.variant), "")

    return stages.train(agent.config, folder, DEVICE, STAGE, initial, encoder=encoder)


# ---- Evaluation in a randomised training domain: each episode has its own robot, drawn as in the training


class DrawnEpisodes(EpisodeDriver):
    """An `EpisodeDriver` with a robot drawn by the seed of each job."""

    def __init__(self, run: Run, robot: RobotFiles, sources: Mapping[str, Source], domain: DomainSection) -> None:
        super().__init__(run, robot, sources)
        self._domain = domain
        self._building: Building | None = None
        self._model: Policy | None = None

    def __call__(self, job: Job) -> DriveResult:
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
        return DriveResult(self._row(job, drawn, episode, outcome, sample.setting.crowd))

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
