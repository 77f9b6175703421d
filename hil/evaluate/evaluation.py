"""Run an evaluation: drive the remaining episodes, store each result at once, and return the figures of all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hil.drive.conditions import load_conditions
from hil.evaluate.baselines.registry import POLICIES, model_of
from hil.evaluate.campaign import DriveJob, Driven, Job, Partial, jobs_of
from hil.evaluate.episode import EpisodeDriver, RobotFiles, Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.metrics import BehindDoors, Summary, behind_doors, summarise, summarise_by
from hil.evaluate.progress import CampaignProgress
from hil.evaluate.result import Row
from hil.jobs.code_digest import DIGEST_BYTES, code_digest, file_digest
from hil.jobs.executor import executor
from onboard import __version__
from onboard.config.fixed_keys import with_fixed
from onboard.policy.manifest import manifest_path
from onboard.system.signals import KILLED_BY, Signals
from onboard.values.clock import wall_ns

INTERRUPTED = KILLED_BY + signal.SIGINT
"""Exit code of a command that Ctrl-C ended."""
PARTIAL_FOLDER = Path("out/evaluate")
PARTIAL_SUFFIX = ".partial.jsonl"
STATED: Mapping[str, tuple[str, float]] = {
    "arrival_confidence": ("goal", 0.0),
    "progress_timeout_s": ("goal", 60.0),
    "scan_matching": ("odometry", False),
    "slow_steps": ("limits", 1),
}
"""Rules that all policies of a table must share: key -> (its table in the configuration, its value in older results,
which do not state it)."""
OF_NO_EFFECT = {
    "robot": {"mounts", "plant"}, "policy": {"fallback"}, "scan": {"laser", "no_return"},
    "limits_scan": {"laser", "no_return"},
}  # fmt: skip
"""Keys that the robot's digest leaves out: told elsewhere or without effect, as simulated scans are in base_link."""
IN_WORDS = {"what", "base"}
"""Fields of a condition that change no drive."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Policy, robot, episodes and seed of an evaluation, and its number of workers. Workers change no result.

    jobs: number of processes; 1 is this process
    ray:  address of a cluster, which replaces the processes; None without a cluster
    also: more entries for the configuration, if the caller gives `evaluate` another `DriveJob` and rows depend on them
    """

    run: Run
    robot: RobotFiles
    sources: Sequence[Source]
    seed: int
    jobs: int = 1
    ray: str | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def drives(self) -> int:
        """Number of drives in all sets."""
        return sum(source.drives for source in self.sources)

    @property
    def jobs_in_order(self) -> list[Job]:
        """All jobs: by set, then by noise seed (`seed`, `seed` + 1, ...), then by episode."""
        return [
            job
            for source in self.sources
            for number in range(source.noise_seeds)
            for job in jobs_of(source.name, source.indices, self.seed + number)
        ]

    def of(self, run: Run) -> Plan:
        """Return the same plan for another run."""
        return replace(self, run=run)

    def configuration(self) -> dict[str, Any]:
        """Return everything that a row depends on, as plain values."""
        model = None if self.run.policy in POLICIES else model_of(self.run.policy)
        config = self.robot.config
        stated = {key: getattr(getattr(config, table), key) for key, (table, _) in STATED.items()}
        robot = {
            "config": with_fixed(config.model_dump(mode="json", exclude=OF_NO_EFFECT)),
            "plant": self.robot.plant.model_dump(mode="json", exclude_none=True),
            "mounts": file_digest(config.robot.mounts),
        }
        return {
            "version": __version__,
            "code": code_digest(),
            **asdict(self.run),
            "condition_values": load_conditions()[self.run.condition].model_dump(mode="json", exclude=IN_WORDS),
            "model": None if model is None else file_digest(model),
            "manifest": None if model is None else file_digest(manifest_path(model)),
            "robot": _digest(robot),
            **stated,
            "seed": self.seed,
            "sets": [source.identity for source in self.sources],
            **({} if self.robot.kernels is None else {"kernels": self.robot.kernels.digest}),
            **self.also,
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results of an evaluation.

    driven:    results in the order of sets and episodes; incomplete if `exit_code` is not 0
    exit_code: 0, or the exit code of a command that a signal ended
    began:     time of the last start
    wall_s:    wall-clock time since that start
    resumed:   number of episodes from earlier starts
    partial:   file that keeps the rows until `forget` removes it
    """

    plan: Plan
    driven: Sequence[Driven]
    exit_code: int
    began: datetime
    wall_s: float
    resumed: int
    partial: Path

    @property
    def rows(self) -> list[Row]:
        """Rows, one per episode."""
        return [driven.row for driven in self.driven]

    def summary(self) -> Summary:
        """Return the figures of all episodes."""
        return summarise(self.rows, self.plan.seed)

    def by(self, name: str) -> dict[str, Summary]:
        """Return the figures of each map or split. name: "map" or "split"."""
        return summarise_by(name, self.rows, self.plan.seed)

    def doors(self) -> BehindDoors | None:
        """Return the episodes behind doors; None in a condition without doors."""
        return behind_doors(self.rows, self.plan.seed)

    def forget(self) -> None:
        """Remove the partial file if all episodes were driven. Call this after the results are written."""
        if self.exit_code == 0:
            self.partial.unlink(missing_ok=True)

    def as_json(self) -> dict[str, Any]:
        """Return plain values. `run` holds start, duration and workers; other values depend on the configuration."""
        doors = self.doors()
        return {
            **self.summary().as_json(),
            "doors": None if doors is None else doors.as_json(),
            "complete": self.exit_code == 0,
            "configuration": self.plan.configuration(),
            "per_split": {name: one.as_json() for name, one in self.by("split").items()},
            "per_map": {name: one.as_json() for name, one in self.by("map").items()},
            "per_episode": [row.as_json() for row in self.rows],
            "run": {
                "began": self.began.isoformat(timespec="seconds"),
                "wall_s": round(self.wall_s, 3),
                "jobs": self.plan.jobs,
                "ray": self.plan.ray,
                "resumed_episodes": self.resumed,
            },
        }


def partial_path(plan: Plan, json_file: str | None) -> Path:
    """Return the path of the partial file: beside `json_file`; without it in `PARTIAL_FOLDER`, named by a digest."""
    if json_file is not None:
        return Path(f"{json_file}{PARTIAL_SUFFIX}")
    return PARTIAL_FOLDER / f"{_digest(plan.configuration())}{PARTIAL_SUFFIX}"


def evaluate(plan: Plan, partial_file: Path, title: str | None = None, drive: DriveJob | None = None) -> Evaluation:
    """Drive the remaining episodes of a plan and return all results; after a signal, the results so far.

    title: title of the progress display; the policy's name when None
    drive: another function that drives a job; `Plan.also` must describe it
    Raises OnboardError. The partial file then keeps the finished episodes.
    """
    began_ns = wall_ns()
    jobs = plan.jobs_in_order
    drive = drive or EpisodeDriver(plan.run, plan.robot, {source.name: source for source in plan.sources})
    with Partial(partial_file, plan.configuration()) as partial:
        driven = {one.key: one for one in partial.driven}
        resumed = len(driven)
        left = [job for job in jobs if job.key not in driven]

        def keep(one: Driven) -> None:
            driven[one.key] = one  # first: a signal between the two must not lose a row that the file holds
            partial.append(one)

        with CampaignProgress(title or plan.run.policy, plan.drives) as progress:
            exit_code = _drive_all(plan, drive, left, list(driven.values()), keep, progress)
    ordered = [driven[job.key] for job in jobs if job.key in driven]
    began = datetime.fromtimestamp(began_ns / 1e9, timezone.utc)
    wall_s = (wall_ns() - began_ns) / 1e9
    return Evaluation(plan, ordered, exit_code, began, wall_s, resumed, partial_file)


def _drive_all(
    plan: Plan,
    drive: DriveJob,
    left: Sequence[Job],
    before: Sequence[Driven],
    keep: Callable[[Driven], None],
    progress: CampaignProgress,
) -> int:
    """Drive the remaining jobs. Return 0, or the exit code for the signal that ended the command."""
    hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    try:
        with Signals():
            if hangup_ignored:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # under nohup, the campaign continues without its terminal
            progress.resume([one.row for one in before])
            with contextlib.closing(executor(plan.jobs, plan.ray)(drive, left)) as coming:
                for one in coming:
                    keep(one)
                    progress.add(one.row)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) and end.code > KILLED_BY else KILLED_BY + signal.SIGTERM
    return 0


def _digest(table: dict[str, Any]) -> str:
    text = json.dumps(table, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()
