"""Rows of made-up episodes, and ways to drive made-up jobs that worker processes can import."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from hil.evaluate.campaign import DriveResult, Job
from hil.evaluate.result import Row
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError

NO_ACTIONS = (0,) * len(ACTIONS)


def row(index: int = 0, **changes: Any) -> Row:
    """Return a success along the shortest way of 10 m, in twice the fastest time, with the changes that are asked."""
    plain: dict[str, Any] = {
        "map": "gdc1",
        "building": "GDC",
        "split": "train",
        "index": index,
        "policy": "reactive",
        "seed": 1,
        "success": True,
        "ended": "stop",
        "time_s": 20.0,
        "path_m": 10.0,
        "shortest_m": 10.0,
        "straight_m": 10.0,
        "fastest_s": 10.0,
        "contacts": 0,
        "bumps": 0,
        "min_clearance_m": 0.5,
        "distance_m": 0.1,
        "actions": NO_ACTIONS,
    }
    return Row(**{**plain, **changes})


def made_up(job: Job) -> DriveResult:
    """Return a row that follows from the job alone, and a way of three points."""
    number = job.seed % 97
    actions = tuple(number + step for step in range(len(ACTIONS)))
    driven = row(
        job.index, map=job.map, seed=job.seed, path_m=10.0 + number / 7.0, time_s=20.0 + number / 3.0, actions=actions
    )
    return DriveResult(driven, ((0.0, 0.0, 0.0), (float(job.index), 1.0, 0.5), (number / 8.0, 2.0, 1.0)))


class Killed:
    """Drives made-up jobs; the process that has a job with one of the numbers is killed, the first `times` times."""

    def __init__(self, folder: Path, indices: tuple[int, ...], times: int = 1) -> None:
        self._folder, self._indices, self._times = folder, indices, times

    def __call__(self, job: Job) -> DriveResult:
        """Leave a mark for every attempt, then drive or be killed."""
        tried = len(list(self._folder.glob(f"{job.map}-{job.index}-*")))
        (self._folder / f"{job.map}-{job.index}-{tried}").touch()
        if job.index in self._indices and tried < self._times:
            os.kill(os.getpid(), signal.SIGKILL)
        return made_up(job)


def refused(job: Job) -> DriveResult:
    """Refuse the third episode."""
    if job.index == 2:
        raise InputError("the body does not fit at (1.00, 2.00)")
    return made_up(job)


class Stranded:
    """Drives made-up jobs on a Ray cluster; on one of its nodes a job never ends, and says so in a folder."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder, self._node = folder, node

    def __call__(self, job: Job) -> DriveResult:
        """Drive, or be stranded for good."""
        import ray

        if ray.get_runtime_context().get_node_id() == self._node:
            (self._folder / str(job)).touch()
            signal.pause()
        return made_up(job)
