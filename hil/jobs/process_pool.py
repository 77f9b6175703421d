"""Jobs driven by processes of this machine. One that dies is replaced, and its job driven again by another.

The standard library's `ProcessPoolExecutor` gives up all jobs when one process dies, and cannot keep it to a map.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from hil.jobs.work import MAX_ATTEMPTS, Came, SomeWork, Work, failed, lost
from onboard.system.threads import die_with_parent
from onboard.values.errors import OnboardError

END_S = 5.0
"""A worker that has not ended so long after it was asked to is killed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A worker's answer for a job that cannot be driven."""

    reason: str


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    job: Work


def in_processes(
    drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork], count: int, attempts: int = MAX_ATTEMPTS
) -> Generator[Came, None, None]:
    """Drive jobs in `count` processes, each of which stays with one map as long as that has jobs left.

    Raises OnboardError for a job that cannot be driven or that ended its worker so many times. Whatever ends
    the iteration, no worker is left.
    """
    waiting = _Waiting(jobs)
    ended: Counter[Work] = Counter()
    workers: list[_Worker] = []
    try:
        for _ in range(count):
            job = waiting.take(workers, None)
            if job is not None:
                workers.append(_start(drive, job))
        while workers:
            ready = wait([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                answer = _answer(worker)
                workers.remove(worker)
                if answer is None:
                    ended[worker.job] += 1
                    if ended[worker.job] >= attempts:
                        raise lost(worker.job, attempts, worker.process.exitcode)
                    workers.append(_start(drive, worker.job))
                    continue
                if isinstance(answer, Failure):
                    workers.append(worker)
                    raise failed(worker.job, answer.reason)
                _go_on(worker, workers, waiting)
                yield answer
    finally:
        _end(workers)


class _Waiting:
    """Jobs that nobody has yet, by map, so that a worker need not build another world than it must."""

    def __init__(self, jobs: Sequence[Work]) -> None:
        self._of_map: dict[str, deque[Work]] = {}
        for job in jobs:
            self._of_map.setdefault(job.map, deque()).append(job)

    def take(self, workers: Sequence[_Worker], map_name: str | None) -> Work | None:
        """Return a job of this map, else of the map with the most jobs to each worker, else None."""
        if map_name not in self._of_map:
            if not self._of_map:
                return None
            busy = Counter(worker.job.map for worker in workers)
            map_name = max(self._of_map, key=lambda name: len(self._of_map[name]) / (1 + busy[name]))
        jobs = self._of_map[map_name]
        job = jobs.popleft()
        if not jobs:
            del self._of_map[map_name]
        return job


def _start(drive: Callable[[Any], Any], job: Work) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, os.getpid(), drive))
    with interrupts_unheard():
        process.start()
    theirs.close()
    ours.send(job)
    return _Worker(process, ours, job)


@contextlib.contextmanager
def interrupts_unheard() -> Iterator[None]:
    """Let processes started meanwhile never hear Ctrl-C, which a terminal sends to all: who started them ends them."""
    # What multiprocessing starts with the first process would unblock the signal in between.
    resource_tracker.ensure_running()
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _answer(worker: _Worker) -> Any:
    """Return what a worker says, maybe a `Failure`; None when it has died."""
    try:
        answer = worker.connection.recv()
    except (EOFError, ConnectionError):
        _wait_for(worker)
        worker.connection.close()
        return None
    return answer


def _go_on(worker: _Worker, workers: list[_Worker], waiting: _Waiting) -> None:
    """Give a worker its next job and keep it among the workers, or let it end."""
    job = waiting.take(workers, worker.job.map)
    if job is None:
        worker.connection.close()
        _wait_for(worker)
        return
    worker.job = job
    workers.append(worker)
    try:
        worker.connection.send(job)
    except ConnectionError:
        # It died after its answer; its end of the connection will say so, and the job is driven again.
        return


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
        worker.connection.close()
    for worker in workers:
        _wait_for(worker)


def _wait_for(worker: _Worker) -> None:
    """Return when a worker that is about to end has ended, and see to it that it does."""
    worker.process.join(END_S)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _work(connection: Connection, parent: int, drive: Callable[[Any], Any]) -> None:
    """Drive jobs as they come, until the other end is closed or the parent ends."""
    try:
        die_with_parent(parent)
    except ProcessLookupError:
        return
    while True:
        try:
            job = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = drive(job)
        except OnboardError as error:
            answer = Failure(str(error))
        try:
            connection.send(answer)
        except ConnectionError:
            return
