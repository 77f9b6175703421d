"""What a pool of workers is given and gives back, and the pool that is this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from onboard.values.errors import OnboardError

MAX_ATTEMPTS = 3
"""So often may a job take its worker with it."""


class Work(Protocol):
    """What workers can be sent: a job here, recordings to replay elsewhere. Hashable; its text names it."""

    @property
    def map(self) -> str:
        """Return what a worker should stay with as long as there is work of it."""


SomeWork = TypeVar("SomeWork", bound=Work)


Came = TypeVar("Came")


Execute = Callable[[Callable[[Any], Any], Sequence[Any]], Generator[Any, None, None]]
"""Does work: yields what came of it, as it comes, in any order. Closed, it leaves no worker behind.

Raises OnboardError naming the work that cannot be done.
"""


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


def lost(job: Work, attempts: int, code: int | None) -> OnboardError:
    """Return the error of a job whose workers ended before it did, so many times."""
    often = f" {attempts} times, at last" if attempts > 1 else ""
    return OnboardError(f"{job}: its worker ended{often} with exit code {code}")
