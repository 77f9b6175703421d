"""Run an evaluation: drive the remaining episodes, store each result at once, and return the figures of all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from hil.drive.conditions import load_conditions
from hil.evaluate.baselines.registry import POLICIES, model_of
from hil.evaluate.campaign import DriveJob, DriveResult, Job, PartialResults, jobs_of
from hil.evaluate.episode import EpisodeDriver, RobotFiles, Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.metrics import DoorFigures, Summary, behind_doors, summarise, summarise_by
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
    "robot": {"mounts", "plant"}, "policy": {"fallback"}, "scan": {"laser", "no_return", "noise_per_m", "move_images"},
    "limits_scan": {"laser", "no_return"},
}  # fmt: skip
"""Keys that the robot's digest leaves out: stated elsewhere, or without effect on scans cast into base_link."""
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
    driven: Sequence[DriveResult]
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

    def doors(self) -> DoorFigures | None:
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
    """Return the path of the partial file: next to `json_file`; without it in `PARTIAL_FOLDER`, named by a digest."""
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
    with PartialResults(partial_file, plan.configuration()) as partial:
        driven = {one.key: one for one in partial.driven}
        resumed = len(driven)
        left = [job for job in jobs if job.key not in driven]

        def keep(one: DriveResult) -> None:
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
    before: Sequence[DriveResult],
    keep: Callable[[DriveResult], None],
    progress: CampaignProgress,
) -> int:
    """Drive the remaining jobs. Return 0, or the exit code for the signal that ended the command."""
    hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    try:
        with Signals() as signals:
            if hangup_ignored:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # under nohup, the campaign continues without its terminal
            progress.resume([one.row for one in before])
            with contextlib.closing(executor(plan.jobs, plan.ray)(drive, left)) as coming:
                for one in coming:
                    signals.check()  # a kernel drops the exception of a signal, and its drive then counts as failed
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


# ---- Progress of a campaign on standard error: a bar on a terminal; elsewhere a line every `LINE_EVERY_S`

LINE_EVERY_S = 10.0
BAR = 12
"""Width of the bar [characters]: with it the line fits a terminal of 80."""


class CampaignProgress:
    """Counts rows and shows success rate and contacts so far. Use as a context manager."""

    def __init__(self, title: str, total: int) -> None:
        self._console = Console(stderr=True)
        self._title = title
        self._total = total
        self._done = self._arrived = self._contacts = 0
        self._line_due_s = 0.0
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            BarColumn(bar_width=BAR),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            expand=True,
            console=self._console,
        )
        self._task = self._progress.add_task(title, total=total, figures="")

    def __enter__(self) -> CampaignProgress:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def resume(self, rows: Sequence[Row]) -> None:
        """Count the rows of earlier starts."""
        if rows:
            self._console.print(
                f"{self._title}: continuing after {len(rows)} of {self._total} episodes", highlight=False
            )
        for row in rows:
            self._count(row)
        if self._done:
            self._progress.update(self._task, completed=self._done, figures=self._figures())

    def add(self, row: Row) -> None:
        """Count a row and update the display."""
        self._count(row)
        if self._console.is_terminal:
            self._progress.update(self._task, completed=self._done, figures=self._figures())
        elif time.monotonic() >= self._line_due_s or self._done == self._total:
            self._line_due_s = time.monotonic() + LINE_EVERY_S
            line = f"{self._title}: {self._done} of {self._total} episodes, {self._figures()}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _count(self, row: Row) -> None:
        self._done += 1
        self._arrived += row.success
        self._contacts += row.contacts

    def _figures(self) -> str:
        return f"SR {100.0 * self._arrived / self._done:.0f} %, {self._contacts} contacts"
