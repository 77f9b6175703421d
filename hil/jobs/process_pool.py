"""Drive jobs in processes of this machine. A new process replaces a dead process and drives its job again.

The standard library's `ProcessPoolExecutor` gives up all jobs when a process dies. It also cannot give a process
several jobs of the same map.
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
"""The pool kills a worker that has not ended within this timeout."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer of a worker whose job raised OnboardError. reason: the error's message."""

    reason: str


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    job: Work


def in_processes(
    drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork], count: int, attempts: int = MAX_ATTEMPTS
) -> Generator[Came, None, None]:
    """Yield the results of jobs from `count` processes. A process keeps its map as long as the map has jobs.

    Raises OnboardError for a job that cannot be driven, or whose workers died `attempts` times. No worker is left after
    the iteration, even if the caller closes it early.
    """
    waiting = _JobQueue(jobs)
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


class _JobQueue:
    """Jobs that wait for a worker, by map, so that a worker builds few worlds."""

    def __init__(self, jobs: Sequence[Work]) -> None:
        self._of_map: dict[str, deque[Work]] = {}
        for job in jobs:
            self._of_map.setdefault(job.map, deque()).append(job)

    def take(self, workers: Sequence[_Worker], map_name: str | None) -> Work | None:
        """Return a job of this map; else a job of the map with the most jobs per worker; None if no job waits."""
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
    with interrupts_ignored():
        process.start()
    theirs.close()
    ours.send(job)
    return _Worker(process, ours, job)


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Block SIGINT in processes started in this context: a terminal sends Ctrl-C to all, but the pool ends workers."""
    # Start the resource tracker first: multiprocessing starts it with the first process, and that unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _answer(worker: _Worker) -> Any:
    """Return the answer of a worker: a result or a `Failure`; None if the worker died."""
    try:
        answer = worker.connection.recv()
    except (EOFError, ConnectionError):
        _wait_for(worker)
        worker.connection.close()
        return None
    return answer


def _go_on(worker: _Worker, workers: list[_Worker], waiting: _JobQueue) -> None:
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
        # The worker died after its answer. `_answer` will see the closed connection; another worker drives the job.
        return


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
        worker.connection.close()
    for worker in workers:
        _wait_for(worker)


def _wait_for(worker: _Worker) -> None:
    """Wait until a worker has ended; kill it after `END_S`."""
    worker.process.join(END_S)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _work(connection: Connection, parent: int, drive: Callable[[Any], Any]) -> None:
    """Drive the jobs from a connection until the pool closes it or the parent ends. Runs in the worker."""
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
