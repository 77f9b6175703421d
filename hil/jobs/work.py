"""Interface of the worker pools, and the pool that uses only this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from onboard.values.errors import OnboardError

MAX_ATTEMPTS = 3
"""The pool gives up when a job's workers have died this many times."""


class Work(Protocol):
    """A unit of work for a worker, for example a job or a recording to replay. Hashable; `str` returns its name."""

    @property
    def map(self) -> str:
        """Return the name of a group, for example a map. A worker keeps its group as long as the group has work."""


SomeWork = TypeVar("SomeWork", bound=Work)


Came = TypeVar("Came")


Execute = Callable[[Callable[[Any], Any], Sequence[Any]], Generator[Any, None, None]]
"""Do all work: yield each result when it is finished, in any order. No worker is left after the generator is closed.

Raises OnboardError that names the failed work.
"""


def in_this_process(drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork]) -> Generator[Came, None, None]:
    """Drive the jobs one after another in this process."""
    for job in jobs:
        try:
            driven = drive(job)
        except OnboardError as error:
            raise failed(job, str(error)) from error
        yield driven


def failed(job: Work, reason: str) -> OnboardError:
    """Return the error for a job that cannot be driven."""
    return OnboardError(f"{job}: {reason}")


def lost(job: Work, attempts: int, code: int | None) -> OnboardError:
    """Return the error for a job whose workers died `attempts` times. code: exit code of the last worker."""
    often = f" {attempts} times; last exit code: {code}" if attempts > 1 else f" with exit code {code}"
    return OnboardError(f"{job}: its worker ended{often}")
