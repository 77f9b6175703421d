"""Many episodes: what is to be driven, by whom, and what is kept of it as it comes.

How a job is driven is a function, `DriveJob`, which workers can be sent. Its answer depends on the job alone, so that
neither the order nor the number of workers changes a result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hil.evaluate.result import Row
from onboard.errors import OnboardError

MAX_ATTEMPTS = 3
"""So often may a job take its worker with it."""
SEED_BYTES = 4


@dataclass(frozen=True, slots=True)
class Job:
    """One episode of one set, and the seed of its noise."""

    map: str
    index: int
    seed: int

    def __str__(self) -> str:
        return f"{self.map} episode {self.index}"


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a job: its row, and the way driven as (x [m], y [m], yaw [rad]) in the map frame, for pictures."""

    row: Row
    path: tuple[tuple[float, float, float], ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """Which episode this is."""
        return self.row.map, self.row.index


class Work(Protocol):
    """What workers can be sent: a job here, recordings to replay elsewhere. Hashable; its text names it."""

    @property
    def map(self) -> str:
        """Return what a worker should stay with as long as there is work of it."""


SomeWork = TypeVar("SomeWork", bound=Work)
Came = TypeVar("Came")

DriveJob = Callable[[Job], Driven]
Execute = Callable[[Callable[[Any], Any], Sequence[Any]], Generator[Any, None, None]]
"""Does work: yields what came of it, as it comes, in any order. Closed, it leaves no worker behind.

Raises OnboardError naming the work that cannot be done.
"""


def jobs_of(map_name: str, episodes: Iterable[int], seed: int) -> list[Job]:
    """Return the jobs of one set. episodes: which of it."""
    return [Job(map_name, index, noise_seed(seed, map_name, index)) for index in episodes]


def noise_seed(seed: int, map_name: str, index: int) -> int:
    """Return the seed of one episode's noise, which depends on these three alone."""
    text = f"{seed}/{map_name}/{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "big")


def in_this_process(drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork]) -> Generator[Came, None, None]:
    """Drive one after the other here."""
    for job in jobs:
        try:
            driven = drive(job)
        except OnboardError as error:
            raise failed(job, str(error)) from error
        yield driven


def failed(job: Work, reason: str) -> OnboardError:
    """Return the error of a job that cannot be driven, whoever tried."""
    return OnboardError(f"{job}: {reason}")


def lost_too_often(job: Work, reason: str) -> OnboardError:
    """Return the error of a job whose workers ended before it did, `MAX_ATTEMPTS` times."""
    return OnboardError(f"{job}: its worker ended {MAX_ATTEMPTS} times, at last with {reason}")
