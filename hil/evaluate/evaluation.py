"""One evaluation from beginning to end: what is left to drive is driven, kept as it comes, and summed up."""

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
from hil.jobs.hands import executor
from onboard import __version__
from onboard.policy.manifest import manifest_path
from onboard.system.signals import KILLED_BY, Signals
from onboard.values.clock import wall_ns

INTERRUPTED = KILLED_BY + signal.SIGINT
"""How Ctrl-C ends a command."""
PARTIAL_FOLDER = Path("out/evaluate")
PARTIAL_SUFFIX = ".partial.jsonl"
IN_WORDS = {"what", "base"}
"""Of a condition, what changes no drive."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be evaluated, and by how many hands; those change no result.

    jobs: processes; 1 is this one. ray: address of a cluster instead
    also: of its configuration, what else a row depends on where another way to drive is given to `evaluate`
    """

    run: Run
    robot: RobotFiles
    sources: Sequence[Source]
    seed: int
    jobs: int = 1
    ray: str | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def episodes(self) -> int:
        """How many there are."""
        return sum(source.count for source in self.sources)

    def of(self, run: Run) -> Plan:
        """Return the same for another run."""
        return replace(self, run=run)

    def configuration(self) -> dict[str, Any]:
        """Return all that a row depends on, as plain values."""
        model = None if self.run.policy in POLICIES else model_of(self.run.policy)
        robot = {
            "config": self.robot.config.model_dump(mode="json", exclude={"robot": {"mounts", "plant"}}),
            "plant": self.robot.plant.model_dump(mode="json"),
            "mounts": file_digest(self.robot.config.robot.mounts),
        }
        return {
            "version": __version__,
            "code": code_digest(),
            **asdict(self.run),
            "condition_values": load_conditions()[self.run.condition].model_dump(mode="json", exclude=IN_WORDS),
            "model": None if model is None else file_digest(model),
            "manifest": None if model is None else file_digest(manifest_path(model)),
            "robot": _digest(robot),
            "seed": self.seed,
            "sets": [source.told for source in self.sources],
            **self.also,
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation came to.

    driven:    in the order of sets and episodes; a part of them when `exit_code` is not 0
    exit_code: 0, or that of a command which a signal ended
    began, wall_s: when it was (last) started, and how long that took
    resumed:   episodes that were driven before
    partial:   file that holds the rows until `forget`
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
        """One row an episode."""
        return [driven.row for driven in self.driven]

    def summary(self) -> Summary:
        """Return the figures of all episodes."""
        return summarise(self.rows, self.plan.seed)

    def by(self, name: str) -> dict[str, Summary]:
        """Return the figures by "map" or "split"."""
        return summarise_by(name, self.rows, self.plan.seed)

    def doors(self) -> BehindDoors | None:
        """Return the episodes behind doors, None in a condition without."""
        return behind_doors(self.rows, self.plan.seed)

    def forget(self) -> None:
        """Remove the partial file, once all has been driven and told."""
        if self.exit_code == 0:
            self.partial.unlink(missing_ok=True)

    def as_json(self) -> dict[str, Any]:
        """Return plain values. Those of `run` tell how it went; all others follow from the configuration alone."""
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
    """Return where a campaign keeps its rows: beside the result, or in a folder under its configuration's digest."""
    if json_file is not None:
        return Path(f"{json_file}{PARTIAL_SUFFIX}")
    return PARTIAL_FOLDER / f"{_digest(plan.configuration())}{PARTIAL_SUFFIX}"


def evaluate(plan: Plan, partial_file: Path, title: str | None = None, drive: DriveJob | None = None) -> Evaluation:
    """Drive what is left of a plan and return what all of it came to, or a part of it after a signal.

    title: what the progress is called; the policy when None
    drive: another way to drive, which `Plan.also` tells of
    Raises OnboardError; what was driven until then is in the partial file.
    """
    began_ns = wall_ns()
    jobs = [job for source in plan.sources for job in jobs_of(source.name, source.indices, plan.seed)]
    drive = drive or EpisodeDriver(plan.run, plan.robot, {source.name: source for source in plan.sources})
    with Partial(partial_file, plan.configuration()) as partial:
        driven = {one.key: one for one in partial.driven}
        resumed = len(driven)
        left = [job for job in jobs if (job.map, job.index) not in driven]

        def keep(one: Driven) -> None:
            partial.append(one)
            driven[one.key] = one

        with CampaignProgress(title or plan.run.policy, plan.episodes) as progress:
            exit_code = _drive_all(plan, drive, left, list(driven.values()), keep, progress)
    ordered = [driven[key] for job in jobs if (key := (job.map, job.index)) in driven]
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
    """Drive what is left and return 0, or the exit code of a command that a signal ended."""
    unheard = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    try:
        with Signals():
            if unheard:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # under nohup, a campaign outlives its terminal
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
